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

"""Guests with vGPUs, and their XML as Nova defines it in libvirt."""

from collections.abc import Mapping
import dataclasses
from xml.etree import ElementTree

from nova_vgpu import values
from nova_vgpu.host import guests


@dataclasses.dataclass
class Guest:
    """A guest, with its vGPUs and the names of their types."""

    name_: str
    uuid: str
    mdevs: Mapping[str, str | None]
    functions: Mapping[str, str | None]
    running: bool = False
    #: Whether its devices have the aliases of this project's driver; those
    #: of Nova's PCI passthrough do not.
    notes: bool = True

    @property
    def devices(self) -> list[str]:
        """The ids of its devices: UUIDs and names of functions."""
        parse = values.PciAddress.parse
        functions = (parse(f).node_device_name for f in self.functions)
        return [*self.mdevs, *functions]

    def name(self) -> str:
        return self.name_

    def isActive(self) -> int:
        return int(self.running)

    def XMLDesc(self, flags: int = 0) -> str:
        domain = ElementTree.Element('domain', type='kvm')
        ElementTree.SubElement(domain, 'name').text = self.name_
        ElementTree.SubElement(domain, 'uuid').text = self.uuid
        devices = ElementTree.SubElement(domain, 'devices')
        sources = [
            *(
                ('mdev', {'uuid': uuid}, name)
                for uuid, name in self.mdevs.items()
            ),
            *(
                ('pci', _attributes(address), name)
                for address, name in self.functions.items()
            ),
        ]
        for order, (kind, address, type_name) in enumerate(sources):
            noted = guests.make_alias(order, type_name)
            alias = noted if self.notes else f'hostdev{order}'
            _add_hostdev(devices, kind, address, alias)
        return ElementTree.tostring(domain, encoding='unicode')


def _add_hostdev(
    devices: ElementTree.Element,
    kind: str,
    address: Mapping[str, str],
    alias: str,
) -> None:
    hostdev = ElementTree.SubElement(
        devices, 'hostdev', mode='subsystem', type=kind, managed='no'
    )
    if kind == 'mdev':
        hostdev.set('model', 'vfio-pci')
    source = ElementTree.SubElement(hostdev, 'source')
    ElementTree.SubElement(source, 'address', dict(address))
    ElementTree.SubElement(hostdev, 'alias', name=alias)


def _attributes(text: str) -> dict[str, str]:
    address = values.PciAddress.parse(text)
    return {
        'domain': f'0x{address.domain:04x}',
        'bus': f'0x{address.bus:02x}',
        'slot': f'0x{address.slot:02x}',
        'function': f'0x{address.function:x}',
    }
