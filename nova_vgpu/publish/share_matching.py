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

"""Which share of a divided GPU the vGPUs of a server belong to.

A provider that is to be replaced by those of the shares does not tell the
types of what servers hold there. Their guests do: by the vGPUs that they have,
or by the types that they note of vGPUs which are not there now.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import typing

from nova_vgpu import values
from nova_vgpu.plan import shares as plan_shares
from nova_vgpu.plan import type_matching
from nova_vgpu.publish import providers

_U = typing.TypeVar('_U')
_V = typing.TypeVar('_V')


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """What a server holds of a provider for one vGPU."""

    held: values.PlacementProvider
    resource_class: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """A vGPU of a server: where it is, its type's label, and its share."""

    function: str | None
    label: str | None
    share: values.Assignment


def list_shares(
    target: providers.Target,
    units: Sequence[Unit],
    consumer: values.Consumer,
    shares: Sequence[values.Assignment],
) -> list[values.Assignment]:
    """The share for each unit that a server holds of a GPU.

    A unit is for a vGPU that its provider stands for, if there is one: on its
    function, or of its type.

    :returns: fewer or more than there are units if the server has another
        number of vGPUs of the GPU.
    """
    vgpus = list(_list_vgpus(target, consumer, shares))
    if len(vgpus) != len(units):
        return [found.share for found in vgpus]
    matched = pair(
        units, vgpus, lambda unit, found: _stands_for(target, unit.held, found)
    )
    return [found.share for _, found in matched]


def pair(
    units: Sequence[_U],
    vgpus: Iterable[_V],
    is_exact: Callable[[_U, _V], bool],
) -> list[tuple[_U, _V]]:
    """Each unit with a vGPU, with one that it is for if there is one.

    :param vgpus: as many as there are units.
    """
    left = list(vgpus)
    chosen: dict[int, _V] = {}
    for index, unit in enumerate(units):
        for place, vgpu in enumerate(left):
            if is_exact(unit, vgpu):
                chosen[index] = left.pop(place)
                break
    return [
        (unit, chosen[index] if index in chosen else left.pop(0))
        for index, unit in enumerate(units)
    ]


def _list_vgpus(
    target: providers.Target,
    consumer: values.Consumer,
    shares: Sequence[values.Assignment],
) -> Iterator[_Found]:
    """The vGPUs that a server has of a GPU.

    An mdev that is not there now, because its server is shut off, may be one
    of this GPU.
    """
    gpu = shares[0].gpu
    there = {vgpu.name: vgpu for vgpu in gpu.all_vgpus}
    elsewhere = {
        vgpu.name for other in target.plan.gpus for vgpu in other.all_vgpus
    }
    for guest in target.guests:
        for note in guest.vgpus if guest.uuid == consumer.uuid else ():
            vgpu = there.get(note.name)
            function: str | None = vgpu.function if vgpu else note.name
            if function not in gpu.functions:
                function = None
                if note.name in elsewhere:
                    continue
            yield _Found(
                function,
                _make_label(gpu, vgpu, note),
                find_share(shares, vgpu, note, function),
            )


def _stands_for(
    target: providers.Target, held: values.PlacementProvider, found: _Found
) -> bool:
    device = held.name.removeprefix(f'{target.node}_')
    gpu, label = values.split_device(device, target.devices)
    if label:
        return found.label == label
    # Nova's driver has one for each virtual function.
    return gpu == found.share.gpu.name or gpu == found.function


def find_share(
    shares: Sequence[values.Assignment],
    vgpu: values.VGPU | None,
    note: values.GuestVGPU | None,
    function: str | None,
) -> values.Assignment:
    """The share that a vGPU belongs to, by its type and its function.

    One of a type that the GPU is not to serve any more counts in the first
    share: it takes up the same hardware until its server leaves.
    """
    for share in shares:
        if function is not None and function not in share.functions:
            continue
        if vgpu and share.type and vgpu.type_id == share.type.id:
            return share
        if note and note.type_name and vgpu is None:
            of_note = values.VGPUType(note.type_name, note.type_name)
            if type_matching.find_matches(share.declared.name, [of_note]):
                return share
    return shares[0]


def _make_label(
    gpu: values.PhysicalGPU,
    vgpu: values.VGPU | None,
    note: values.GuestVGPU,
) -> str | None:
    """What a vGPU's type is called in names of providers, if it is known."""
    names = {t.id: t.name for t in gpu.types if t.name}
    called = vgpu.type_id if vgpu else note.type_name
    if called is None:
        return None
    return plan_shares.make_label(called, {called: names.get(called, called)})
