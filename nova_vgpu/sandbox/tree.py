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

"""A simulated host as a sysfs tree, laid out as the kernel does it.

Devices live below ``devices``; ``bus/pci/devices``, ``class/mdev_bus`` and
``bus/mdev/devices`` hold links to them.
"""

import os
import pathlib

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host


def write_tree(simulated: host.SimulatedHost, root: pathlib.Path) -> None:
    """Build the tree below ``root``, which may exist."""
    (root / 'bus/pci/devices').mkdir(parents=True, exist_ok=True)
    for gpu in simulated.gpus:
        _write_gpu(gpu, root)
    if simulated.mtty:
        _write_mtty(root)


def _write_gpu(gpu: host.GPU, root: pathlib.Path) -> None:
    board = gpu.board
    bus = root / f'devices/pci{gpu.address.domain:04x}:{gpu.address.bus:02x}'
    physical = bus / str(gpu.address)
    _write_function(physical, gpu, gpu.bound_driver, root)
    if board.total_vfs:
        _write(physical / 'sriov_totalvfs', board.total_vfs)
        _write(physical / 'sriov_numvfs', gpu.vfs)
        _write(physical / 'sriov_offset', board.vf_offset)
        _write(physical / 'sriov_stride', board.vf_stride)
    if gpu.types_on_pf:
        _write_mdev_parent(physical, gpu, None, root)
    for index, address in enumerate(gpu.vf_addresses):
        function = bus / str(address)
        _write_function(function, gpu, board.driver, root)
        _link(function / 'physfn', physical)
        _link(physical / f'virtfn{index}', function)
        if gpu.types_on_vfs and gpu.vendor_vfio:
            _write_vendor_vfio(function / 'nvidia', gpu, index)
        elif gpu.types_on_vfs:
            _write_mdev_parent(function, gpu, index, root)


def _write_function(
    path: pathlib.Path,
    gpu: host.GPU,
    driver: str | None,
    root: pathlib.Path,
) -> None:
    board = gpu.board
    path.mkdir(parents=True, exist_ok=True)
    _write(path / 'vendor', f'0x{board.vendor:04x}')
    _write(path / 'device', f'0x{board.device:04x}')
    _write(path / 'class', f'0x{board.pci_class:06x}')
    _write(path / 'subsystem_vendor', f'0x{board.subsystem[0]:04x}')
    _write(path / 'subsystem_device', f'0x{board.subsystem[1]:04x}')
    _link(root / 'bus/pci/devices' / path.name, path)
    if driver is not None:
        _link(path / 'driver', root / 'bus/pci/drivers' / driver)


def _write_mdev_parent(
    path: pathlib.Path, gpu: host.GPU, vf: int | None, root: pathlib.Path
) -> None:
    if not gpu.board.types:
        return
    _link(root / 'class/mdev_bus' / path.name, path)
    for board_type in gpu.board.types:
        _write_type(path, board_type, gpu.available(board_type, vf))
    for uuid, type_id in gpu.mdevs(vf):
        mdev = path / uuid
        mdev.mkdir()
        _link(mdev / 'mdev_type', path / 'mdev_supported_types' / type_id)
        _link(root / 'bus/mdev/devices' / uuid, mdev)


def _write_type(
    path: pathlib.Path, board_type: boards.BoardType, available: int
) -> None:
    directory = path / 'mdev_supported_types' / board_type.id
    directory.mkdir(parents=True)
    if board_type.name is not None:
        _write(directory / 'name', board_type.name)
    _write(directory / 'description', board_type.description)
    _write(directory / 'device_api', 'vfio-pci')
    _write(directory / 'available_instances', available)


def _write_vendor_vfio(path: pathlib.Path, gpu: host.GPU, vf: int) -> None:
    path.mkdir()
    numbers = {t.id: t.number for t in gpu.board.types}
    current = [numbers[created.type_id] for created in gpu.on(vf)]
    lines = ['ID    : vGPU Name']
    lines += [
        f'{t.number:<5} : {t.name}'
        for t in gpu.board.types
        if gpu.available(t, vf)
    ]
    _write(path / 'creatable_vgpu_types', '\n'.join(lines))
    _write(path / 'current_vgpu_type', current[0] if current else 0)


def _write_mtty(root: pathlib.Path) -> None:
    path = root / 'devices/virtual/mtty/mtty'
    path.mkdir(parents=True)
    _link(path / 'subsystem', root / 'class/mtty')
    _link(root / 'class/mdev_bus/mtty', path)
    for board_type in boards.MTTY_TYPES:
        _write_type(path, board_type, board_type.maximum)


def _write(path: pathlib.Path, value: object) -> None:
    path.write_text(f'{value}\n')


def _link(link: pathlib.Path, target: pathlib.Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))
