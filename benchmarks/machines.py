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

"""Hosts to measure on: the same one as sysfs and as libvirt.

sysfs is a tree of files in memory (a tmpfs, if there is one). libvirt is the
real library with its own test driver, which serves node devices and guests but
makes no mdevs; :mod:`benchmarks.fake_libvirt` does.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import os
import pathlib
import tempfile
import typing
import uuid

import libvirt

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import node_devices
from nova_vgpu.sandbox import tree

#: The type that is declared; there are as many of it as there are VFs.
TYPE = 'nvidia-557'
_FIRST_NUMBER = 557
_MEMORY = pathlib.Path('/dev/shm')  # noqa: S108 (a directory of our own in it)
_GUEST = """<domain type='test'>
  <name>instance-{number:08x}</name><uuid>{uuid}</uuid>
  <memory unit='KiB'>2097152</memory><vcpu>4</vcpu>
  <os><type>hvm</type></os>
  <devices>
    <disk type='file' device='disk'>
      <source file='/var/lib/nova/instances/{uuid}/disk'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <interface type='bridge'>
      <source bridge='br-int'/><model type='virtio'/>
    </interface>
    {hostdevs}
  </devices>
</domain>"""
_HOSTDEV = """<hostdev mode='subsystem' type='mdev' model='vfio-pci'>
  <source><address uuid='{uuid}'/></source>
</hostdev>"""


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """How large a host is, and which part of its functions has vGPUs."""

    gpus: int = 16
    vfs: int = 48
    types: int = 23
    used: float = 0.5

    def scene(self) -> dict[str, typing.Any]:
        return {
            'GPUs': self.gpus,
            'VFs': self.vfs,
            'types': self.types,
            'used': f'{self.used:.0%}',
        }


def make_host(size: Size) -> simulation.SimulatedHost:
    """GPUs of which the first VFs have vGPUs."""
    board = _make_board(size)
    made = tuple(
        simulation.Created(TYPE, vf) for vf in range(int(size.vfs * size.used))
    )
    return simulation.SimulatedHost(
        tuple(
            simulation.GPU(
                values.PciAddress(0, 0x10 + number, 0, 0),
                board,
                vfs=size.vfs,
                created=made,
            )
            for number in range(size.gpus)
        )
    )


def _make_board(size: Size) -> boards.Board:
    types = []
    for number in range(size.types):
        gigabytes = number + 1
        maximum = max(size.vfs // gigabytes, 1)
        types.append(
            boards.BoardType(
                id=f'nvidia-{_FIRST_NUMBER + number}',
                name=f'NVIDIA A40-{gigabytes}Q',
                framebuffer_mib=gigabytes * 1024,
                maximum=maximum,
                description=(
                    f'num_heads=4, frl_config=60, '
                    f'framebuffer={gigabytes * 1024}M, '
                    f'max_resolution=7680x4320, max_instance={maximum}'
                ),
                number=_FIRST_NUMBER + number,
            )
        )
    return dataclasses.replace(
        boards.A40, types=tuple(types), total_vfs=size.vfs
    )


class Machine:
    """A host whose vGPUs come and go, as files and as descriptions."""

    def __init__(self, size: Size, directory: pathlib.Path) -> None:
        self.size = size
        self.directory = directory
        self.sysfs = directory / 'sys'
        self.host = make_host(size)
        tree.write_tree(self.host, self.sysfs)
        (self.sysfs / 'bus/mdev/devices').mkdir(parents=True, exist_ok=True)
        self._opened: dict[simulation.SimulatedHost, libvirt.virConnect] = {}

    @property
    def mdevs(self) -> list[str]:
        """The UUIDs of all mdevs."""
        return [
            found
            for gpu in self.host.gpus
            for vf in range(gpu.vfs)
            for found, _ in gpu.mdevs(vf)
        ]

    def connect(self) -> libvirt.virConnect:
        """Real libvirt with its test driver, for the host as it is now."""
        if self.host not in self._opened:
            path = self.directory / f'node{len(self._opened)}.xml'
            path.write_text(node_devices.write_node_xml(self.host))
            connection = libvirt.open(f'test://{path}')
            for number, found in enumerate(self.mdevs):
                domain = connection.defineXML(make_guest(number, [found]))
                domain.create()
            self._opened[self.host] = connection
        return self._opened[self.host]

    def close(self) -> None:
        for connection in self._opened.values():
            connection.close()

    def replace(self, index: int, gpu: simulation.GPU) -> None:
        """Let a GPU have other vGPUs, and write what differs of it."""
        gpus = list(self.host.gpus)
        before, gpus[index] = State(gpus[index]), gpu
        self.host = dataclasses.replace(self.host, gpus=tuple(gpus))
        after = State(gpu)
        for vf, address in enumerate(gpu.vf_addresses):
            function = self.sysfs / 'bus/pci/devices' / str(address)
            if before.left != after.left or before.on[vf] != after.on[vf]:
                _write_changes(self.sysfs, function, before, after, vf)


class State:
    """What a GPU has, and what is left of each type, counted once."""

    def __init__(self, gpu: simulation.GPU) -> None:
        self.left = {t.id: gpu.left(t) for t in gpu.board.types}
        self.on: dict[int | None, set[tuple[str, str]]] = {
            vf: set() for vf in range(gpu.vfs)
        }
        for created in gpu.pinned():
            self.on[created.vf].add((created.uuid or '', created.type_id))

    def available(self, type_id: str, vf: int) -> int:
        return 0 if self.on[vf] else min(self.left[type_id], 1)


def _write_changes(
    root: pathlib.Path,
    function: pathlib.Path,
    before: State,
    after: State,
    vf: int,
) -> None:
    for type_id in after.left:
        available = after.available(type_id, vf)
        if before.available(type_id, vf) != available:
            directory = function / 'mdev_supported_types' / type_id
            (directory / 'available_instances').write_text(f'{available}\n')
    on_bus = root / 'bus/mdev/devices'
    for found, _ in before.on[vf] - after.on[vf]:
        (on_bus / found).unlink()
        (function / found / 'mdev_type').unlink()
        (function / found).rmdir()
    for found, type_id in after.on[vf] - before.on[vf]:
        (function / found).mkdir()
        (function / found / 'mdev_type').symlink_to(
            f'../mdev_supported_types/{type_id}'
        )
        target = os.path.relpath(function.resolve() / found, on_bus)
        (on_bus / found).symlink_to(target)


@contextlib.contextmanager
def machine(size: Size) -> Iterator[Machine]:
    """A machine that is gone in the end."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        made = Machine(size, pathlib.Path(name))
        try:
            yield made
        finally:
            made.close()


def make_guest(number: int, mdevs: list[str]) -> str:
    """The definition of a guest that has these mdevs."""
    return _GUEST.format(
        number=number,
        uuid=uuid.UUID(int=number + 1),
        hostdevs=''.join(_HOSTDEV.format(uuid=found) for found in mdevs),
    )
