#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Commands in the guest, by QEMU's guest agent.

The agent takes one JSON object to a line over a virtio port, which QEMU shows
as a socket of this machine. What a command prints does not come that way: it
goes to a second port, as it is printed, which QEMU writes to a file. So does
its exit code, after a word that is made up for it: to ask the agent for it
again and again would take a tenth of an emulated machine.
"""

from collections.abc import Sequence
import json
import os
import pathlib
import re
import secrets
import socket
import time
import typing

#: The port that the guest prints to.
OUTPUT = '/dev/virtio-ports/nova-vgpu-lab.output'
#: The agent may answer before udev has named that port. A shell would make a
#: file of the name then.
AWAIT_OUTPUT = f'test -c {OUTPUT} || udevadm wait --timeout=60 {OUTPUT}'

_POLL_SECONDS = 0.1
# One answer of an agent under emulation, on a busy machine.
_ANSWER_SECONDS = 60.0
# How often to ask whether it is still there.
_LOOK_SECONDS = 10.0
# How often to ask while it boots: what is asked meanwhile waits for it.
_SYNCHRONISE_SECONDS = 5.0


class Unreachable(Exception):
    """The guest does not answer."""


class Agent:
    """The guest agent behind a socket, and the file of its output."""

    def __init__(self, path: pathlib.Path, output: pathlib.Path) -> None:
        self._path = path
        self._output = output
        self._socket: socket.socket | None = None
        self._pending = b''

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._pending = None, b''

    def wait(self, seconds: float, alive: typing.Callable[[], bool]) -> None:
        """Wait until the agent answers.

        :raises Unreachable: if it does not, or the guest has ended.
        """
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and alive():
            try:
                self._synchronise()
                return
            except Unreachable:
                time.sleep(_POLL_SECONDS)
        raise Unreachable(
            'The guest ended.'
            if not alive()
            else f'The guest does not answer after {seconds:.0f} s.'
        )

    def run(
        self,
        argv: Sequence[str],
        seconds: float,
        show: typing.Callable[[str], object],
    ) -> int:
        """Run a program as root; gives its exit code.

        :param show: gets what it prints, line by line.
        :raises Unreachable: if the guest ends, or the program does not.
        """
        # The output is a port: a shell opens it, the arguments are its own.
        word = secrets.token_hex(16)
        printing = f'{{ "$@"; echo {word} $?; }} > {OUTPUT} 2>&1'
        script = f'{AWAIT_OUTPUT}; {printing}'
        # The script itself may be printed: the agent logs it.
        last = re.compile(rb'%s (\d+)$' % word.encode())
        command = ['-c', script, 'sh', *argv]
        with open(self._output, 'rb') as output:
            output.seek(0, os.SEEK_END)
            begun = self._ask(
                'guest-exec', {'path': '/bin/sh', 'arg': command}
            )
            ends = time.monotonic() + seconds
            fault = f'did not end after {seconds:.0f} s'
            look_at = time.monotonic() + _LOOK_SECONDS
            text = b''
            while True:
                text += output.read()
                *lines, text = text.split(b'\n')
                for line in lines:
                    end = last.search(line)
                    said = line[: end.start()] if end else line
                    if said or not end:
                        show(f'{said.decode(errors="replace")}\n')
                    if end:
                        return int(end[1])
                if time.monotonic() > ends:
                    raise Unreachable(f'{" ".join(argv)} {fault}.')
                if time.monotonic() > look_at:
                    pid = {'pid': begun['pid']}
                    if self._ask('guest-exec-status', pid)['exited']:
                        # What it printed is on its way, if there is any.
                        look_at = ends = time.monotonic() + _ANSWER_SECONDS
                        fault = 'ended, and did not say how'
                    else:
                        look_at = time.monotonic() + _LOOK_SECONDS
                time.sleep(_POLL_SECONDS)

    def reboot(self) -> None:
        """Ask for a reboot in good order, which ends all that runs."""
        self._send('guest-exec', {'path': '/bin/systemctl', 'arg': ['reboot']})

    # -- the protocol ---------------------------------------------------------

    def _synchronise(self) -> None:
        """Ask for a sign of life, over what was asked and answered before."""
        if self._socket is None:
            self._socket = self._connect()
        self._socket.settimeout(_SYNCHRONISE_SECONDS)
        number = time.monotonic_ns() % 2**31
        # At 0xff the agent complains, and drops what it had of a line.
        self._send_bytes(b'\xff')
        self._send('guest-sync', {'id': number})
        while self._receive().get('return') != number:
            pass
        self._socket.settimeout(_ANSWER_SECONDS)

    def _ask(self, what: str, arguments: dict[str, typing.Any]) -> typing.Any:
        self._send(what, arguments)
        answer = self._receive()
        if 'error' in answer:
            raise Unreachable(f'The guest agent: {answer["error"]["desc"]}')
        return answer['return']

    def _send(self, what: str, arguments: dict[str, typing.Any]) -> None:
        request = {'execute': what, 'arguments': arguments}
        self._send_bytes(json.dumps(request).encode() + b'\n')

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self._path))
        except OSError as error:
            connection.close()
            raise Unreachable(f'There is no guest: {error}') from error
        return connection

    def _send_bytes(self, data: bytes) -> None:
        if self._socket is None:
            raise Unreachable('There is no connection to the guest.')
        try:
            self._socket.sendall(data)
        except OSError as error:
            self.close()
            raise Unreachable(f'The guest takes nothing: {error}') from error

    def _receive(self) -> dict[str, typing.Any]:
        if self._socket is None:
            raise Unreachable('There is no connection to the guest.')
        while b'\n' not in self._pending:
            try:
                more = self._socket.recv(65536)
            except OSError as error:
                raise Unreachable(f'The guest is silent: {error}') from error
            if not more:
                self.close()
                raise Unreachable('The guest hung up.')
            self._pending += more
        line, _, self._pending = self._pending.partition(b'\n')
        answer: dict[str, typing.Any] = json.loads(line)
        return answer
