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

"""What the operator declares in nova.conf, independent of the host."""

import dataclasses
import enum
import re
import typing

#: More than any GPU has virtual functions.
_SHARE = re.compile(r'[1-9][0-9]{0,3}', re.ASCII)


class UnlistedGPUs(enum.Enum):
    """What to do with a GPU that no type lists."""

    FIRST_TYPE = 'first-type'
    IGNORE = 'ignore'


class Creation(enum.Enum):
    """When vGPUs are created."""

    ON_DEMAND = 'on-demand'
    AHEAD = 'ahead'


@dataclasses.dataclass(frozen=True, slots=True)
class ListedAddress:
    """An entry of ``device_addresses``, like ``0000:21:00.0=3``.

    ``share`` is the number of vGPUs of the type that the GPU is to serve; None
    if none is written, or none that is valid.
    """

    written: str
    address: str
    share: int | None = None

    @classmethod
    def parse(cls, written: str) -> typing.Self:
        if '=' not in written:
            return cls(written, written)
        address, _, number = map(str.strip, written.partition('='))
        share = int(number) if _SHARE.fullmatch(number) else None
        return cls(written, address, share)

    @property
    def has_invalid_share(self) -> bool:
        return '=' in self.written and self.share is None


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredType:
    """One entry of the enabled types with its section.

    ``name`` is the type as the operator wrote it: an id, a vendor name or a
    short name. ``group`` is the section where its options are, for messages.
    ``device_addresses`` are the entries as they are written. The last three
    are for VF profiles.
    """

    name: str
    group: str
    device_addresses: tuple[str, ...] = ()
    resource_class: str = 'VGPU'
    max_instances: int | None = None
    traits: tuple[str, ...] = ()
    exec_quantum_ms: int | None = None
    preempt_timeout_us: int | None = None
    partition: str | None = None

    def option(self, name: str) -> str:
        """The full name of an option of this type, for messages."""
        return f'[{self.group}]{name}'

    @property
    def listed(self) -> tuple[ListedAddress, ...]:
        return tuple(map(ListedAddress.parse, self.device_addresses))

    @property
    def is_novas_section(self) -> bool:
        """Whether the section has Nova's name for it."""
        return self.group.startswith('mdev_')


@dataclasses.dataclass(frozen=True, slots=True)
class PciDeviceSpec:
    """A line of ``[pci]device_spec``: PCI devices that Nova assigns.

    ``option`` is the name under which it was written, ``written`` the line.
    An id is None if it matches any. ``address`` has regular expressions for
    domain, bus, slot and function, each for the beginning of the number. A
    line that ``is_single`` names one address; if that is a GPU with virtual
    functions, Nova includes all of them.
    """

    option: str
    written: str
    vendor_id: int | None = None
    product_id: int | None = None
    address: tuple[str, str, str, str] = ('', '', '', '')
    is_single: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """The configuration of vGPUs.

    ``sections`` are the per-type sections that the files hold, enabled or not;
    ``types_option`` is the option that lists the types, for messages;
    ``unlisted_is_set`` tells whether the operator set ``unlisted``.
    ``pci_devices`` are those of Nova's PCI tracker. ``vgpus_are_pci_devices``
    if they are vGPUs that were created ahead, for Nova's own driver.
    ``switches_mig_mode`` lets an apply turn MIG mode on and off.
    """

    types: tuple[DeclaredType, ...] = ()
    unlisted: UnlistedGPUs = UnlistedGPUs.FIRST_TYPE
    sections: tuple[str, ...] = ()
    types_option: str = '[devices]enabled_vgpu_types'
    creation: Creation = Creation.ON_DEMAND
    pci_devices: tuple[PciDeviceSpec, ...] = ()
    unlisted_is_set: bool = False
    vgpus_are_pci_devices: bool = False
    switches_mig_mode: bool = False

    @property
    def competing_pci_devices(self) -> tuple[PciDeviceSpec, ...]:
        """Those of Nova's PCI devices that can conflict with vGPUs."""
        if self.vgpus_are_pci_devices or not self.types:
            return ()
        return self.pci_devices

    @property
    def has_novas_names(self) -> bool:
        """Whether it may be meant for Nova's driver."""
        return self.types_option.endswith(']enabled_mdev_types') or any(
            declared.is_novas_section for declared in self.types
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """An option as written in a file; more than one value if repeated."""

    file: str
    section: str
    name: str
    values: tuple[str, ...]
