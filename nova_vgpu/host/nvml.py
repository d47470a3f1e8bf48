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

"""NVML, the library of NVIDIA's driver, where every call may fail.

It comes with the driver, its binding with the package nvidia-ml-py; a host may
lack either. An answer that NVML does not give is None.

A call that hangs in the driver cannot be interrupted. It blocks a thread of
its own, and until that ends NVML is not asked again.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import types
import typing

from nova_vgpu import values
from nova_vgpu.host import hanging_calls

_Answer = typing.TypeVar('_Answer')

#: How long NVML may take.
SECONDS = 30.0

#: NVIDIA's driver for the GPUs that NVML knows.
DRIVER = 'nvidia'


class UnavailableError(Exception):
    """NVML cannot be used; the text is the reason."""


class Library:
    """NVML while it is open."""

    def __init__(self, pynvml: types.ModuleType) -> None:
        self._pynvml = pynvml

    def ask(
        self,
        function: str,
        read: Callable[[typing.Any], _Answer],
        *arguments: typing.Any,
    ) -> _Answer | None:
        """The result of a function; None if it fails or does not exist.

        The binding decodes texts, some of which guests send.
        """
        asked = getattr(self._pynvml, function, None)
        if asked is None:
            return None  # an older binding
        try:
            answer = asked(*arguments)
        except (self._pynvml.NVMLError, UnicodeDecodeError):
            return None
        return read(answer)

    def find_gpu(self, address: values.PciAddress) -> typing.Any:
        """The handle of a GPU; None if NVML does not know it."""
        return self.ask(
            'nvmlDeviceGetHandleByPciBusId', lambda found: found, str(address)
        )


def use(
    work: Callable[[Library], _Answer], seconds: float = SECONDS
) -> _Answer:
    """Open NVML, do something with it and close it.

    :raises UnavailableError: if NVML cannot be opened, or hangs.
    """

    def run() -> _Answer:
        with _open_library() as library:
            return work(library)

    try:
        return hanging_calls.call(run, 'NVML', seconds)
    except hanging_calls.StillHangsError as error:
        raise UnavailableError(
            'an earlier call to NVML has not returned'
        ) from error
    except hanging_calls.TimedOutError as error:
        raise UnavailableError(
            f'NVML did not answer within {seconds:g} s'
        ) from error


@contextlib.contextmanager
def _open_library() -> Iterator[Library]:
    """Open NVML for as long as the context lasts.

    :raises UnavailableError: if that fails.
    """
    try:
        import pynvml
    except ImportError as error:
        raise UnavailableError(
            'the Python package nvidia-ml-py is not installed'
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise UnavailableError(f'NVML failed: {error}') from error
    library = Library(pynvml)
    try:
        yield library
    finally:
        library.ask('nvmlShutdown', lambda _: None)


def list_addresses(host: values.Host) -> list[values.PciAddress]:
    """The GPUs that NVIDIA's driver has, and NVML therefore knows."""
    return [
        gpu.address
        for gpu in host.gpus
        if gpu.address is not None and gpu.driver == DRIVER
    ]


def parse_text(answer: str | bytes) -> str:
    """A text of NVML; older bindings return bytes."""
    if isinstance(answer, bytes):
        return answer.decode('utf-8', 'replace')
    return answer
