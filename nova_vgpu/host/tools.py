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


"""Run the vendor's programs, without a shell and with a timeout.

The output of a program goes to a file in memory and not to a pipe: if this
process is killed, the program continues to its end instead of failing at its
next line of output, which would leave a GPU in between. A full disk does not
stop it either.
"""

from collections.abc import Sequence
import contextlib
import dataclasses
import os
import signal
import subprocess
import typing

_MOST_BYTES = 65536
_SHOWN = 400
_ENVIRONMENT = {
    'PATH': '/usr/sbin:/usr/bin:/sbin:/bin',
    'LC_ALL': 'C',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """The exit code of a program, and its standard output and error."""

    code: int
    output: str

    @property
    def said(self) -> str:
        """The beginning of the output on one line, for messages."""
        return ' '.join(self.output.split())[:_SHOWN] or 'nothing'


class MissingError(Exception):
    """The program does not exist, or this user may not run it."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(program, reason)
        self.program = program
        self.reason = reason

    def __str__(self) -> str:
        return f'{self.program}: {self.reason}'


class TimedOut(Exception):
    """The program timed out and was killed."""

    def __init__(self, program: str, seconds: float) -> None:
        super().__init__(program, seconds)
        self.program = program
        self.seconds = seconds

    def __str__(self) -> str:
        return f'{self.program} timed out after {self.seconds:g} s'


class Run(typing.Protocol):
    """What runs programs: :func:`run`, or a simulation."""

    def __call__(
        self,
        argv: Sequence[str],
        seconds: float,
        keep: Sequence[int] = (),
    ) -> Finished: ...


def run(
    argv: Sequence[str], seconds: float, keep: Sequence[int] = ()
) -> Finished:
    """Run a program, given by its absolute path.

    :param keep: descriptors that the program inherits, such as that of a lock
        that it is to hold until it ends.
    :raises MissingError: if the program cannot be run.
    :raises TimedOut: if it takes too long; it is killed with all
        programs that it started.
    """
    program = argv[0]
    if not os.path.isabs(program):
        raise MissingError(program, 'is not an absolute path')
    with open(os.memfd_create('output'), 'w+b') as output:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd='/',
                env=_ENVIRONMENT,
                pass_fds=tuple(keep),
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise MissingError(program, reason) from error
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            _kill(process)
            raise TimedOut(program, seconds) from error
        output.seek(0)
        text = output.read(_MOST_BYTES).decode('utf-8', 'replace')
    return Finished(code, text.strip())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all programs that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
