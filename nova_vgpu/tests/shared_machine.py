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

"""A simulated machine in a process of its own, for several others."""

import multiprocessing
from multiprocessing import managers
import typing

from nova_vgpu.host import files
from nova_vgpu.sandbox import machine as simulated


class SharedFiles(files.Files):
    """sysfs of a machine that is in another process."""

    def __init__(self, proxy: typing.Any, root: str = '/sys') -> None:
        super().__init__(root)
        self._proxy = proxy

    def read(self, *parts: str) -> str:
        return str(self._proxy.read(*parts))

    def list(self, *parts: str) -> tuple[str, ...]:
        return tuple(self._proxy.list(*parts))

    def list_marked(self, *parts: str) -> dict[str, object]:
        """Extends the list: every entry counts as changed."""
        return dict.fromkeys(self.list(*parts), self.mark(*parts))

    def mark(self, *parts: str) -> object:
        return object()

    def link(self, *parts: str) -> str:
        return str(self._proxy.link(*parts))

    def write(self, text: str, *parts: str) -> None:
        self._proxy.write(text, *parts)


class SharedMachine(managers.BaseManager):
    """A machine in a process of its own, for others to use."""


def share(machine: simulated.Machine) -> managers.BaseManager:
    """A manager, to be started, that serves this machine.

    The parts of the machine are what its methods ``files``, ``kernel``,
    ``clock``, ``tools``, ``libvirt`` and ``machine`` return.
    """

    class Shared(SharedMachine):
        pass

    parts = {
        'files': machine.kernel.files,
        'kernel': machine.kernel,
        'clock': machine.kernel.clock,
        'tools': machine.tools,
        'libvirt': machine.libvirt,
        'machine': machine,
    }
    for name, part in parts.items():
        Shared.register(name, callable=lambda part=part: part)
    # Forked, so that it starts as the machine is now.
    return Shared(ctx=multiprocessing.get_context('fork'))
