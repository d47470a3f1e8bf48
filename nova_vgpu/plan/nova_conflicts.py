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

"""What else Nova makes of the same nova.conf.

Nova's PCI tracker assigns the functions of ``[pci]device_spec`` to servers as
they are. In the vendor-specific VFIO framework the type of such a function was
set for that, and it looks like a vGPU of ours: such functions are not used
here. Mediated devices are not affected: they are always vGPUs, and a function
that a server uses as a PCI device offers no types. Listing a function for both
is an error in any case.

With Nova's names of options, the configuration may be meant for Nova's own
driver. GPUs that no type lists serve the first type here. Nova's driver gives
them the first type that has no addresses, and nothing if all have some.
``max_instances`` is for one GPU here, and for all GPUs of the host there.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
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


def list_aside(gpu: values.PhysicalGPU, listed: Listed) -> frozenset[str]:
    """The functions that Nova assigns, and that are not used here."""
    mediated = {gpu.name}
    if gpu.vf_profiles is None:
        mediated |= {vf.name for vf in gpu.vfs if not vf.vendor_vfio}
    return frozenset(listed) - mediated


def is_nothing_left(placed: values.Assignment) -> bool:
    """Whether Nova assigns all functions that could be vGPUs."""
    vfs = placed.gpu.vfs
    return bool(placed.pci_devices and vfs) and not any(
        vf.name in placed.functions for vf in vfs
    )


def find_pci_problems(
    placed: values.Assignment, listed: Listed, aside: frozenset[str]
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
        ' Until then these functions are not used for vGPUs.' if aside else ''
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
        f'{_list_functions(twice)} by PCI passthrough: {lines}.',
        f'Remove it from {specs[0].option}, or {other}.{left_alone}',
    )


def _list_functions(names: Iterable[str]) -> str:
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


def find_differences(
    declaration: values.Declaration, assignments: Sequence[values.Assignment]
) -> Iterator[values.Problem]:
    """Warnings, each with the option that resolves it."""
    if not declaration.has_novas_names:
        return
    if not declaration.unlisted_is_set:
        yield from _check_unlisted(declaration, assignments)
    for declared in declaration.types:
        yield from _check_max_instances(declared, assignments)


def _check_unlisted(
    declaration: values.Declaration, assignments: Sequence[values.Assignment]
) -> Iterator[values.Problem]:
    unlisted = [
        assigned
        for assigned in assignments
        if assigned.reason is values.Reason.FIRST_TYPE
        # Otherwise an error has the option as its cure.
        and assigned.type is not None
    ]
    default = next(
        (d for d in declaration.types if not d.device_addresses), None
    )
    if not unlisted or default is declaration.types[0]:
        return
    gpus = ', '.join(str(assigned.gpu) for assigned in unlisted)
    what, them = (
        (f'GPU {gpus} is not listed and serves', 'it')
        if len(unlisted) == 1
        else (f'GPUs {gpus} are not listed and serve', 'them')
    )
    if default is None:
        novas = f'not use {them}'
        cure = (
            'Set [devices]unlisted_gpus = ignore to do the same, or '
            f'first-type to use {them}.'
        )
    else:
        novas = f'use {default.name!r}, the first without addresses'
        cure = (
            f'List {them} in {default.option("device_addresses")} to do the '
            'same, or set [devices]unlisted_gpus = first-type.'
        )
    yield values.Problem(
        values.Severity.WARNING,
        'unlisted-unlike-nova',
        declaration.types_option,
        f'{declaration.types_option}: {what} the first type, '
        f"{declaration.types[0].name!r}. Nova's own driver would {novas}.",
        cure,
    )


def _check_max_instances(
    declared: values.DeclaredType, assignments: Sequence[values.Assignment]
) -> Iterator[values.Problem]:
    serving = sum(
        assigned.serves and assigned.declared.name == declared.name
        for assigned in assignments
    )
    most = declared.max_instances
    if most is None or not declared.is_novas_section or serving < 2:
        return
    option = declared.option('max_instances')
    yield values.Problem(
        values.Severity.WARNING,
        'max-instances-unlike-nova',
        option,
        f'{option}: {most} vGPUs on each of {serving} GPUs. '
        "Nova's own driver counts them over the host: "
        f'{most} on all of them.',
        f'Call the section [vgpu_{declared.name}] if each GPU is meant.',
    )
