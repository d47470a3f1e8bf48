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

"""The vGPU type that a user of a command means, among those of the cloud.

A type is known by the trait of the GPUs that serve it. What is written is
parsed as a name in ``nova.conf`` is, so all of its spellings lead to the same
trait: ``A40-8Q``, ``NVIDIA A40-8Q``, ``a40-8q``, or the trait itself.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors
from nova_vgpu.plan import typos


@dataclasses.dataclass(frozen=True, slots=True)
class ServedType:
    """A type with a resource class, and the GPUs that serve it."""

    name: str
    trait: str
    resource_class: str
    gpus: tuple[fleet.GPU, ...]

    @property
    def stocks(self) -> tuple[tuple[fleet.GPU, fleet.Stock], ...]:
        """What each GPU has of the resource class."""
        return tuple(
            (gpu, stock)
            for gpu in self.gpus
            for stock in gpu.stocks
            if stock.resource_class == self.resource_class
        )


def find_trait(gpus: Sequence[fleet.GPU], wanted: str) -> str:
    """The trait of the type that is meant.

    :raises NotInCloud: if no GPU serves it, or more than one type is meant.
    """
    served = {
        trait
        for gpu in gpus
        for trait in gpu.traits
        if trait.startswith(traits.TYPE_PREFIX)
    }
    found = sorted(served.intersection(_list_meant(gpus, wanted)))
    if len(found) == 1:
        return found[0]
    if found:
        meant = selection.enumerate_names(map(_name_of, found))
        raise exception.NotInCloud(
            f'Type {wanted} is ambiguous: {meant}. Give the full name.'
        )
    raise exception.NotInCloud(
        _explain_unknown(wanted, sorted(map(_name_of, served)))
    )


def find_type(
    gpus: Sequence[fleet.GPU], wanted: str, resource_class: str | None = None
) -> ServedType:
    """The type that is meant, with the GPUs that serve it.

    :param resource_class: needed only if they serve it with several.
    :raises NotInCloud: if that does not lead to one type and class.
    """
    trait = find_trait(gpus, wanted)
    name = _name_of(trait)
    serving = tuple(gpu for gpu in gpus if trait in gpu.traits)
    classes = _list_classes(serving)
    listed = selection.enumerate_names(classes)
    if resource_class is None and len(classes) > 1:
        raise exception.NotInCloud(
            f'GPUs serve type {name} with several resource classes: {listed}. '
            'Choose one with --resource-class.'
        )
    if resource_class is not None and resource_class not in classes:
        raise exception.NotInCloud(
            f'No GPU serves type {name} with resource class '
            f'{names.printable(resource_class)}. Resource classes: {listed}.'
        )
    return ServedType(name, trait, resource_class or classes[0], serving)


def is_live(stock: fleet.Stock) -> bool:
    """Whether it is given out: not all that is left of it is reserved."""
    return bool(stock.free) or bool(stock.capacity and not stock.reserved)


def _list_classes(gpus: Sequence[fleet.GPU]) -> list[str]:
    """Resource classes; one that only fenced GPUs have does not count."""
    stocks = [stock for gpu in gpus for stock in gpu.stocks]
    live = [stock for stock in stocks if is_live(stock)]
    return sorted({stock.resource_class for stock in live or stocks})


def _list_meant(gpus: Sequence[fleet.GPU], wanted: str) -> Iterator[str]:
    """The traits of types that the text may mean."""
    if not wanted.isprintable():
        return
    yield wanted.strip().upper()
    yield traits.custom('VGPU_TYPE', wanted.strip())
    for model in {gpu.facts.model for gpu in gpus}:
        # "DC-16Q" is a type of each model that ends in "DC".
        name = capabilities.complete_name(wanted, model)
        if name is not None:
            yield traits.custom('VGPU_TYPE', name.short)


def _name_of(trait: str) -> str:
    return provider_traits.read(frozenset({trait})).types[0]


def _explain_unknown(wanted: str, known: list[str]) -> str:
    shown = names.printable(wanted)
    near = typos.find_nearest(wanted, known)
    cure = f' Did you mean {near}?' if near else ''
    if vendors.get_by_type_id(wanted) is not None:
        cure = ' Ids of types differ between hosts and drivers: give the name.'
    return (
        f'Placement has no GPU of type {shown}.{cure} Types with GPUs: '
        f'{selection.enumerate_names(known)}.'
    )
