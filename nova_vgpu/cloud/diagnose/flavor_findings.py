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

"""Flavors that do not get what they seem to ask for.

Nova accepts any extra spec of an old client, and ignores those that it does
not know. So a misspelled key gives a server without a vGPU.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import re

from nova_vgpu import values
from nova_vgpu.cloud import names
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.orders import flavors as cloud_flavors
from nova_vgpu.knowledge import traits

# The beginnings of traits that look like those of GPUs. An operator may have
# others that begin so.
_VGPU_TRAIT = 'CUSTOM_VGPU_'
_GPU_TRAITS = (_VGPU_TRAIT, 'CUSTOM_GPU_')
_OWN_TRAITS = tuple(
    prefix for prefix in traits.OWN_PREFIXES if prefix.startswith(_VGPU_TRAIT)
)
_SIMILAR = re.compile(
    r'\s*(?P<what>resources?|traits?|required|forbidden)'
    r'(?P<group>[A-Za-z0-9_-]{0,64}?)\s*[:.=]\s*(?P<name>\w+)\s*',
    re.IGNORECASE,
)
# For Nova, "traits:X" is the trait X of a group "s", and "traits1:X" of "s1".
_PLURAL = re.compile(r's([0-9_-].*)?')
#: Where to look in a cure.
SHOW_TYPES = '"openstack vgpu type list --long" shows what GPUs offer.'


def find(examined: examination.Examination) -> Iterator[values.Finding]:
    for flavor in sorted(examined.flavors, key=lambda found: found.name):
        yield from _find_misspelled(examined, flavor)
        yield from _find_wrong_values(examined, flavor)
        yield from _find_zeros(examined, flavor)
        yield from find_traits_alone(examined, flavor)
        yield from _find_without_policy(examined, flavor)


def make(
    flavor: cloud_flavors.Flavor,
    code: str,
    text: str,
    seen: Iterable[tuple[str, str]],
    cure: str,
) -> values.Finding:
    """A finding about a flavor.

    :param seen: extra specs.
    """
    return values.Finding(
        values.Severity.ERROR,
        code,
        flavor.name,
        text,
        tuple(
            values.Evidence(
                f'flavor {flavor.name}',
                f'{names.printable(key)}={names.printable(value)}',
            )
            for key, value in seen
        ),
        cure,
    )


def _find_misspelled(
    examined: examination.Examination, flavor: cloud_flavors.Flavor
) -> Iterator[values.Finding]:
    for key, value in flavor.extra_specs:
        match = _SIMILAR.fullmatch(key)
        if match is None or _is_read(flavor, key):
            continue
        name = match['name'].upper()
        of_trait = name.startswith(_GPU_TRAITS)
        if not of_trait and not examined.is_vgpu_class(name):
            continue
        what = 'trait' if of_trait else 'resources'
        yield make(
            flavor,
            'flavor-misspelled',
            f'The extra spec "{names.printable(key)}" of flavor {flavor.name} '
            'is misspelled, and does not select a vGPU.',
            [(key, value)],
            f'Set "{what}{match["group"]}:{name}" in its place.',
        )


def _is_read(flavor: cloud_flavors.Flavor, key: str) -> bool:
    """Whether Nova reads an extra spec as what is meant."""
    plurals = [f'trait{group.name}' for group in _list_plurals(flavor)]
    return (
        cloud_flavors.is_request(key) and key.partition(':')[0] not in plurals
    )


def _list_plurals(
    flavor: cloud_flavors.Flavor,
) -> list[cloud_flavors.Group]:
    """Groups that are there by "traits" in place of "trait"."""
    return [
        group
        for group in flavor.groups
        if not group.amounts and _PLURAL.fullmatch(group.name)
    ]


def _find_wrong_values(
    examined: examination.Examination, flavor: cloud_flavors.Flavor
) -> Iterator[values.Finding]:
    """Values that Nova ignores."""
    for key, value in flavor.extra_specs:
        what, _, name = key.partition(':')
        if not _is_read(flavor, key):
            continue
        if what.startswith('trait'):
            is_wrong = value not in ('required', 'forbidden')
            is_about_gpus = name.startswith(_GPU_TRAITS)
            cure = 'Set it to "required" or "forbidden".'
        else:
            is_wrong = not value.isdecimal()
            is_about_gpus = examined.is_vgpu_class(name)
            cure = 'Set it to the number of vGPUs.'
        if is_wrong and is_about_gpus:
            yield make(
                flavor,
                'flavor-value-ignored',
                f'Nova ignores the extra spec "{key}" of flavor '
                f'{flavor.name}, because it does not accept its value.',
                [(key, value)],
                cure,
            )


def _find_zeros(
    examined: examination.Examination, flavor: cloud_flavors.Flavor
) -> Iterator[values.Finding]:
    zeros = [
        (f'resources{group.name}:{name}', '0')
        for group in flavor.groups
        for name, amount in group.amounts
        if not amount and examined.is_vgpu_class(name)
    ]
    if zeros and not examined.list_requests(flavor):
        yield make(
            flavor,
            'flavor-without-vgpu',
            f'Flavor {flavor.name} asks for 0 vGPUs: its servers get none.',
            zeros,
            'Set the number of vGPUs, or remove the extra spec.',
        )


def find_traits_alone(
    examined: examination.Examination, flavor: cloud_flavors.Flavor
) -> Iterator[values.Finding]:
    """Traits of vGPUs, not of hosts, in groups that ask for no vGPU."""
    asking = [request.group for request in examined.list_requests(flavor)]
    misspelled = _list_plurals(flavor)
    for group in flavor.groups:
        alone = sorted(
            trait
            for trait in group.required - examined.host_traits
            if trait.startswith(_OWN_TRAITS)
        )
        if alone and group not in asking and group not in misspelled:
            yield make(
                flavor,
                'flavor-trait-alone',
                f'Flavor {flavor.name} requires a trait of a vGPU, but no '
                'vGPU in the same group: no host fits.',
                [
                    (f'trait{group.name}:{trait}', 'required')
                    for trait in alone
                ],
                f'Add "resources{group.name}:VGPU=1", or the resource class '
                f'that the type has. {SHOW_TYPES}',
            )


def _find_without_policy(
    examined: examination.Examination, flavor: cloud_flavors.Flavor
) -> Iterator[values.Finding]:
    named = [g for g in flavor.groups if g.name and g.resources]
    if (
        len(named) > 1
        and flavor.policy is None
        and examined.list_requests(flavor)
    ):
        yield make(
            flavor,
            'flavor-without-policy',
            f'Flavor {flavor.name} has several groups of resources and no '
            'group policy. Placement refuses that, and no server can be '
            'created.',
            [spec for group in named for spec in list_specs(flavor, group)],
            'Set the extra spec "group_policy" to "isolate" for vGPUs of '
            'different GPUs, or to "none".',
        )


def list_specs(
    flavor: cloud_flavors.Flavor, group: cloud_flavors.Group
) -> list[tuple[str, str]]:
    """The extra specs of a group."""
    of_group = (f'resources{group.name}:', f'trait{group.name}:')
    return [
        spec for spec in flavor.extra_specs if spec[0].startswith(of_group)
    ]
