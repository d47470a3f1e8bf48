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

"""A simulated host as libvirt's XML.

``<node>`` with its devices is what libvirt's own test driver takes
(``test:///<file>``). That driver knows no virtual parents of mdevs and drops
the name of a device's driver; real libvirt does neither.
"""

from collections.abc import Iterator
from xml.etree import ElementTree

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host

Element = ElementTree.Element


def write_node_xml(simulated: host.SimulatedHost) -> str:
    """The host for libvirt's test driver."""
    node = Element('node')
    node.append(_computer())
    node.extend(
        device for gpu in simulated.gpus for device in _devices_of(gpu)
    )
    return ElementTree.tostring(node, encoding='unicode')


def list_device_xml(simulated: host.SimulatedHost) -> dict[str, str]:
    """Every device's XML by its name, virtual parents included."""
    devices = [d for gpu in simulated.gpus for d in _devices_of(gpu)]
    if simulated.mtty:
        devices.append(_mtty())
    return {
        str(device.findtext('name')): ElementTree.tostring(
            device, encoding='unicode'
        )
        for device in devices
    }


def _computer() -> Element:
    device = _device('computer', None)
    capability = _child(device, 'capability', type='system')
    hardware = _child(capability, 'hardware')
    _child(hardware, 'uuid', '12345678-1234-5678-1234-567812345678')
    _child(capability, 'firmware')
    return device


def _devices_of(gpu: host.GPU) -> Iterator[Element]:
    board = gpu.board
    device, capability = _pci(gpu.address, gpu, gpu.bound_driver)
    if board.total_vfs:
        functions = _child(
            capability,
            'capability',
            type='virt_functions',
            maxCount=str(board.total_vfs),
        )
        for address in gpu.vf_addresses:
            functions.append(_address(address))
    if gpu.types_on_pf:
        _add_types(capability, gpu, None)
    yield device
    yield from _mdevs(gpu, gpu.address, None)
    for index, address in enumerate(gpu.vf_addresses):
        device, capability = _pci(address, gpu, gpu.bound_vf_driver)
        physical = _child(capability, 'capability', type='phys_function')
        physical.append(_address(gpu.address))
        if gpu.types_on_vfs and not gpu.vendor_vfio:
            _add_types(capability, gpu, index)
        yield device
        yield from _mdevs(gpu, address, index)


def _pci(
    address: values.PciAddress, gpu: host.GPU, driver: str | None
) -> tuple[Element, Element]:
    board = gpu.board
    device = _device(address.node_device_name, 'computer')
    if driver is not None:
        _child(_child(device, 'driver'), 'name', driver)
    capability = _child(device, 'capability', type='pci')
    _child(capability, 'class', f'0x{board.pci_class:06x}')
    _child(capability, 'domain', str(address.domain))
    _child(capability, 'bus', str(address.bus))
    _child(capability, 'slot', str(address.slot))
    _child(capability, 'function', str(address.function))
    _child(capability, 'product', id=f'0x{board.device:04x}')
    _child(capability, 'vendor', id=f'0x{board.vendor:04x}')
    return device, capability


def _add_types(capability: Element, gpu: host.GPU, vf: int | None) -> None:
    if gpu.board.types:
        types = _child(capability, 'capability', type='mdev_types')
        for board_type in gpu.board.types:
            _add_type(types, board_type, gpu.available(board_type, vf))


def _add_type(
    types: Element, board_type: boards.BoardType, available: int
) -> None:
    element = _child(types, 'type', id=board_type.id)
    if board_type.name is not None:
        _child(element, 'name', board_type.name)
    _child(element, 'deviceAPI', 'vfio-pci')
    _child(element, 'availableInstances', str(available))


def _mdevs(
    gpu: host.GPU, address: values.PciAddress, vf: int | None
) -> Iterator[Element]:
    for uuid, type_id in gpu.mdevs(vf):
        parent = address.node_device_name
        suffix = parent.removeprefix('pci_')
        device = _device(f'mdev_{uuid.replace("-", "_")}_{suffix}', parent)
        capability = _child(device, 'capability', type='mdev')
        _child(capability, 'type', id=type_id)
        _child(capability, 'uuid', uuid)
        _child(capability, 'parent_addr', str(address))
        _child(capability, 'iommuGroup', number='0')
        yield device


def _mtty() -> Element:
    device = _device('mtty_mtty', 'computer')
    capability = _child(device, 'capability', type='mdev_types')
    types = _child(capability, 'capability', type='mdev_types')
    for board_type in boards.MTTY_TYPES:
        _add_type(types, board_type, board_type.maximum)
    return device


def _device(name: str, parent: str | None) -> Element:
    device = Element('device')
    _child(device, 'name', name)
    if parent is not None:
        _child(device, 'parent', parent)
    return device


def _address(address: values.PciAddress) -> Element:
    return Element(
        'address',
        domain=f'0x{address.domain:04x}',
        bus=f'0x{address.bus:02x}',
        slot=f'0x{address.slot:02x}',
        function=f'0x{address.function:x}',
    )


def _child(
    parent: Element, tag: str, text: str | None = None, **attributes: str
) -> Element:
    element = ElementTree.SubElement(parent, tag, attributes)
    element.text = text
    return element
