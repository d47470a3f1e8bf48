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

"""The GPUs that each node of a cluster gets by its flavor.

The operator and the device plugin that make a GPU usable in Kubernetes are
NVIDIA's, and the test of a node is a CUDA program: a flavor that gives
something else is refused.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_order
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import vendors
from nova_vgpu.knowledge import whole_gpu_names

_NVIDIA = 'NVIDIA'


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorChoice:
    """The flavor of nodes: by its name or ID, or by what it brings."""

    flavor: str | None = None
    type: str | None = None
    passthrough: str | None = None
    count: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class NodeGPUs:
    """vGPUs or whole GPUs; ``name`` is their type or model, if it is one."""

    count: int
    name: str | None = None
    is_whole: bool = False

    def __str__(self) -> str:
        what = 'GPU' if self.is_whole else 'vGPU'
        plural = '' if self.count == 1 else 's'
        kind = f' {self.name}' if self.name else ''
        return f'{self.count} {what}{plural}{kind}'


def find(flavor: flavors.Flavor, gpus: Sequence[fleet.GPU]) -> NodeGPUs:
    """What a flavor brings; the count is 0 without a GPU.

    :param gpus: those that serve vGPUs, if they are known: a resource class
        that does not name its type is known by them.
    """
    whole = whole_gpu_order.list_devices(flavor)
    asked = demands.find([flavor], gpus)[flavor.name]
    kinds = {demand.kind.name for demand in asked} - {demands.SEVERAL}
    found = {name for name in kinds if name} | {of.title for of in whole}
    is_one = len(asked) + len(whole) == 1 and len(found) == 1
    return NodeGPUs(
        sum(demand.vgpus for demand in asked) + sum(whole.values()),
        found.pop() if is_one else None,
        bool(whole) and not asked,
    )


def choose_flavor(
    listed: Sequence[flavors.Flavor],
    gpus: Sequence[fleet.GPU],
    choice: FlavorChoice,
) -> flavors.Flavor:
    """The flavor that is meant.

    :raises NotInCloud: if there is none, or more than one.
    """
    if choice.flavor is not None:
        return find_flavor(listed, choice.flavor)
    if choice.passthrough is not None:
        wanted = NodeGPUs(
            choice.count, _find_model(choice.passthrough), is_whole=True
        )
    else:
        wanted = NodeGPUs(choice.count, _find_type(gpus, choice.type or ''))
    found = [each for each in listed if find(each, gpus) == wanted]
    if len(found) == 1:
        return found[0]
    if not found:
        raise exception.NotInCloud(
            f'No flavor brings exactly {wanted}. "openstack vgpu flavor '
            'list" shows what there is, and "openstack vgpu flavor create" '
            'makes one.'
        )
    several = selection.enumerate_names(each.name for each in found)
    raise exception.NotInCloud(
        f'More than one flavor brings {wanted}: {several}. Name one of them.'
    )


def find_flavor(
    listed: Sequence[flavors.Flavor], wanted: str
) -> flavors.Flavor:
    """The flavor of a name or an ID.

    :raises NotInCloud: if there is none.
    """
    for found in listed:
        if found.nova_name == wanted:
            return found
    for found in listed:
        if wanted in (found.id, found.name):
            return found
    raise exception.NotInCloud(
        f'Nova has no flavor {names.printable(wanted)} that this account can '
        'see. "openstack flavor list" shows those there are.'
    )


def find_problems(
    flavor: flavors.Flavor,
    found: NodeGPUs,
    gpus: Sequence[fleet.GPU] | None,
) -> Iterator[str]:
    """Why nodes with a flavor cannot run CUDA under NVIDIA's operator.

    :param gpus: those that serve vGPUs; None if Placement was not asked.
    """
    if not found.count:
        yield _explain_no_gpu(flavor, is_known=gpus is not None)
    for title in whole_gpu_order.list_devices(flavor):
        made_by = _vendor_of_model(title.title)
        if made_by is not None and made_by.name != _NVIDIA:
            yield _explain_vendor(flavor, made_by)
    for demand in demands.find([flavor], gpus or ())[flavor.name]:
        name = demand.kind.name or ''
        made_by = capabilities.vendor_of_type(name)
        if made_by is not None and made_by.name != _NVIDIA:
            yield _explain_vendor(flavor, made_by)
        elif made_by is not None and made_by.offers_cuda(name) is False:
            yield (
                f'Flavor {flavor.name} brings vGPUs of type {name}, which do '
                'not offer CUDA. Use a type of the series Q or C.'
            )


def _explain_no_gpu(flavor: flavors.Flavor, is_known: bool) -> str:
    unknown = f'It is not known which GPUs flavor {flavor.name} brings: '
    alias = dict(flavor.extra_specs).get(flavors.ALIAS)
    if alias is not None:
        return (
            f'{unknown}it asks for {names.printable(alias)}. An alias has to '
            'be named after a model, as "nova-vgpu config generate '
            '--passthrough" writes it.'
        )
    classes = sorted(
        name
        for group in flavor.groups
        for name in group.resources
        if name.startswith('CUSTOM_')
    )
    if classes and not is_known:
        return (
            f'{unknown}it asks for {", ".join(classes)}. Leave out '
            '--no-fit-check, so that Placement is asked, or use a resource '
            'class that is named after a type.'
        )
    return (
        f'Flavor {flavor.name} brings neither vGPUs nor whole GPUs. '
        '"openstack vgpu flavor list" shows those that do.'
    )


def _explain_vendor(flavor: flavors.Flavor, made_by: vendors.Vendor) -> str:
    return (
        f'Flavor {flavor.name} brings GPUs of {made_by.name}. Only nodes with '
        'NVIDIA GPUs are rendered.'
    )


def _vendor_of_model(title: str) -> vendors.Vendor | None:
    ids = whole_gpu_names.parse_ids(title)
    if ids is not None:
        return vendors.get_by_pci_id(ids.vendor)
    return next(
        (v for v in vendors.list_vendors() if v.find_model(title)), None
    )


def _find_model(wanted: str) -> str:
    found = None
    if wanted.isprintable():
        found = whole_gpu_names.find_names(wanted)
    if found is None:
        raise exception.NotInCloud(
            f'Model {names.printable(wanted)} is not known. Give its name, as '
            '"openstack vgpu gpu list" shows it, or its PCI ids, as 10de:20b5.'
        )
    return found.title


def _find_type(gpus: Sequence[fleet.GPU], wanted: str) -> str:
    """The short name of a type."""
    if gpus:
        trait = type_choice.find_trait(gpus, wanted)
        return provider_traits.read(frozenset({trait})).types[0]
    parsed = capabilities.parse_type_name(wanted)
    if parsed is None:
        raise exception.NotInCloud(
            f'Type {names.printable(wanted)} is not known. Give its name, for '
            'example A40-8Q.'
        )
    return parsed.short
