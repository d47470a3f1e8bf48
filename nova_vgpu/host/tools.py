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


"""The vendor's programs: run without a shell, until a deadline.

What a program prints goes to a file in memory and not to a pipe: if this
process is killed, a program in the middle of its work goes on to its end
instead of dying of its next line of output, which would leave a GPU half way.
Nor does a full disk end it.
"""

from collections.abc import Sequence
import contextlib
import dataclasses
import os
import signal
import subprocess
import typing

_MOST_BYTES = 65536
_ENVIRONMENT = {
    'PATH': '/usr/sbin:/usr/bin:/sbin:/bin',
    'LC_ALL': 'C',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended, and what it printed on both of its outputs."""

    code: int
    output: str


class MissingError(Exception):
    """There is no such program, or this user may not run it."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(program, reason)
        self.program = program
        self.reason = reason

    def __str__(self) -> str:
        return f'{self.program}: {self.reason}'


class TimedOut(Exception):
    """The program did not end by its deadline and was killed."""

    def __init__(self, program: str, seconds: float) -> None:
        super().__init__(program, seconds)
        self.program = program
        self.seconds = seconds

    def __str__(self) -> str:
        return f'{self.program} did not end within {self.seconds:g} seconds'


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
    """Run a program, which is named by its whole path.

    :param keep: descriptors that stay open in the program, such as that of a
        lock that is to be held for as long as it works.
    :raises MissingError: if there is no such program.
    :raises TimedOut: if it takes too long; it is killed then, and whatever it
        started with it.
    """
    program = argv[0]
    if not os.path.isabs(program):
        raise MissingError(program, 'is not a whole path')
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
    """End a program and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
