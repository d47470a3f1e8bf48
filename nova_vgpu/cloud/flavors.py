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

"""Flavors, and the GPUs that they ask for."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re

from nova_vgpu.cloud import fleet

# "resources:VGPU", "resources1:VGPU", "trait_GPU:CUSTOM_...".
_KEY = re.compile(
    r'(?P<what>resources|trait)(?P<group>[0-9]*|_[A-Za-z0-9_-]{1,64}):'
    r'(?P<name>[A-Z0-9_]+)'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """What a flavor asks of one provider, or of several without a name.

    Traits of a group with a name are those of the provider that gives the
    resources. Without a name, the compute node may have some of them.
    """

    name: str
    resources: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    def asks_for(self, gpu: fleet.GPU, resource_class: str) -> bool:
        """Whether a vGPU of this class on this GPU is what is asked for."""
        there = gpu.traits if self.name else gpu.traits | gpu.host_traits
        return (
            resource_class in self.resources
            and self.required <= there
            and self.forbidden.isdisjoint(gpu.traits)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    name: str
    groups: tuple[Group, ...] = ()

    def asks_for(self, gpu: fleet.GPU, resource_class: str) -> bool:
        return any(
            group.asks_for(gpu, resource_class) for group in self.groups
        )


def parse(name: str, extra_specs: Mapping[str, str]) -> Flavor:
    """A flavor of its extra specs; those about other things are ignored."""
    asked = list(_parse_keys(extra_specs))
    return Flavor(
        name,
        tuple(
            Group(group, *_parts(asked, group))
            for group in sorted({group for group, _, _ in asked})
        ),
    )


def _parse_keys(
    extra_specs: Mapping[str, str],
) -> Iterator[tuple[str, str, str]]:
    """The group, what is asked there, and its name."""
    for key, value in extra_specs.items():
        match = _KEY.fullmatch(key)
        if match is None:
            continue
        if match['what'] == 'trait':
            yield match['group'], str(value), match['name']
        elif str(value).isdecimal() and int(value):
            yield match['group'], 'resources', match['name']


def _parts(
    asked: Iterable[tuple[str, str, str]], group: str
) -> Iterator[frozenset[str]]:
    for part in ('resources', 'required', 'forbidden'):
        yield frozenset(
            name for of, what, name in asked if (of, what) == (group, part)
        )
