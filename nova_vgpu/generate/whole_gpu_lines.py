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

"""Whole GPUs as PCI devices of Nova, in Placement.

A flavor asks for a PCI device by an alias; a plain ``resources:`` in a flavor
would only allocate in Placement, and the server would start without a device.
The alias selects by the resource class that ``[pci]device_spec`` gives the
GPUs. Nova has one device type per alias: a GPU with SR-IOV is a physical
function, any other one a plain PCI device, and Nova leaves physical functions
out unless the alias asks for them (``_filter_pools_for_unrequested_pfs``).
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.generate import ini
from nova_vgpu.knowledge import whole_gpu_names
from nova_vgpu.plan import whole_gpu_checks


def generate(
    requests: Sequence[values.PassthroughRequest],
    read: values.IsolationRead,
    plan: values.Plan,
    types: values.Fragment | None = None,
) -> values.Fragment:
    """The lines with which Nova gives these GPUs to servers as a whole.

    :param plan: what GPUs serve beside that.
    :param types: the lines for types of other GPUs, which come first.
    :raises RequestRefusedError: if a GPU cannot be passed through, with every
        reason.
    """
    gpus = {gpu.name: gpu for of in requests for gpu in of.gpus}
    refused = [
        f'GPU {gpu} cannot be passed through: {found.finding}. {found.cure}'
        for gpu in gpus.values()
        for found in whole_gpu_checks.find_obstacles(gpu, read, plan)
    ]
    refused += _find_mixed(requests)
    if refused and any(of.by_ids and len(of.gpus) > 1 for of in requests):
        refused.append(
            'PCI ids are for all GPUs that have them: for some of these GPUs, '
            'name each by its address.'
        )
    if refused:
        raise exception.RequestRefusedError(refused)
    warnings = map(whole_gpu_checks.find_driver_warning, gpus.values())
    types = types or values.Fragment(tuple(ini.write_head(None)))
    # Lines for virtual functions as PCI devices end in section [pci], too.
    head = () if '[pci]' in types.lines else ini.write_pci_in_placement()
    return dataclasses.replace(
        types,
        lines=(*types.lines, *head, *_write(requests)),
        warnings=(*types.warnings, *(text for text in warnings if text)),
    )


def _find_mixed(
    requests: Sequence[values.PassthroughRequest],
) -> Iterator[str]:
    """GPUs that need the same alias, which has one device type."""
    by_alias: dict[str, dict[str, values.PhysicalGPU]] = {}
    for request in requests:
        alias = whole_gpu_names.name_ids(_ids_of(request)).alias
        for gpu in request.gpus:
            by_alias.setdefault(alias, {}).setdefault(_device_type(gpu), gpu)
    for alias, found in by_alias.items():
        if len(found) > 1:
            first, second = (f'{gpu} is {of}' for of, gpu in found.items())
            yield (
                f'GPU {first} and GPU {second} for Nova, and alias {alias} '
                'can only be for one of these. Turn SR-IOV on or off for both '
                'in the firmware setup, or pass only one of them through.'
            )


def _write(requests: Sequence[values.PassthroughRequest]) -> Iterator[str]:
    aliases = {}
    for request in requests:
        ids = _ids_of(request)
        names = whole_gpu_names.name_ids(ids)
        aliases[names.alias] = (
            _device_type(request.gpus[0]),
            names.resource_class,
        )
        where = ', '.join(map(str, request.gpus))
        yield ''
        yield from ini.write_comment(f'{where}: {names.title}, whole')
        yield from ini.write_json(
            'device_spec',
            _select(request, ids)
            | {
                'managed': 'yes',
                'resource_class': names.resource_class,
                'traits': ','.join(whole_gpu_names.traits_of(ids)),
            },
        )
    for alias, (device_type, resource_class) in aliases.items():
        yield from ini.write_alias(alias, device_type, resource_class)


def _select(
    request: values.PassthroughRequest, ids: values.PciIds
) -> dict[str, str]:
    """The part of a specification that selects the GPUs."""
    if request.by_ids:
        return {
            'vendor_id': f'{ids.vendor:04x}',
            'product_id': f'{ids.device:04x}',
        }
    return {'address': str(request.gpus[0])}


def _ids_of(request: values.PassthroughRequest) -> values.PciIds:
    """The ids that the names follow from.

    Without those of the board if all boards with these ids are meant.
    """
    ids = request.gpus[0].ids
    if ids is None:
        raise exception.RequestRefusedError(
            [f'GPU {request.gpus[0]} is not a PCI device.']
        )
    if request.by_ids:
        return values.PciIds(ids.vendor, ids.device)
    return ids


def _device_type(gpu: values.PhysicalGPU) -> str:
    """As libvirt's and Nova's: a GPU that can have VFs, enabled or not."""
    return 'type-PF' if gpu.sriov is not None else 'type-PCI'
