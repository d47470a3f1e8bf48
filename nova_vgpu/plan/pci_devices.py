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

"""GPUs and virtual functions that ``[pci]device_spec`` also lists.

Nova's PCI tracker assigns such a function to servers as it is. In the
vendor-specific VFIO framework its type was set for that, and it looks like a
vGPU of ours: such functions are not used here. Mediated devices are not
affected: they are always vGPUs, and a function that a server uses as a PCI
device offers no types. Listing a function for both is an error in any case.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re

from nova_vgpu import values

_SHOWN_FUNCTIONS = 4

#: The specification that lists a function, by the function's name.
Listed = Mapping[str, values.PciDeviceSpec]


def find_listed(
    specs: Iterable[values.PciDeviceSpec], gpu: values.PhysicalGPU
) -> dict[str, values.PciDeviceSpec]:
    """The specifications of the GPU and its functions, enabled or not."""
    specs = tuple(specs)
    if not specs or gpu.address is None:
        return {}
    addresses = {gpu.address, *(vf.address for vf in gpu.vfs)}
    if gpu.sriov is not None:
        addresses.update(gpu.sriov.addresses(gpu.address))
    found = {}
    for address in sorted(addresses):
        spec = next((s for s in specs if _is_match(s, gpu, address)), None)
        if spec is not None:
            found[address.node_device_name] = spec
    return found


def is_whole(gpu: values.PhysicalGPU, listed: Listed) -> bool:
    """Whether no function of a GPU without mdevs is left for vGPUs."""
    return gpu.framework is values.Framework.VENDOR_VFIO and all(
        vf.name in listed for vf in gpu.vfs
    )


def set_aside(placed: values.Assignment, listed: Listed) -> values.Assignment:
    """The assignment without the functions that Nova assigns."""
    gpu = placed.gpu
    mediated = {vf.name for vf in gpu.vfs if not vf.vendor_vfio} | {gpu.name}
    aside = frozenset(listed) - mediated
    return dataclasses.replace(
        placed, functions=placed.functions - aside, pci_devices=aside
    )


def is_nothing_left(placed: values.Assignment) -> bool:
    """Whether Nova assigns all functions that could be vGPUs."""
    vfs = placed.gpu.vfs
    return bool(placed.pci_devices and vfs) and not any(
        vf.name in placed.functions for vf in vfs
    )


def find_problems(
    placed: values.Assignment, listed: Listed
) -> Iterator[values.Problem]:
    """The problem if functions of an assignment are assigned twice."""
    gpu, declared = placed.gpu, placed.declared
    # A GPU that is declared as a whole is declared with all its functions.
    twice = {
        name: spec
        for name, spec in listed.items()
        if name in placed.functions or gpu.name in placed.functions
    }
    if not twice:
        return
    specs = tuple(dict.fromkeys(twice.values()))
    left_alone = (
        ' Until then these functions are not used for vGPUs.'
        if set_aside(placed, listed).pci_devices
        else ''
    )
    lines = f'{specs[0].option} = {specs[0].written}'
    if len(specs) > 1:
        lines += f' and {len(specs) - 1} more'
    if placed.reason is values.Reason.LISTED:
        where = declared.option('device_addresses')
        other = f'list in {where} only what is for vGPUs'
    else:
        where = 'not listed, so it serves the first type'
        other = 'set [devices]unlisted_gpus = ignore'
    yield values.Problem(
        values.Severity.ERROR,
        'also-pci-device',
        str(gpu),
        f'GPU {gpu} ({where}) is declared for vGPUs, and Nova also assigns '
        f'{_list(twice)} by PCI passthrough: {lines}.',
        f'Remove it from {specs[0].option}, or {other}.{left_alone}',
    )


def _list(names: Iterable[str]) -> str:
    """Functions by their addresses; of many the first ones."""
    found = [
        str(values.PciAddress.parse_node_device_name(name)) for name in names
    ]
    more = len(found) - _SHOWN_FUNCTIONS
    shown = ', '.join(found[:_SHOWN_FUNCTIONS])
    return f'{shown} and {more} more' if more > 0 else shown


def _is_match(
    spec: values.PciDeviceSpec,
    gpu: values.PhysicalGPU,
    address: values.PciAddress,
) -> bool:
    """Whether a specification is for a function of the GPU.

    Virtual functions of GPUs that have vGPU types show the ids of the GPU.
    """
    if gpu.ids is None or gpu.address is None:
        return False
    if spec.vendor_id not in (None, gpu.ids.vendor):
        return False
    if spec.product_id not in (None, gpu.ids.device):
        return False
    by_gpu = spec.is_single and gpu.sriov is not None
    return _is_at(spec, address) or (by_gpu and _is_at(spec, gpu.address))


def _is_at(spec: values.PciDeviceSpec, address: values.PciAddress) -> bool:
    parts = (
        f'{address.domain:04x}',
        f'{address.bus:02x}',
        f'{address.slot:02x}',
        f'{address.function:x}',
    )
    return all(map(re.match, spec.address, parts))
