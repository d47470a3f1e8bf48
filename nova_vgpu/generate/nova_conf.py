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

"""From the GPUs and their types to a part of nova.conf.

The lines are made from a declaration, which reading them must return, and the
comments from its plan. For this project types are written by name, because ids
change with the driver. Nova's own driver only knows ids, and treats each
virtual function as a device: of a GPU as many functions are listed as it can
have vGPUs of the type. Nova's option ``max_instances`` counts over all GPUs of
the host.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import re

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.generate import ini
from nova_vgpu.generate import passthrough
from nova_vgpu.generate import type_requests
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import capacity
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_matching
from nova_vgpu.plan import typos

_TYPES_OPTIONS = {
    values.Reader.NOVA_VGPU: 'enabled_vgpu_types',
    values.Reader.NOVA: 'enabled_mdev_types',
}
_GROUPS = {values.Reader.NOVA_VGPU: 'vgpu', values.Reader.NOVA: 'mdev'}
#: Text that is read back unchanged, as an entry of a list and in a section's
#: name.
_WRITABLE = re.compile(
    r'[a-z0-9](?:[a-z0-9 ._+/()-]*[a-z0-9_)])?', re.IGNORECASE | re.ASCII
)


def generate(
    host: values.Host,
    grants: Sequence[values.MatchedRequest],
    reader: values.Reader,
    modes: values.ModesRead,
) -> values.Fragment:
    """The part of nova.conf that makes the GPUs serve their types.

    Ids in it are those of now: what they meant before does not matter.

    :raises RequestRefusedError: if the reader cannot do that.
    """
    if reader is values.Reader.PCI:
        return passthrough.generate(host, grants, modes)
    if reader is values.Reader.NOVA:
        _require_mediated(grants)
    declaration = _declare(host, grants, reader)
    plan = mapper.make_plan(
        values.Configuration(declaration).plan_input(host, modes)
    )
    lines = tuple(_write(declaration, plan, reader))
    if reader is values.Reader.NOVA_VGPU:
        return values.Fragment(lines, declaration, plan.problems)
    return values.Fragment(
        lines,
        declaration,
        # The cure would be an option that has another meaning for Nova.
        tuple(p for p in plan.problems if p.code != 'maximum-unknown'),
        tuple(
            type_requests.warn_of_maximum(
                assigned.gpu, len(assigned.functions)
            )
            for assigned in plan.assignments
            if assigned.type is not None
            and assigned.gpu.vfs
            and not capacity.is_maximum_known(
                assigned.gpu, assigned.type, assigned.modes
            )
        ),
    )


def _require_mediated(grants: Iterable[values.MatchedRequest]) -> None:
    refused = []
    for granted in grants:
        if granted.type is None:
            refused.append(type_requests.refuse_not_ready(granted))
        elif granted.gpu.framework is values.Framework.VENDOR_VFIO:
            refused.append(
                f'GPU {granted.gpu} has no mediated devices, and Nova '
                'serves nothing else by type. Its virtual functions can be '
                'served as PCI devices: --for pci'
            )
    if refused:
        raise exception.RequestRefusedError(refused)


def _declare(
    host: values.Host,
    grants: Iterable[values.MatchedRequest],
    reader: values.Reader,
) -> values.Declaration:
    names = type_matching.list_type_names(host)
    by_name: dict[str, list[values.MatchedRequest]] = {}
    spelled: dict[str, str] = {}
    refused = []
    for granted in grants:
        written = _written(granted, reader, names)
        if written is None:
            refused.append(
                f'GPU {granted.gpu}: its type has no name that a '
                'configuration file can contain.'
            )
            continue
        key = written.casefold()  # section names are case-insensitive
        spelled.setdefault(key, written)
        by_name.setdefault(key, []).append(granted)
    if refused:
        raise exception.RequestRefusedError(refused)
    requested = {granted.gpu.name for of in by_name.values() for granted in of}
    left_out = any(
        capabilities.makes_vgpus(gpu)
        and not gpu.is_other_device
        and gpu.name not in requested
        for gpu in host.gpus
    )
    return values.Declaration(
        types=tuple(
            values.DeclaredType(
                spelled[key],
                f'{_GROUPS[reader]}_{spelled[key]}',
                tuple(
                    address
                    for granted in of_type
                    for address in _addresses(granted, reader, names)
                ),
            )
            for key, of_type in by_name.items()
        ),
        unlisted=(
            values.UnlistedGPUs.IGNORE
            if left_out
            else values.UnlistedGPUs.FIRST_TYPE
        ),
        types_option=f'[devices]{_TYPES_OPTIONS[reader]}',
        unlisted_is_set=left_out,
    )


def _written(
    granted: values.MatchedRequest,
    reader: values.Reader,
    names: Mapping[str, str],
) -> str | None:
    """The spelling of the type that is unambiguous for the reader."""
    if granted.type is None:
        return granted.name
    if reader is values.Reader.NOVA:
        candidates = [granted.type.id]
    else:
        # Names that only some drivers provide, else ids.
        candidates = [granted.name, granted.type.name or '', granted.type.id]
    types = type_matching.list_types(granted.gpu, names)
    for text in candidates:
        if (
            _WRITABLE.fullmatch(text)
            and typos.find_list_cure(text) is None
            and len(type_matching.find_matches(text, types)) == 1
        ):
            return text
    return None


def _addresses(
    granted: values.MatchedRequest,
    reader: values.Reader,
    names: Mapping[str, str],
) -> Iterator[str]:
    gpu = granted.gpu
    if (
        reader is values.Reader.NOVA_VGPU
        or gpu.framework is not values.Framework.MDEV_ON_VFS
        or granted.type is None
    ):
        yield str(gpu)
        return
    type_id = granted.type.id
    most = capacity.find_maximum(gpu, granted.type, names)
    maximum = most[0] if most else None
    able = [
        vf
        for vf in gpu.vfs
        if vf.vgpus or any(offer.type.id == type_id for offer in vf.offers)
    ]
    # Those with vGPUs first, of the type before others. A function with
    # another vGPU, like its GPU, offers nothing until that is removed.
    able.sort(key=lambda vf: _rank(vf, type_id))
    for vf in sorted(able[:maximum], key=lambda vf: vf.address):
        yield str(vf.address)


def _rank(vf: values.VirtualFunction, type_id: str) -> int:
    if any(vgpu.type_id == type_id for vgpu in vf.vgpus):
        return 0
    return 1 if vf.vgpus else 2


def _write(
    declaration: values.Declaration,
    plan: values.Plan,
    reader: values.Reader,
) -> Iterator[str]:
    yield from ini.write_head(reader)
    yield ''
    yield '[devices]'
    if reader is values.Reader.NOVA:
        yield from ini.write_comment(
            'Ids may change with a new release of the vGPU software. Generate '
            'this again then.'
        )
    yield from ini.write_list(
        _TYPES_OPTIONS[reader],
        (declared.name for declared in declaration.types),
    )
    if declaration.unlisted is values.UnlistedGPUs.IGNORE:
        yield from _write_unlisted(plan, reader)
    for declared in declaration.types:
        yield ''
        yield f'[{declared.group}]'
        for assigned in plan.assignments:
            if assigned.declared.name == declared.name:
                yield from ini.write_comment(_describe(assigned))
        yield from ini.write_list(
            'device_addresses', declared.device_addresses
        )


def _write_unlisted(plan: values.Plan, reader: values.Reader) -> Iterator[str]:
    left = ', '.join(
        str(left.gpu)
        for left in plan.left_alone
        if capabilities.makes_vgpus(left.gpu)
    )
    yield from ini.write_comment(
        f'GPUs that support vGPUs and do not serve them: {left}. Without this '
        'line they would serve the first type.'
        if reader is values.Reader.NOVA_VGPU
        else f'GPUs that support vGPUs and do not serve them: {left}. Nova '
        'ignores them and does not know this option. The commands of '
        'nova-vgpu need it.'
    )
    yield f'unlisted_gpus = {values.UnlistedGPUs.IGNORE.value}'


def _describe(assigned: values.Assignment) -> str:
    gpu = assigned.gpu
    words = [f'{gpu}: {capabilities.model_of(gpu) or "GPU"}']
    if assigned.type is None or assigned.capacity is None:
        words.append('not ready yet')
    else:
        name = capabilities.short_name(assigned.type)
        if name != assigned.declared.name:
            words.append(name)
        words.append(ini.count(assigned.capacity.total, 'vGPU'))
    if assigned.functions != gpu.functions:
        listed = len(assigned.functions)
        words.append(f'{listed} of {len(gpu.vfs)} functions')
    return ', '.join(words)
