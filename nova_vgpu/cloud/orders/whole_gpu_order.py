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

"""What a flavor has to say for its servers to get whole GPUs.

It asks for the alias of the model, which ``[pci]alias`` of Nova leads to the
resource class of the GPUs. By the resource class alone, a server would have an
allocation and no device. The names follow from the model, so a flavor can be
read without the configuration of Nova.

Nothing is said about memory: VFIO pins that of the guest, and libvirt raises
the limit for it. It is the same as with vGPUs.
"""

import collections
from collections.abc import Sequence
import dataclasses
import re

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.knowledge import whole_gpu_names
from nova_vgpu.plan import typos

_GENERATE = (
    '"nova-vgpu config generate --passthrough" on a host prints how to pass a '
    'GPU through.'
)
_DEVICE = re.compile(r'(?P<alias>[^:]+):(?P<count>[0-9]+)', re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class WholeModel:
    """The whole GPUs of a model, and the names that flavors use for it."""

    names: whole_gpu_names.WholeGPUNames
    gpus: tuple[fleet.GPU, ...]

    @property
    def name(self) -> str:
        return self.names.title

    @property
    def stocks(self) -> tuple[tuple[fleet.GPU, fleet.Stock], ...]:
        """What each GPU has of the resource class."""
        return tuple(
            (gpu, stock)
            for gpu in self.gpus
            for stock in gpu.stocks
            if stock.resource_class == self.names.resource_class
        )


def make_extra_specs(
    wanted: whole_gpu_names.WholeGPUNames, count: int
) -> dict[str, str]:
    """What gives a server so many of these GPUs."""
    return {flavors.ALIAS: f'{wanted.alias}:{count}'}


def list_devices(
    flavor: flavors.Flavor,
) -> dict[whole_gpu_names.WholeGPUNames, int]:
    """The whole GPUs that a flavor asks for, and how many of each.

    An alias that ``nova-vgpu config generate`` does not write may be for any
    device: it is left out.
    """
    found: collections.Counter[whole_gpu_names.WholeGPUNames]
    found = collections.Counter()
    for device in _split(dict(flavor.extra_specs).get(flavors.ALIAS, '')):
        if parsed := _parse_device(device):
            of, count = parsed
            found[of] += count
    return dict(+found)


def replace_devices(existing: str, wanted: str) -> str:
    """The alias of a flavor with other whole GPUs.

    Devices that are not whole GPUs stay: network cards, for example.
    """
    there = _split(existing)
    own = [device for device in there if _parse_device(device)]
    new = _split(wanted)
    if own == new:
        return existing
    return ','.join((*new, *(d for d in there if d not in own)))


def _split(alias: str) -> list[str]:
    return [device.strip() for device in alias.split(',') if device.strip()]


def _parse_device(
    device: str,
) -> tuple[whole_gpu_names.WholeGPUNames, int] | None:
    match = _DEVICE.fullmatch(device)
    if match is None:
        return None
    of = whole_gpu_names.find_by_alias(match['alias'].strip())
    return (of, int(match['count'])) if of else None


def find_model(gpus: Sequence[fleet.GPU], wanted: str) -> WholeModel:
    """The model that is meant, by its name or PCI ids.

    :param gpus: those that serve vGPUs as well.
    :raises NotInCloud: if it is not known, or no host passes it through.
    """
    whole = [gpu for gpu in gpus if whole_gpu_fleet.is_gpu(gpu)]
    known = sorted(set(map(_title_of, whole)))
    found = None
    if wanted.isprintable():
        found = whole_gpu_names.find_names(wanted)
    if found is None:
        raise exception.NotInCloud(_explain_unknown(wanted, known))
    serving = tuple(
        gpu
        for gpu in whole
        if any(s.resource_class == found.resource_class for s in gpu.stocks)
    )
    if not serving:
        raise exception.NotInCloud(_explain_absent(gpus, wanted, found, known))
    return WholeModel(found, serving)


def require_possible(model: WholeModel, count: int) -> None:
    """Check that some host has so many GPUs of the model.

    :raises NotInCloud: if none has, not even without any server.
    """
    per_host: collections.Counter[str] = collections.Counter()
    for gpu, stock in model.stocks:
        per_host[gpu.host] += stock.total
    most = max(per_host.values())
    if count > most:
        raise exception.NotInCloud(
            f'No host has {count} whole GPUs of model {model.name}: the most '
            f'is {most}. Use a smaller --count.'
        )


def require_live(model: WholeModel) -> None:
    """Check that a GPU is given out, free or in use.

    :raises NotInCloud: if all are reserved.
    """
    if not any(type_choice.is_live(stock) for _, stock in model.stocks):
        gpus = selection.enumerate_names(
            f'{gpu.address} on {gpu.host}' for gpu in model.gpus
        )
        raise exception.NotInCloud(
            f'No new server can get a whole GPU of model {model.name}: '
            f'reserved or without capacity: {gpus}. Nova reserves a GPU with '
            'one_time_use in [pci]device_spec once it was used; set '
            '"reserved" of its inventory to 0 when it is ready again.'
        )


def _title_of(gpu: fleet.GPU) -> str:
    """The model, or what else can be asked for."""
    resource_class = gpu.stocks[0].resource_class if gpu.stocks else ''
    found = whole_gpu_names.find_by_class(resource_class)
    return found.title if found else gpu.facts.model or resource_class


def _explain_unknown(wanted: str, known: list[str]) -> str:
    near = typos.find_nearest(wanted, known)
    cure = f'Did you mean {near}? ' if near else ''
    return (
        f'Model {names.printable(wanted)} is not known. {cure}Give its name, '
        'as "openstack vgpu gpu list" shows it, or its PCI ids, as 10de:20b5. '
        f'{_list_known(known)}'
    )


def _explain_absent(
    gpus: Sequence[fleet.GPU],
    wanted: str,
    found: whole_gpu_names.WholeGPUNames,
    known: list[str],
) -> str:
    ids = whole_gpu_names.parse_ids(wanted)
    models = whole_gpu_names.list_models(ids) if ids else ()
    if len(models) > 1:
        return (
            f'PCI ids {ids} are ambiguous: {", ".join(models)}. Give the name '
            f'of the model. {_list_known(known)}'
        )
    types = {
        name
        for gpu in gpus
        if provider_traits.is_model(gpu.traits, found.title)
        for name in gpu.facts.types
    }
    shared = (
        f'GPUs of this model serve vGPUs: {selection.enumerate_names(types)}. '
        'For these, use --type. '
    )
    return (
        f'No host passes a GPU of model {found.title} through: Placement has '
        f'no {found.resource_class}. {shared if types else ""}{_GENERATE} '
        f'{_list_known(known)}'
    )


def _list_known(known: list[str]) -> str:
    return f'Models of whole GPUs: {selection.enumerate_names(known)}.'
