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

"""The GPUs of a host, as they were read: PCI functions, types, vGPUs, modes.

PCI addresses come in many spellings: sysfs says ``0001:c8:00.0``,
``nvidia-smi`` says ``00000001:C8:00.0``, libvirt says ``pci_0001_c8_00_0`` and
an operator types ``84:00.0``. They are parsed once, here, and compared as
numbers everywhere else.
"""

from collections.abc import Collection
import dataclasses
import enum
import itertools
import re
import typing

from nova_vgpu.values import mig as mig_values
from nova_vgpu.values import vgpu_slots

_ADDRESS = re.compile(
    r'(?:(?P<domain>[0-9a-f]{1,8}):)?'
    r'(?P<bus>[0-9a-f]{1,2}):'
    r'(?P<slot>[0-9a-f]{1,2})\.'
    r'(?P<function>[0-7])',
    re.IGNORECASE | re.ASCII,
)

_NODE_DEVICE = re.compile(
    r'pci_([0-9a-f]{4,8})_([0-9a-f]{2})_([01][0-9a-f])_([0-7])', re.ASCII
)
_SHARE = re.compile(rf'({_NODE_DEVICE.pattern})_(?P<label>.+)', re.ASCII)

_LAST_ROUTING_ID = 0xFFFF


class MalformedAddress(ValueError):
    """The text is not a PCI address."""


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class PciAddress:
    """The address of a PCI function; orders as ``lspci`` does."""

    domain: int
    bus: int
    slot: int
    function: int

    @classmethod
    def parse(cls, text: str) -> typing.Self:
        """Read an address with or without its domain, in upper or lower case.

        :raises MalformedAddress: if the text is not an address.
        """
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or int(match['slot'], 16) > 0x1F:
            raise MalformedAddress(f'{text!r} is not a PCI address')
        return cls(
            int(match['domain'] or '0', 16),
            int(match['bus'], 16),
            int(match['slot'], 16),
            int(match['function'], 16),
        )

    @property
    def node_device_name(self) -> str:
        """The device's name in libvirt, which Nova uses in provider names."""
        return f'pci_{self}'.replace(':', '_').replace('.', '_')

    @classmethod
    def parse_node_device_name(cls, text: str) -> typing.Self | None:
        """The function with this name in libvirt; None if it is not one."""
        match = _NODE_DEVICE.fullmatch(text)
        if match is None:
            return None
        return cls.parse('{}:{}:{}.{}'.format(*match.groups()))

    @property
    def routing_id(self) -> int:
        """Bus, slot and function as one number: SR-IOV counts VFs on it."""
        return self.bus << 8 | self.slot << 3 | self.function

    def offset_by(self, distance: int) -> typing.Self:
        """The function that many routing ids further, in the same domain."""
        routing_id = self.routing_id + distance
        return dataclasses.replace(
            self,
            bus=routing_id >> 8,
            slot=routing_id >> 3 & 0x1F,
            function=routing_id & 7,
        )

    def __str__(self) -> str:
        return (
            f'{self.domain:04x}:{self.bus:02x}:{self.slot:02x}.{self.function}'
        )


def split_device(device: str, gpus: Collection[str] = ()) -> tuple[str, str]:
    """The GPU that a provider stands for, and the label of its share.

    The label is empty if the provider stands for a whole device.

    :param device: the name of the provider without that of its node.
    :param gpus: the names of the GPUs of the host: one that is not a PCI
        device can have any name.
    """
    match = _SHARE.fullmatch(device)
    if match is not None:
        return match[1], match['label']
    for gpu in () if device in gpus else gpus:
        if device.startswith(f'{gpu}_'):
            return gpu, device.removeprefix(f'{gpu}_')
    return device, ''


@dataclasses.dataclass(frozen=True, slots=True)
class PciIds:
    """The ids of a function, as in PCI configuration space."""

    vendor: int
    device: int
    subsystem_vendor: int | None = None
    subsystem_device: int | None = None

    def __str__(self) -> str:
        return f'{self.vendor:04x}:{self.device:04x}'


@dataclasses.dataclass(frozen=True, slots=True)
class Sriov:
    """The virtual functions that a GPU can have, enabled or not.

    Offset and stride are None where the source does not know them (libvirt).
    """

    total: int
    offset: int | None = None
    stride: int | None = None

    def addresses(self, physical: PciAddress) -> tuple[PciAddress, ...]:
        """The addresses of the GPU's VFs, enabled or not; () if unknown.

        Bus ff is the last one of a domain.
        """
        if self.offset is None or self.stride is None:
            return ()
        distances = (
            self.offset + self.stride * index for index in range(self.total)
        )
        return tuple(
            physical.offset_by(distance)
            for distance in distances
            if physical.routing_id + distance <= _LAST_ROUTING_ID
        )


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Resolution:
    """Pixels of one display, ``5120x2880``."""

    width: int
    height: int

    def __str__(self) -> str:
        return f'{self.width}x{self.height}'


@dataclasses.dataclass(frozen=True, slots=True)
class TypeFacts:
    """A driver's facts about a type; None if unknown."""

    framebuffer_mib: int | None = None
    max_instances: int | None = None
    heads: int | None = None
    max_resolution: Resolution | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class VGPUType:
    """One kind of vGPU. The same on every function of a GPU that offers it.

    ``id`` is the driver's handle, ``nvidia-558``, also where the driver shows
    the bare number (vendor-specific VFIO), so that one configuration fits both
    frameworks. Ids change between driver releases; ``name`` does not, but not
    every driver gives one.
    """

    id: str
    name: str | None = None
    facts: TypeFacts = TypeFacts()

    def __str__(self) -> str:
        return f'{self.id} ({self.name})' if self.name else self.id


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """How many more vGPUs of a type one function can have now."""

    type: VGPUType
    available: int


@dataclasses.dataclass(frozen=True, slots=True)
class VGPU:
    """A vGPU that exists: an mdev, or a virtual function with its type set.

    ``function`` is the node device name of the PCI function (or virtual
    parent) that it is on. ``uuid`` is None in the vendor-specific VFIO
    framework, where the virtual function itself is the device.
    """

    function: str
    type_id: str
    uuid: str | None = None

    @property
    def name(self) -> str:
        return self.uuid or self.function


@dataclasses.dataclass(frozen=True, slots=True)
class VirtualFunction:
    """An SR-IOV virtual function of a GPU."""

    address: PciAddress
    driver: str | None = None
    offers: tuple[Offer, ...] = ()
    vgpus: tuple[VGPU, ...] = ()
    # The driver's directory "nvidia" of the vendor-specific VFIO framework
    # exists.
    vendor_vfio: bool = False
    # Used very often, for each of hundreds of functions.
    name: str = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'name', self.address.node_device_name)


@dataclasses.dataclass(frozen=True, slots=True)
class Partitions:
    """How a GPU is partitioned, and how it can be.

    ``mode`` is the accelerator and the memory partition, ``CPX/NPS4``; None if
    it was not read, which needs root. ``accelerator`` are the accelerator
    partitions that the GPU has with its number of virtual functions, in the
    order of their indexes; empty if not read.
    """

    mode: str | None = None
    accelerator: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class VFProfiles:
    """How the virtual functions of a GPU are provisioned.

    Only for a GPU where the kernel does that by itself: it has no types. One
    number for each virtual function that the GPU can have, enabled or not;
    none if the driver does not show them. 0 is what the driver chooses.

    ``partitions`` is None unless the driver enables the functions when it is
    loaded, in a number that only its module option changes.
    """

    vram_mib: tuple[int, ...] = ()
    exec_quantum_ms: tuple[int, ...] = ()
    preempt_timeout_us: tuple[int, ...] = ()
    partitions: Partitions | None = None


#: The prefixes of libvirt's names for mdev parents that are not GPUs.
_OTHER_DEVICES = ('css_', 'ap_', 'matrix_')


class Framework(enum.Enum):
    """The ways in which a host shares a GPU."""

    MDEV = 'mdev'
    MDEV_ON_VFS = 'mdev on VFs'
    VENDOR_VFIO = 'vendor VFIO'
    VF_PROFILES = 'VF profiles'


#: Those in which servers get virtual functions, and not mdevs.
GIVING_FUNCTIONS = frozenset({Framework.VENDOR_VFIO, Framework.VF_PROFILES})


@dataclasses.dataclass(frozen=True, slots=True)
class PhysicalGPU:
    """A GPU of the host, or another parent of mdevs.

    ``address`` and ``ids`` are None for the kernel's sample parents (mtty),
    which are not PCI devices. ``offers`` and ``vgpus`` are those of the GPU's
    own function; ``all_offers`` and ``all_vgpus`` include its VFs'.
    ``named_types`` is for a GPU whose free capacity was not read, and for one
    whose VFs are provisioned as declared: ``vf_profiles`` is not None if the
    kernel provisions them by itself.
    """

    name: str
    address: PciAddress | None = None
    ids: PciIds | None = None
    driver: str | None = None
    sriov: Sriov | None = None
    vfs: tuple[VirtualFunction, ...] = ()
    offers: tuple[Offer, ...] = ()
    vgpus: tuple[VGPU, ...] = ()
    named_types: tuple[VGPUType, ...] = ()
    vf_profiles: VFProfiles | None = None

    def __str__(self) -> str:
        """The GPU's name for operators: its PCI address if it has one."""
        return str(self.address) if self.address else self.name

    @property
    def is_other_device(self) -> bool:
        """Whether this parent of mdevs is not a GPU.

        Channel I/O and cryptographic adapters of IBM Z have mdevs too.
        """
        return self.address is None and self.name.startswith(_OTHER_DEVICES)

    @property
    def framework(self) -> Framework | None:
        """The framework that this GPU uses now; None if it shows none."""
        if self.vf_profiles is not None:
            return Framework.VF_PROFILES if self.named_types else None
        if self.offers or self.vgpus:
            return Framework.MDEV
        if any(vf.vendor_vfio for vf in self.vfs):
            return Framework.VENDOR_VFIO
        if any(vf.offers or vf.vgpus for vf in self.vfs):
            return Framework.MDEV_ON_VFS
        return None

    @property
    def functions(self) -> frozenset[str]:
        """The names of all functions of the GPU, its own included."""
        return frozenset((self.name, *(vf.name for vf in self.vfs)))

    @property
    def all_offers(self) -> tuple[Offer, ...]:
        on_vfs = itertools.chain.from_iterable(vf.offers for vf in self.vfs)
        return (*self.offers, *on_vfs)

    @property
    def all_vgpus(self) -> tuple[VGPU, ...]:
        on_vfs = itertools.chain.from_iterable(vf.vgpus for vf in self.vfs)
        return (*self.vgpus, *on_vfs)

    @property
    def types(self) -> tuple[VGPUType, ...]:
        """Every type that any function of the GPU names, each once."""
        by_id = {named.id: named for named in self.named_types}
        for offer in self.all_offers:
            by_id.setdefault(offer.type.id, offer.type)
        return tuple(by_id.values())


@dataclasses.dataclass(frozen=True, slots=True)
class ReadFault:
    """A part of a device that could not be read.

    ``device`` is the node device name if known, ``source`` the file or XML.
    """

    device: str
    source: str
    reason: str

    def __str__(self) -> str:
        return f'{self.device}: {self.source}: {self.reason}'


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """The GPUs of a host in order of address, and what could not be read.

    ``other_functions`` are the PCI addresses of devices that are not GPUs, to
    distinguish them from addresses without a device.
    """

    gpus: tuple[PhysicalGPU, ...] = ()
    other_functions: frozenset[PciAddress] = frozenset()
    faults: tuple[ReadFault, ...] = ()
    #: Ids and names of types that no GPU names itself.
    type_names: tuple[tuple[str, str], ...] = ()


class SchedulerPolicy(enum.Enum):
    """How a GPU shares its time among its vGPUs."""

    BEST_EFFORT = 'best effort'
    EQUAL_SHARE = 'equal share'
    FIXED_SHARE = 'fixed share'


@dataclasses.dataclass(frozen=True, slots=True)
class GPUMode:
    """Whether a mode is on now, and whether it will be after a reset."""

    current: bool
    pending: bool


@dataclasses.dataclass(frozen=True, slots=True)
class GPUModes:
    """Modes of a GPU that only the driver's library shows.

    ``mig_types`` are the types that are backed by MIG, as far as their GPU
    instances are known; None if MIG mode is off or nothing is known.
    ``slots`` are those of the types in heterogeneous mode; None if they are
    not known.
    ``gpu_instances`` are all GPU instances; the same holds.
    ``processes`` are the ids of those that use the GPU; None if they are not
    known, or the GPU does not support MIG.
    """

    ecc: GPUMode | None = None
    mig: GPUMode | None = None
    heterogeneous: bool | None = None
    scheduler: SchedulerPolicy | None = None
    mig_types: tuple[mig_values.MigType, ...] | None = None
    slots: tuple[vgpu_slots.TypeSlots, ...] | None = None
    gpu_instances: mig_values.GPUInstances | None = None
    processes: tuple[int, ...] | None = None

    def find_mig_type(self, type_id: str) -> mig_values.MigType | None:
        """The GPU instances of a type; None if they are not known."""
        return next(
            (t for t in self.mig_types or () if t.type_id == type_id), None
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ModesRead:
    """The modes of the GPUs that could be read.

    ``unknown_because`` is the reason if the library failed, else None.
    """

    modes: tuple[tuple[PciAddress, GPUModes], ...] = ()
    driver_version: str | None = None
    unknown_because: str | None = None

    def of(self, address: PciAddress | None) -> GPUModes:
        return next((m for a, m in self.modes if a == address), GPUModes())
