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
``bus/mdev/devices`` hold links to them. The tree is in memory, with the files
that are written to (``create``, ``remove``, ``bind`` and so on), or it is
written to a disk, without them.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import functools
import os
import pathlib

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import iommu_groups
from nova_vgpu.sandbox import memory_tree
from nova_vgpu.sandbox import partitions

Attribute = memory_tree.Attribute
Directory = memory_tree.Directory
Link = memory_tree.Link
Node = memory_tree.Node
Path = memory_tree.Path

STUB = 'pci-pf-stub'
PASSTHROUGH = 'vfio-pci'

_DRIVERS = ('bus', 'pci', 'drivers')
_NO_OVERRIDE = '(null)'
# The class of PCI whose devices have the file "boot_vga".
_VGA = 0x0300


class RenderedGPU:
    """One state of a GPU; each of its functions is made when it is read."""

    def __init__(self, gpu: host.GPU, override: str | None) -> None:
        self.gpu = gpu
        self.override = override
        self.vfs = gpu.vf_addresses
        behind = gpu.slot.behind
        top = behind[0] if behind else gpu.address
        self.bus: Path = (
            'devices',
            f'pci{top.domain:04x}:{top.bus:02x}',
            *map(str, behind),
        )
        self.functions: dict[str, Directory] = {
            str(gpu.address): Directory(self._make_physical)
        }
        for index, address in enumerate(self.vfs):
            self.functions[str(address)] = Directory(
                functools.partial(self._make_virtual, index)
            )

    def place(self, function: str) -> Path:
        return (*self.bus, function)

    @property
    def parents(self) -> tuple[tuple[values.PciAddress, int | None], ...]:
        """The functions that mdevs can be on, whether any is or not."""
        gpu = self.gpu
        if gpu.vendor_vfio or not gpu.board.types:
            return ()
        if gpu.types_on_pf:
            return ((gpu.address, None),)
        if gpu.types_on_vfs:
            return tuple((vf, index) for index, vf in enumerate(self.vfs))
        return ()

    def list_mdevs(self) -> Iterator[tuple[str, Path]]:
        """UUID and directory of every mdev."""
        if self.gpu.created:
            for address, vf in self.parents:
                for uuid, _ in self.gpu.mdevs(vf):
                    yield uuid, (*self.place(str(address)), uuid)

    def list_members(self) -> Iterator[iommu_groups.Member]:
        """Every function with its IOMMU group."""
        for address in (self.gpu.address, *self.vfs):
            yield self.gpu.group_of(address), self.place(str(address))

    @functools.cached_property
    def _left(self) -> dict[str, int]:
        return {t.id: self.gpu.left(t) for t in self.gpu.board.types}

    @functools.cached_property
    def _taken(self) -> frozenset[int | None]:
        return frozenset(created.vf for created in self.gpu.created)

    def _available(self, type_id: str, vf: int | None) -> int:
        left = self._left[type_id]
        if vf is None:
            return left
        return 0 if vf in self._taken else min(left, 1)

    def _make_physical(self) -> dict[str, Node]:
        gpu, board = self.gpu, self.gpu.board
        found = self._make_function(gpu.address, gpu.bound_driver)
        found |= _make_place(gpu)
        if board.pci_class >> 8 == _VGA:
            found['boot_vga'] = Attribute(str(int(gpu.display)))
        found['driver_override'] = Attribute(
            self.override or _NO_OVERRIDE,
            ('driver_override', str(gpu.address)),
        )
        if board.total_vfs:
            store = ('sriov_numvfs', str(gpu.address))
            found |= {
                'sriov_totalvfs': Attribute(str(board.total_vfs)),
                'sriov_numvfs': Attribute(str(gpu.vfs), store),
                'sriov_offset': Attribute(str(board.vf_offset)),
                'sriov_stride': Attribute(str(board.vf_stride)),
            }
        if (
            board.vf_memory_mib
            and gpu.admin
            and gpu.bound_driver == board.driver
        ):
            found['sriov_admin'] = Directory(self._make_admin)
        if board.partitions and gpu.bound_driver == board.driver:
            found |= partitions.make_files(gpu)
        if gpu.types_on_pf:
            found |= self._make_parent(gpu.address, None)
        for index, address in enumerate(self.vfs):
            found[f'virtfn{index}'] = Link(self.place(str(address)))
        return found

    def _make_virtual(self, index: int) -> dict[str, Node]:
        gpu = self.gpu
        address = self.vfs[index]
        found = self._make_function(address, gpu.bound_vf_driver)
        found['physfn'] = Link(self.place(str(gpu.address)))
        if gpu.types_on_vfs and gpu.vendor_vfio:
            found['nvidia'] = Directory(
                functools.partial(self._make_vendor_vfio, index)
            )
        elif gpu.types_on_vfs:
            found |= self._make_parent(address, index)
        return found

    def _make_admin(self) -> dict[str, Node]:
        """As xe_sriov_pf_sysfs.c of Linux does it."""
        gpu = self.gpu
        here = str(gpu.address)
        found: dict[str, Node] = {
            'pf': _make_directory({'device': Link(self.place(here))})
        }
        for vf in range(1, gpu.board.total_vfs + 1):
            entries: dict[str, Node] = {
                'profile': _make_directory(
                    {
                        name: Attribute(
                            str(gpu.read_profile(name, vf)),
                            ('profile', here, name, str(vf)),
                        )
                        for name in gpu.admin
                    }
                )
            }
            if vf <= len(self.vfs):
                entries['device'] = Link(self.place(str(self.vfs[vf - 1])))
            found[f'vf{vf}'] = _make_directory(entries)
        return found

    def _make_function(
        self, address: values.PciAddress, driver: str | None
    ) -> dict[str, Node]:
        board = self.gpu.board
        found: dict[str, Node] = {
            'vendor': Attribute(f'0x{board.vendor:04x}'),
            'device': Attribute(f'0x{board.device:04x}'),
            'class': Attribute(f'0x{board.pci_class:06x}'),
            'subsystem_vendor': Attribute(f'0x{board.subsystem[0]:04x}'),
            'subsystem_device': Attribute(f'0x{board.subsystem[1]:04x}'),
        }
        if driver is not None:
            found['driver'] = Link((*_DRIVERS, driver))
        group = self.gpu.group_of(address)
        if group is not None:
            found['iommu_group'] = iommu_groups.make_link(group)
        return found

    def _make_parent(
        self, address: values.PciAddress, vf: int | None
    ) -> dict[str, Node]:
        if not self.gpu.board.types or self.gpu.vendor_vfio:
            return {}
        place = self.place(str(address))
        found: dict[str, Node] = {
            'mdev_supported_types': Directory(
                lambda: {
                    t.id: _make_type(
                        t,
                        self._available(t.id, vf),
                        ('create', str(address), t.id),
                    )
                    for t in self.gpu.board.types
                }
            )
        }
        for uuid, type_id in self.gpu.mdevs(vf):
            found[uuid] = _make_directory(
                {
                    'mdev_type': Link(
                        (*place, 'mdev_supported_types', type_id)
                    ),
                    'remove': Attribute(None, ('remove', uuid)),
                }
            )
        return found

    def _make_vendor_vfio(self, vf: int) -> dict[str, Node]:
        types = self.gpu.board.types
        numbers = {t.id: t.number for t in types}
        current = [numbers[created.type_id] for created in self.gpu.on(vf)]
        lines = ['ID    : vGPU Name']
        lines += [
            f'{t.number:<5} : {t.name}'
            for t in types
            if self._available(t.id, vf)
        ]
        store = ('current_vgpu_type', str(self.vfs[vf]))
        return {
            'creatable_vgpu_types': Attribute('\n'.join(lines)),
            'current_vgpu_type': Attribute(
                str(current[0] if current else 0), store
            ),
        }


def make_root(
    gpus: Iterable[RenderedGPU], mtty: bool, numa_nodes: int = 0
) -> Directory:
    """The whole tree."""
    rendered = tuple(gpus)
    below: dict[Path, dict[str, Directory]] = {}
    on_bus: dict[str, Node] = {}
    parents: dict[str, Node] = {}
    mdevs: dict[str, Node] = {}
    for gpu in rendered:
        below.setdefault(gpu.bus, {}).update(gpu.functions)
        on_bus.update((name, Link(gpu.place(name))) for name in gpu.functions)
        for address, _ in gpu.parents:
            parents[str(address)] = Link(gpu.place(str(address)))
        mdevs.update((uuid, Link(place)) for uuid, place in gpu.list_mdevs())
    top: dict[str, Node] = {
        bus[1]: _make_bus(bus, below) for bus in below if len(bus) == 2
    }
    if numa_nodes:
        top['system'] = _make_nodes(numa_nodes)
    if mtty:
        top['virtual'] = _make_mtty()
        parents['mtty'] = Link(('devices', 'virtual', 'mtty', 'mtty'))
    pci: dict[str, Node] = {
        'devices': _make_directory(on_bus),
        'drivers': Directory(lambda: _make_drivers(rendered)),
        'drivers_probe': Attribute(None, ('drivers_probe',)),
    }
    bus: dict[str, Node] = {'pci': _make_directory(pci)}
    if mdevs:
        bus['mdev'] = _make_directory({'devices': _make_directory(mdevs)})
    groups = Directory(
        lambda: iommu_groups.make_groups(
            member for gpu in rendered for member in gpu.list_members()
        )
    )
    root: dict[str, Node] = {
        'devices': _make_directory(top),
        'bus': _make_directory(bus),
        'kernel': _make_directory({'iommu_groups': groups}),
    }
    if parents:
        root['class'] = _make_directory({'mdev_bus': _make_directory(parents)})
    return _make_directory(root)


def write_tree(simulated: host.SimulatedHost, root: pathlib.Path) -> None:
    """Write the tree below ``root``, which may exist."""
    rendered = (RenderedGPU(gpu, None) for gpu in simulated.gpus)
    made = make_root(rendered, simulated.mtty, simulated.numa_nodes)
    _write_directory(made, root, root)


def _write_directory(
    directory: Directory, path: pathlib.Path, root: pathlib.Path
) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name, node in directory.entries.items():
        entry = path / name
        if isinstance(node, Link):
            target = root.joinpath(*node.target)
            entry.symlink_to(os.path.relpath(target, path))
        elif isinstance(node, Attribute):
            if node.text is not None:
                entry.write_text(f'{node.text}\n')
            elif node.data is not None:
                entry.write_bytes(node.data)
        elif name != _DRIVERS[-1]:  # nothing is bound by writing there
            _write_directory(node, entry, root)


def _make_bus(
    bus: Path, below: Mapping[Path, Mapping[str, Directory]]
) -> Directory:
    """The functions on a bus, with all that is behind them."""
    return _make_directory(
        {
            name: _make_bridge(function, (*bus, name), below)
            if (*bus, name) in below
            else function
            for name, function in below[bus].items()
        }
    )


def _make_bridge(
    own: Directory, bus: Path, below: Mapping[Path, Mapping[str, Directory]]
) -> Directory:
    return Directory(lambda: {**own.entries, **_make_bus(bus, below).entries})


def _make_nodes(number: int) -> Directory:
    empty = _make_directory({})
    nodes = _make_directory({f'node{node}': empty for node in range(number)})
    return _make_directory({'node': nodes})


def _make_place(gpu: host.GPU) -> dict[str, Node]:
    """What the kernel shows of a board's slot, and of its ports."""
    slot = gpu.slot
    found: dict[str, Node] = {}
    if slot.numa_node is not None:
        found['numa_node'] = Attribute(str(slot.numa_node))
    if slot.ports:
        found['infiniband'] = _make_directory(
            {name: _make_directory({}) for name in slot.ports}
        )
    if slot.config is not None:
        found['config'] = Attribute(None, data=slot.config)
    return found


def _make_directory(entries: Mapping[str, Node]) -> Directory:
    return Directory(lambda: entries)


def _make_type(
    board_type: boards.BoardType, available: int, create: Path
) -> Directory:
    def make() -> dict[str, Node]:
        found: dict[str, Node] = {
            'description': Attribute(board_type.description),
            'device_api': Attribute('vfio-pci'),
            'available_instances': Attribute(str(available)),
        }
        if create:
            found['create'] = Attribute(None, create)
        if board_type.name is not None:
            found['name'] = Attribute(board_type.name)
        return found

    return Directory(make)


def _make_drivers(gpus: Iterable[RenderedGPU]) -> dict[str, Node]:
    """Every driver that is loaded, with the functions that it has."""
    bound: dict[str, dict[str, Node]] = {STUB: {}, PASSTHROUGH: {}}
    for rendered in gpus:
        gpu = rendered.gpu
        of_board = bound.setdefault(gpu.board.driver, {})
        for vf in map(str, rendered.vfs):
            of_board[vf] = Link(rendered.place(vf))
        if gpu.bound_driver is not None:
            name = str(gpu.address)
            on_driver = bound.setdefault(gpu.bound_driver, {})
            on_driver[name] = Link(rendered.place(name))
    for driver, entries in bound.items():
        entries['bind'] = Attribute(None, ('bind', driver))
        entries['unbind'] = Attribute(None, ('unbind', driver))
    return {d: _make_directory(entries) for d, entries in bound.items()}


def _make_mtty() -> Directory:
    types: dict[str, Node] = {
        t.id: _make_type(t, t.maximum, ()) for t in boards.MTTY_TYPES
    }
    mtty = _make_directory(
        {
            'subsystem': Link(('class', 'mtty')),
            'mdev_supported_types': _make_directory(types),
        }
    )
    return _make_directory({'mtty': _make_directory({'mtty': mtty})})
