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

"""Nova's own driver and this project's, side by side on one machine."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import itertools
import logging
import os
import pathlib
import typing

# Native threads, as nova-compute has them by default.
os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'

import libvirt
from nova import config
from nova import objects
from nova.compute import provider_tree
from nova.virt.libvirt import driver as libvirt_driver

from benchmarks import machines
from benchmarks import report
from nova_vgpu.compute import driver as vgpu_driver
from nova_vgpu.host import files

NODE = 'node'
_UUIDS = map('00000000-0000-0000-0000-{:012d}'.format, itertools.count(1))
#: These make no call to the daemon: the library has the answer.
_LOCAL = ('Free', 'GetName', 'GetUUIDString', 'virGetLastError')

Tree = typing.Any  # nova.compute.provider_tree.ProviderTree
Driver = typing.Any


class CountingFiles(files.Files):
    """Files that count what is asked of them."""

    asked = 0

    def read(self, *parts: str) -> str:
        self.asked += 1
        return super().read(*parts)

    def list(self, *parts: str) -> tuple[str, ...]:
        self.asked += 1
        return super().list(*parts)

    def list_marked(self, *parts: str) -> Mapping[str, object]:
        self.asked += 1
        return super().list_marked(*parts)

    def link(self, *parts: str) -> str:
        self.asked += 1
        return super().link(*parts)

    def mark(self, *parts: str) -> object:
        self.asked += 1
        return super().mark(*parts)


class CountingModule:
    """libvirt's C module, with a count of what is asked through it."""

    def __init__(self, module: typing.Any) -> None:
        self._module = module
        self.calls = 0
        self.bytes = 0

    def __getattr__(self, name: str) -> Callable[..., typing.Any]:
        function = getattr(self._module, name)
        if name.endswith(_LOCAL):
            return typing.cast('Callable[..., typing.Any]', function)

        def call(*arguments: typing.Any) -> typing.Any:
            self.calls += 1
            answer = function(*arguments)
            if isinstance(answer, str):
                self.bytes += len(answer)
            return answer

        return call


def configure(directory: pathlib.Path) -> None:
    """Let Nova read a configuration that both drivers understand."""
    path = directory / 'nova.conf'
    (directory / 'locks').mkdir()
    path.write_text(
        f'[DEFAULT]\nhost = {NODE}\nstate_path = {directory}\n'
        f'[devices]\nenabled_mdev_types = {machines.TYPE}\n'
        f'[oslo_concurrency]\nlock_path = {directory}/locks\n'
    )
    config.parse_args(
        ['nova-compute', '--config-file', str(path)],
        configure_db=False,
        init_rpc=False,
    )
    objects.register_all()
    # Logging is not measured, on either side.
    logging.disable(logging.CRITICAL)
    libvirt.registerErrorHandler(lambda _context, _error: None, None)


class Side:
    """One driver on a machine, and what it publishes."""

    def __init__(
        self,
        name: str,
        machine: machines.Machine,
        connect: Callable[[], typing.Any],
    ) -> None:
        self.name = name
        self.machine = machine
        self.connect = connect
        self.files = CountingFiles(str(machine.sysfs))
        self.start()

    def start(self) -> None:
        """Start with a new driver and without providers."""
        virtapi: typing.Any = None
        if self.name == report.STOCK:
            self.driver: Driver = libvirt_driver.LibvirtDriver(virtapi)
        else:
            self.driver = vgpu_driver.LibvirtVGPUDriver(virtapi)
            # An attribute of the class for all others.
            its_planner = self.driver.vgpus.planner
            its_planner.sysfs = self.files
            its_planner.state_path = str(self.machine.directory / 'state')
        self.driver._host.get_connection = self.connect
        self.tree: Tree = provider_tree.ProviderTree()
        self.tree.new_root(NODE, next(_UUIDS))

    def update(self) -> None:
        """What Nova does every minute, as far as vGPUs go."""
        self.driver._update_provider_tree_for_vgpu(self.tree, NODE)
        self.driver.provider_tree = self.tree

    def count_changes(self) -> int:
        """How many providers an update changes: Nova would write these."""
        before = self._snapshot()
        self.update()
        after = self._snapshot()
        return sum(
            before.get(name) != after.get(name)
            for name in before.keys() | after.keys()
        )

    def _snapshot(self) -> dict[str, typing.Any]:
        found = map(self.tree.data, self.tree.get_provider_uuids(NODE))
        return {p.name: (p.inventory, frozenset(p.traits)) for p in found}


@contextlib.contextmanager
def counted(side: Side, counts: dict[str, float]) -> Iterator[None]:
    """Count what is asked meanwhile; slower, so it is not measured."""
    real = libvirt.libvirtmod
    module = libvirt.libvirtmod = CountingModule(real)
    fake = side.connect()
    calls, size = getattr(fake, 'calls', 0), getattr(fake, 'bytes', 0)
    asked = side.files.asked
    try:
        yield
    finally:
        libvirt.libvirtmod = real
    counts['libvirt calls'] = module.calls + getattr(fake, 'calls', 0) - calls
    counts['bytes of XML'] = module.bytes + getattr(fake, 'bytes', 0) - size
    counts['files read'] = side.files.asked - asked
