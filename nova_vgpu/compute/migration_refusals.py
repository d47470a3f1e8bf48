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

"""Why nova-compute refuses a live migration, before it begins.

The reasons are those of :mod:`nova_vgpu.migration`, which ``openstack vgpu
migration check`` shows as well. Only what makes the migration fail for sure is
refused: what is unknown is not. Nova itself compares versions of libvirt and
QEMU, and what is free is up to the destination.
"""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.compute import migration_offer
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.knowledge import capabilities
from nova_vgpu.migration import checks
from nova_vgpu.migration import device_checks
from nova_vgpu.migration import settings_checks

_NVIDIA = 'nvidia'
Names = Mapping[str, str]


def name_of(type_id: str, names: Names) -> str | None:
    """The short name of a type; None if it is not known.

    A name that is not understood may be spelled otherwise on another host, and
    one that two ids have does not tell types apart.
    """
    name = names.get(type_id, '')
    parsed = capabilities.parse_type_name(name)
    if parsed is None or list(names.values()).count(name) > 1:
        return None
    return parsed.short


def make_offer(
    host: str, plan: values.Plan, modes: values.ModesRead, names: Names
) -> migration_offer.Offer:
    """What the GPUs of this host serve."""
    return migration_offer.Offer(
        host,
        tuple(
            migration_offer.Served(
                str(assigned.gpu),
                vgpu_planner.label_type(assigned.gpu, assigned.type.id),
                name_of(assigned.type.id, names),
                assigned.gpu.framework,
                _find_ecc(assigned.gpu, modes),
            )
            for assigned in plan.assignments
            if assigned.type is not None
        ),
    )


def _find_ecc(gpu: values.PhysicalGPU, modes: values.ModesRead) -> bool | None:
    ecc = modes.of(gpu.address).ecc
    return ecc.current if ecc else None


def list_devices(
    vgpus: Collection[str],
    plan: values.Plan,
    modes: values.ModesRead,
    names: Names,
) -> Iterator[values.MovingDevice]:
    """The vGPUs of a server, of which each goes by itself."""
    for gpu in plan.gpus:
        for vgpu in gpu.all_vgpus:
            if vgpu.name in vgpus:
                yield values.MovingDevice(
                    gpu=str(gpu),
                    type=name_of(vgpu.type_id, names),
                    framework=gpu.framework,
                    is_nvidia=gpu.driver == _NVIDIA,
                    ecc=_find_ecc(gpu, modes),
                )


def find(
    source: values.MigrationSource,
    offer: migration_offer.Offer | None,
    names: Names,
) -> tuple[values.MigrationReason, ...]:
    """The reasons to refuse; without an offer, only those of this host.

    :param names: what ids of types are called here. The destination may not
        know the name of a type: the same id counts as the same name then.
    """
    found = [*settings_checks.check(source)]
    if offer is not None:
        places = (
            values.MigrationPlace(
                gpu=each.gpu,
                type=each.name or name_of(_id_of(each.label), names),
                framework=each.framework,
                ecc=each.ecc,
            )
            for each in offer.served
        )
        target = values.MigrationTarget(offer.host, tuple(places))
        found += device_checks.check(source, target)
    return checks.list_refusals(checks.sort(found))


def translate(
    types: Mapping[str, str], offer: migration_offer.Offer, names: Names
) -> dict[str, str]:
    """The types of vGPUs by the ids that they have at the destination.

    Nova compares ids, which are those of a release of the vendor's driver.
    """
    labels: dict[tuple[bool, str | None], list[str]] = {}
    for each in offer.served:
        kind = _is_function(each.label), each.name
        labels.setdefault(kind, []).append(each.label)
    found = {}
    for vgpu, label in types.items():
        name = name_of(_id_of(label), names)
        there = labels.get((_is_function(label), name), []) if name else []
        found[vgpu] = there[0] if there and label not in there else label
    return found


def _is_function(label: str) -> bool:
    return label.startswith(vgpu_planner.FUNCTION_PREFIX)


def _id_of(label: str) -> str:
    return label.removeprefix(vgpu_planner.FUNCTION_PREFIX)


def write(why: Collection[values.MigrationReason]) -> str:
    """All reasons with their cures."""
    return ' '.join(f'{each.text} {each.cure}' for each in why)
