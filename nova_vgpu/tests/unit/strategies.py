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

"""Random worlds for property tests: a host, and a declaration about it.

A world knows what each address in its declaration was made from, so that a
test can say what has to come of it without asking the code under test.
"""

import dataclasses
import pathlib
import tempfile

from hypothesis import strategies as st

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree

#: What becomes of an address that means no GPU.
NOT_A_GPU = 'not-a-gpu'
NOT_ON_HOST = 'not-on-host'
MALFORMED = 'malformed-address'

_ABSENT = values.PciAddress(0xFFFE, 0xFE, 0x1F, 7)
_NO_ADDRESSES = (
    '',
    'garbage',
    '0000:84:00',
    '0000:84:00.8',
    '0000:84:20.0',
    '0000:84:00.o',
    '00000:84:00.0:1',
    '٨٤:٣٣.٣',
    'pci_0000_84_00_0',
    '0000:84:00.0 0000:85:00.0',
    '84:00.0\0',
)
_GARBAGE = st.text(max_size=12)


@dataclasses.dataclass(frozen=True)
class Written:
    """An address as an operator wrote it, and what it was made from.

    ``gpu`` is the name of the GPU that it means; without one, ``code`` is that
    of the problem that it makes.
    """

    text: str
    gpu: str | None = None
    code: str = ''


@dataclasses.dataclass(frozen=True)
class World:
    """A host, a declaration about it, and where its addresses came from."""

    host: values.Host
    declaration: values.Declaration
    written: dict[str, tuple[Written, ...]]

    def claimants(self, gpu: values.PhysicalGPU) -> set[str]:
        """The types that list the GPU or a function of its."""
        return {
            name
            for name, addresses in self.written.items()
            if any(address.gpu == gpu.name for address in addresses)
        }

    def is_divided(self, gpu: values.PhysicalGPU) -> bool:
        """Whether several types list different functions of the GPU."""
        functions: dict[values.PciAddress, set[str]] = {}
        for name, addresses in self.written.items():
            for address in addresses:
                if address.gpu == gpu.name and gpu.address is not None:
                    function = values.PciAddress.parse(address.text)
                    functions.setdefault(function, set()).add(name)
        return (
            len(self.claimants(gpu)) > 1
            and bool(functions)
            and gpu.address not in functions
            and all(len(names) == 1 for names in functions.values())
        )


@st.composite
def simulated_hosts(draw: st.DrawFn) -> simulation.SimulatedHost:
    """Hosts with cards of any kind, in any state, that keep the rules."""
    buses = draw(
        st.lists(st.integers(1, 0xFE), min_size=1, max_size=3, unique=True)
    )
    gpus = tuple(
        draw(_simulated_gpus(values.PciAddress(bus % 2, bus, 0, 0)))
        for bus in buses
    )
    return simulation.SimulatedHost(gpus, mtty=draw(st.booleans()))


@st.composite
def _simulated_gpus(
    draw: st.DrawFn, address: values.PciAddress
) -> simulation.GPU:
    board = draw(
        st.sampled_from(
            (
                boards.T4,
                boards.A40,
                boards.L40S,
                boards.HD_530,
                boards.INSTINCT_MI210,
                boards.INSTINCT_MI300X,
                boards.NETWORK_CARD,
            )
        )
    )
    # Fewer types and functions say as much, and are written sooner.
    board = dataclasses.replace(
        board, types=board.types[::6], total_vfs=min(board.total_vfs, 5)
    )
    vfs = draw(st.integers(0, board.total_vfs))
    ready = draw(st.sampled_from((True, True, False)))
    created: tuple[simulation.Created, ...] = ()
    if board.types and ready:
        kind = draw(st.sampled_from(board.types))
        most = min(kind.maximum, vfs if board.total_vfs else 3)
        created = tuple(
            simulation.Created(kind.id, vf=n if board.total_vfs else None)
            for n in range(draw(st.integers(0, most)))
        )
    return simulation.GPU(
        address,
        board,
        vfs=vfs,
        vendor_vfio=board.total_vfs > 0 and draw(st.booleans()),
        driver=draw(st.sampled_from(('default', None, 'vfio-pci', 'nouveau'))),
        types_ready=ready,
        created=created,
    )


def read_back(simulated: simulation.SimulatedHost) -> values.Host:
    """Write the host as a sysfs tree and read that."""
    with tempfile.TemporaryDirectory() as directory:
        tree.write_tree(simulated, pathlib.Path(directory))
        return sysfs.read_host(files.Files(directory))


# As drivers show them, and as none does: one id under two names, odd facts.
_TYPES = st.sampled_from(
    (
        values.VGPUType(
            'nvidia-1',
            'GRID T4-2Q',
            values.TypeFacts(2048, 3, 4, values.Resolution(7680, 4320)),
        ),
        values.VGPUType('nvidia-1', 'GRID T4-2Q'),
        values.VGPUType('nvidia-2', 'NVIDIA A40-8Q', values.TypeFacts(8192)),
        values.VGPUType('nvidia-2', 'A40-0B'),
        values.VGPUType(
            'i915-GVTg_V5_4',
            None,
            values.TypeFacts(None, 4, None, values.Resolution(1920, 1200)),
        ),
        values.VGPUType(
            'x y',
            'Ω\n?',
            values.TypeFacts(7, 10**9, 10**9, values.Resolution(99999, 1)),
        ),
    )
)
_OFFERS = st.lists(
    st.builds(values.Offer, _TYPES, st.integers(0, 5)), min_size=1, max_size=3
).map(tuple)


@st.composite
def _gpus(
    draw: st.DrawFn, address: values.PciAddress | None
) -> values.PhysicalGPU:
    """GPUs such as no driver shows: everything beside everything else."""

    def vgpus(function: str) -> tuple[values.VGPU, ...]:
        ids = ('nvidia-1', 'nvidia-2', 'nvidia-gone')
        kinds = st.lists(st.sampled_from(ids), max_size=2)
        return tuple(values.VGPU(function, kind) for kind in draw(kinds))

    if address is None:
        return values.PhysicalGPU(
            'mtty_mtty', offers=draw(_OFFERS), vgpus=vgpus('mtty_mtty')
        )
    known = values.Sriov(4, offset=4, stride=2)
    sriov = draw(st.sampled_from((None, values.Sriov(4), known)))
    possible = known.addresses(address)
    enabled = possible[: draw(st.integers(0, 4))] if sriov else ()
    on_pf = draw(st.sampled_from((True, False) if enabled else (True,)))
    return values.PhysicalGPU(
        address.node_device_name,
        address,
        values.PciIds(
            draw(st.sampled_from((0x10DE, 0x8086, 0x1002))),
            draw(st.sampled_from((0x1EB8, 0x2235, 0xFFFF))),
        ),
        draw(st.sampled_from((None, 'nvidia', 'vfio-pci', 'pci-pf-stub'))),
        sriov,
        tuple(
            values.VirtualFunction(
                vf,
                'nvidia',
                draw(_OFFERS),
                vgpus(vf.node_device_name),
                draw(st.booleans()),
            )
            for vf in enabled
        ),
        draw(_OFFERS) if on_pf else (),
        vgpus(address.node_device_name) if on_pf else (),
    )


@st.composite
def value_hosts(draw: st.DrawFn) -> values.Host:
    """Hosts made of values alone, with faults of any of their devices."""
    buses = draw(
        st.lists(st.integers(1, 0xFE), min_size=1, max_size=3, unique=True)
    )
    gpus = [
        draw(_gpus(values.PciAddress(bus % 2, bus, 0, 0)))
        for bus in sorted(buses)
    ]
    if draw(st.booleans()):
        gpus.append(draw(_gpus(None)))
    devices = [g.name for g in gpus] + [v.name for g in gpus for v in g.vfs]
    faulty = draw(st.lists(st.sampled_from(devices or ['x']), max_size=2))
    return values.Host(
        tuple(gpus),
        frozenset({values.PciAddress(2, 1, 0, 0)}),
        tuple(values.ReadFault(name, '/s', 'is broken') for name in faulty),
    )


def _list_good(host: values.Host) -> list[Written]:
    """Every address that means a GPU of the host, as the kernel writes it."""
    found = []
    for gpu in host.gpus:
        if gpu.address is None:
            found.append(Written(gpu.name, gpu.name))
            continue
        functions = {gpu.address, *(vf.address for vf in gpu.vfs)}
        if gpu.sriov:
            functions.update(gpu.sriov.addresses(gpu.address))
        found += [Written(str(gpu), gpu.name)] * len(functions)
        found += [Written(str(a), gpu.name) for a in sorted(functions)]
    return found


def _list_bad(host: values.Host) -> list[Written]:
    """Every kind of address that means none."""
    others = sorted(host.other_functions)
    return [
        *(Written(text, code=MALFORMED) for text in _NO_ADDRESSES),
        *([Written(str(_ABSENT), code=NOT_ON_HOST)] * len(_NO_ADDRESSES)),
        *(Written(str(a), code=NOT_A_GPU) for a in others * 3),
    ]


@st.composite
def _spelled(draw: st.DrawFn, written: Written) -> Written:
    text = written.text
    if written.code == MALFORMED or '.' not in text:
        return written
    spellings = [text, text.upper(), f'0000{text}', f'  {text} ']
    if text.startswith('0000:'):
        spellings += [text.removeprefix('0000:'), text.lstrip('0:')]
    return dataclasses.replace(written, text=draw(st.sampled_from(spellings)))


def _addresses(
    host: values.Host, sound: bool
) -> st.SearchStrategy[tuple[Written, ...]]:
    """A few addresses; unless sound, a bad one now and then."""
    bad = st.sampled_from(_list_bad(host))
    good = st.sampled_from(_list_good(host)) if _list_good(host) else bad
    one = good if sound else good | good | good | bad
    return st.lists(one.flatmap(_spelled), max_size=3).map(tuple)


def _type_names(host: values.Host, sound: bool) -> st.SearchStrategy[str]:
    """Types that the host offers, in any spelling; unless sound, others."""
    types = [t for gpu in host.gpus for t in gpu.types]
    there = [t.id for t in types] + [t.name for t in types if t.name]
    there += [name.split(' ', 1)[-1].lower() for name in there]
    unknown = ['nvidia-99999', 'A40-3000Q', 'T4-2Q', 'i915-GVTg_V9_9']
    offered = st.sampled_from(there or unknown)
    if sound:
        return offered
    return offered | offered | offered | st.sampled_from(unknown) | _GARBAGE


_TRAITS = st.lists(
    st.sampled_from(('CUSTOM_RACK_7', 'HW_GPU_API_VULKAN', 'CUSTOM_', 'hw'))
    | _GARBAGE,
    max_size=1,
).map(tuple)


@st.composite
def worlds(draw: st.DrawFn, sound: bool = False) -> World:
    """A host of either kind, and anything that may be declared about it.

    A sound declaration is of types that the host offers, with addresses that
    are there, so that more of its GPUs serve.
    """
    host = draw(
        value_hosts() | value_hosts() | simulated_hosts().map(read_back)
    )
    names = draw(
        st.lists(
            _type_names(host, sound),
            min_size=1,
            max_size=1 if sound else 3,
            unique_by=str.casefold,
        )
    )
    written = {name: draw(_addresses(host, sound)) for name in names}
    types = tuple(
        values.DeclaredType(
            name,
            f'vgpu_{name}',
            tuple(address.text for address in addresses),
            max_instances=draw(st.none() | st.integers(1, 4)),
            traits=draw(_TRAITS),
        )
        for name, addresses in written.items()
    )
    sections = st.sampled_from(
        ('vgpu_x', 'mdev_T4-2Q', *(t.group for t in types))
    )
    declaration = values.Declaration(
        types,
        draw(st.sampled_from(values.UnlistedGPUs)),
        tuple(draw(st.lists(sections, max_size=3, unique=True))),
    )
    return World(host, declaration, written)
