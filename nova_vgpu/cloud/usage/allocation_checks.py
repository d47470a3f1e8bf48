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

"""What a server has of GPUs, compared with what its flavor asks for."""

import collections
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import vgpu_requests
from nova_vgpu.cloud.orders import whole_gpu_order
from nova_vgpu.cloud.usage import nova_servers
from nova_vgpu.cloud.usage import reasons
from nova_vgpu.cloud.usage import servers

_AUDIT = (
    'Show what is left over with "nova-manage placement audit --verbose"; '
    'with --delete it is removed.'
)


def list_wanted(
    flavor: flavors.Flavor, gpus: Sequence[fleet.GPU]
) -> dict[str, int]:
    """How much a flavor asks for, by resource classes of GPUs.

    :param gpus: all that there are; their classes are classes of vGPUs.
    """
    found: collections.Counter[str] = collections.Counter()
    for request in _list_requests(flavor, gpus):
        found[request.resource_class] += request.vgpus
    for of, number in whole_gpu_order.list_devices(flavor).items():
        found[of.resource_class] += number
    return dict(found)


def _list_requests(
    flavor: flavors.Flavor, gpus: Sequence[fleet.GPU]
) -> tuple[vgpu_requests.VGPURequest, ...]:
    serving = (gpu for gpu in gpus if not whole_gpu_fleet.is_gpu(gpu))
    return vgpu_requests.list_requests(
        flavor, vgpu_requests.list_classes(serving)
    )


def judge_unasked(
    server: nova_servers.NovaServer, held: Sequence[servers.Allocation] | None
) -> Iterator[reasons.Reason]:
    """Of a server whose flavor asks for no GPU."""
    yield reasons.Reason(
        reasons.Code.NO_GPU,
        reasons.State.NO_GPU,
        f'Its flavor {server.flavor.name} asks for no GPU.',
        '"openstack vgpu flavor list" shows the flavors that do; resize the '
        'server to one of these.',
    )
    for each in held or ():
        yield _refuse(each)


def judge_left_over(
    server: nova_servers.NovaServer, held: Sequence[servers.Allocation]
) -> Iterator[reasons.Reason]:
    """Of a server that is on no host."""
    for each in held:
        yield _find_elsewhere(each, 'is on no host')


def judge(
    server: nova_servers.NovaServer,
    held: Sequence[servers.Allocation],
    gpus: Sequence[fleet.GPU],
) -> Iterator[reasons.Reason]:
    """Of a server that is on a host, if Nova tells which one."""
    here = [each for each in held if server.host in (None, each.gpu.host)]
    for each in held:
        if each not in here:
            yield _find_elsewhere(each, f'is on {server.host}')
    wanted = list_wanted(server.flavor, gpus)
    has: collections.Counter[str] = collections.Counter()
    for each in here:
        has[each.resource_class] += each.vgpus
    for name, number in wanted.items():
        yield from _compare(server, name, number, has[name], gpus)
    requests = _list_requests(server.flavor, gpus)
    for each in here:
        if each.resource_class not in wanted:
            yield _refuse(each)
        elif not _is_asked_for(each, requests, here):
            yield _find_other_type(server, each)
        if each.gpu.state is fleet.State.FENCED:
            yield _find_fenced(server, each)


def _compare(
    server: nova_servers.NovaServer,
    name: str,
    wanted: int,
    has: int,
    gpus: Sequence[fleet.GPU],
) -> Iterator[reasons.Reason]:
    compared = f'Its flavor asks for {wanted} of {name}'
    move = (
        f'Move it, so that Nova allocates again: openstack server migrate '
        f'{server.uuid}'
    )
    if has > wanted:
        yield reasons.Reason(
            reasons.Code.TOO_MANY,
            reasons.State.ATTENTION,
            f'{compared}, and {has} are allocated to it.',
            _AUDIT,
        )
    elif not has and not _is_in_placement(server, name, gpus):
        yield reasons.Reason(
            reasons.Code.NOT_IN_PLACEMENT,
            reasons.State.UNKNOWN,
            f'{compared}, and Placement has no such GPU on its host: Nova '
            'passes GPUs through without telling Placement.',
            'Set [pci]report_in_placement = true on the host.',
        )
    elif not has:
        yield reasons.Reason(
            reasons.Code.NO_ALLOCATION,
            reasons.State.FAILED,
            f'{compared}, and none is allocated to it.',
            move,
        )
    elif has < wanted:
        yield reasons.Reason(
            reasons.Code.TOO_FEW,
            reasons.State.FAILED,
            f'{compared}, and only {has} are allocated to it.',
            move,
        )


def _is_in_placement(
    server: nova_servers.NovaServer, name: str, gpus: Sequence[fleet.GPU]
) -> bool:
    """Whole GPUs are in Placement only if Nova is configured to tell it."""
    whole = {
        of.resource_class for of in whole_gpu_order.list_devices(server.flavor)
    }
    return name not in whole or any(
        name in gpu.classes and server.host in (None, gpu.host) for gpu in gpus
    )


def _is_asked_for(
    held: servers.Allocation,
    requests: Sequence[vgpu_requests.VGPURequest],
    here: Sequence[servers.Allocation],
) -> bool:
    """Whether the GPU has what the flavor requires of it.

    Traits of a group without a name may be those of any of its providers.
    """
    if whole_gpu_fleet.is_gpu(held.gpu):
        return True
    others = (each.gpu.traits for each in here)
    widened = dataclasses.replace(
        held.gpu, host_traits=held.gpu.host_traits.union(*others)
    )
    return any(
        request.group.asks_for(widened, held.resource_class)
        for request in requests
    )


def _find_other_type(
    server: nova_servers.NovaServer, held: servers.Allocation
) -> reasons.Reason:
    found = held.gpu.facts.name or 'an unknown type'
    return reasons.Reason(
        reasons.Code.OTHER_TYPE,
        reasons.State.ATTENTION,
        f'{_name(held)} serves {found}, which is not what its flavor requires '
        'by traits.',
        'If the type of the GPU was changed, set it back, or move the server: '
        f'openstack server migrate {server.uuid}',
    )


def _find_fenced(
    server: nova_servers.NovaServer, held: servers.Allocation
) -> reasons.Reason:
    return reasons.Reason(
        reasons.Code.FENCED,
        reasons.State.ATTENTION,
        f'{_name(held)} is fenced: it left the configuration or does not '
        'work. The server keeps what it has.',
        f'"nova-vgpu doctor" on {held.gpu.host} says what is wrong. To move '
        f'the server: openstack server migrate {server.uuid}',
    )


def _find_elsewhere(held: servers.Allocation, where: str) -> reasons.Reason:
    return reasons.Reason(
        reasons.Code.OTHER_HOST,
        reasons.State.ATTENTION,
        f'The server {where}, and {_name(held)} is allocated to it as well: '
        'left over of a migration or a resize.',
        _AUDIT,
    )


def _refuse(held: servers.Allocation) -> reasons.Reason:
    return reasons.Reason(
        reasons.Code.NOT_ASKED,
        reasons.State.ATTENTION,
        f'{_name(held)} is allocated to it ({held.resource_class}), and its '
        'flavor does not ask for that.',
        _AUDIT,
    )


def _name(held: servers.Allocation) -> str:
    return f'GPU {held.gpu.address} of {held.gpu.host}'
