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

"""The GPUs that a filter or an argument of a command means."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cloud import names
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import provider_traits

# In a message.
_MOST_NAMES = 10


def select_gpus(
    gpus: Sequence[fleet.GPU],
    host: str | None = None,
    model: str | None = None,
    members: Collection[str] | None = None,
) -> tuple[fleet.GPU, ...]:
    """Those of a host, of a model, and on one of the members.

    :param host: the name of a compute node, with or without its domain.
    :param members: names of providers in an aggregate.
    :raises NotInCloud: if the cloud has no GPU of this host or model.
    """
    found = tuple(gpus)
    if members is not None:
        found = tuple(gpu for gpu in found if gpu.host in members)
    if host is not None:
        hosts = {gpu.host for gpu in gpus}
        if host not in hosts:
            hosts = {name for name in hosts if name.partition('.')[0] == host}
        else:
            hosts = {host}
        _require(hosts, f'host {host}', 'Hosts', (gpu.host for gpu in gpus))
        found = tuple(gpu for gpu in found if gpu.host in hosts)
    if model is not None:
        of_model = [
            gpu for gpu in gpus if provider_traits.is_model(gpu.traits, model)
        ]
        known = (gpu.facts.model for gpu in gpus)
        _require(of_model, f'model {model}', 'Models', filter(None, known))
        found = tuple(gpu for gpu in found if gpu in of_model)
    return found


def find_gpu(
    gpus: Sequence[fleet.GPU], wanted: str, host: str | None = None
) -> fleet.GPU:
    """The GPU of a UUID, a provider's name, or a PCI address.

    :raises NotInCloud: if there is none, or more than one.
    """
    candidates = select_gpus(gpus, host)
    found = [
        gpu
        for gpu in candidates
        if wanted in (gpu.uuid, gpu.name, gpu.device, gpu.address)
    ] or _find_by_address(candidates, wanted)
    if len(found) == 1:
        return found[0]
    shown = names.printable(wanted)
    where = f' on host {names.printable(host)}' if host else ''
    if not found:
        raise exception.NotInCloud(
            f'Placement has no provider of a GPU {shown}{where}. "openstack '
            'vgpu gpu list" shows all of them.'
        )
    if len({(gpu.host, gpu.address) for gpu in found}) == 1:
        raise exception.NotInCloud(
            f'GPU {shown} is divided and has {len(found)} providers: '
            f'{enumerate_names(gpu.name for gpu in found)}. Give the name of '
            'one of them.'
        )
    hosts = enumerate_names(gpu.host for gpu in found)
    raise exception.NotInCloud(
        f'More than one host has a GPU {shown}: {hosts}. Name the host with '
        '--host, or give the UUID.'
    )


def _find_by_address(
    gpus: Iterable[fleet.GPU], wanted: str
) -> list[fleet.GPU]:
    try:
        address = str(values.PciAddress.parse(wanted))
    except values.MalformedAddress:
        return []
    return [gpu for gpu in gpus if gpu.address == address]


def _require(
    found: Collection[object], what: str, kind: str, known: Iterable[str]
) -> None:
    if not found:
        raise exception.NotInCloud(
            f'Placement has no GPU of {names.printable(what)}. {kind} with '
            f'GPUs: {enumerate_names(known)}.'
        )


def enumerate_names(known: Iterable[str]) -> str:
    """Names for a message, in their order; not all if they are many."""
    listed = sorted(set(known))
    text = ', '.join(listed[:_MOST_NAMES]) or 'none'
    more = len(listed) - _MOST_NAMES
    return f'{text} and {more} more' if more > 0 else text
