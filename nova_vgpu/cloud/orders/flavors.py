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

from nova_vgpu.cloud.gpus import fleet

# "resources:VGPU", "resources1:VGPU", "trait_GPU:CUSTOM_...", as Nova reads
# them.
_KEY = re.compile(
    r'(?P<what>resources|trait)(?P<group>[A-Za-z0-9_-]{0,64}):'
    r'(?P<name>[A-Z0-9_]+)'
)
_POLICY = 'group_policy'
#: The PCI devices of Nova that a flavor asks for, by the names of aliases.
ALIAS = 'pci_passthrough:alias'
_POLICIES = ('none', 'isolate')


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """What a flavor asks of one provider, or of several without a name.

    Traits of a group with a name are those of the provider that gives the
    resources. Without a name, they are those of the compute node as well,
    which gives processors and memory. An amount of 0 replaces what Nova would
    ask for by itself.
    """

    name: str
    amounts: tuple[tuple[str, int], ...] = ()
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    @property
    def resources(self) -> frozenset[str]:
        """The resource classes of which it asks for something."""
        return frozenset(name for name, amount in self.amounts if amount)

    def asks_for(self, gpu: fleet.GPU, resource_class: str) -> bool:
        """Whether a vGPU of this class on this GPU is what is asked for."""
        there = gpu.traits if self.name else gpu.traits | gpu.host_traits
        return (
            resource_class in self.resources
            and self.required <= there
            and self.forbidden.isdisjoint(there)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """What a flavor gives to a server; Nova cannot change it later."""

    vcpus: int = 1
    ram_mib: int = 0
    disk_gib: int = 0
    ephemeral_gib: int = 0
    swap_mib: int = 0


SMALLEST = Size()


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor; ``policy`` says whether groups may share a provider.

    ``name`` can be printed; ``raw_name`` is what Nova has, if that differs.
    """

    name: str
    groups: tuple[Group, ...] = ()
    policy: str | None = None
    size: Size = SMALLEST
    is_public: bool = True
    id: str = ''
    extra_specs: tuple[tuple[str, str], ...] = ()
    raw_name: str | None = None

    @property
    def nova_name(self) -> str:
        """The name as other programs have to give it to Nova."""
        return self.name if self.raw_name is None else self.raw_name

    def asks_for(self, gpu: fleet.GPU, resource_class: str) -> bool:
        return any(
            group.asks_for(gpu, resource_class) for group in self.groups
        )


def parse(
    name: str,
    extra_specs: Mapping[str, str],
    size: Size = SMALLEST,
    is_public: bool = True,
    id: str = '',
    raw_name: str | None = None,
) -> Flavor:
    """A flavor of its extra specs; groups have those about providers."""
    asked = list(_parse_keys(extra_specs))
    policy = extra_specs.get(_POLICY)
    return Flavor(
        name,
        tuple(
            _make_group(asked, group)
            for group in sorted({group for group, _, _, _ in asked})
        ),
        policy if policy in _POLICIES else None,
        size,
        is_public,
        id,
        tuple(sorted((key, str(value)) for key, value in extra_specs.items())),
        None if raw_name == name else raw_name,
    )


def is_request(key: str) -> bool:
    """Whether an extra spec is about devices or other resources."""
    return key in (_POLICY, ALIAS) or _KEY.fullmatch(key) is not None


def _parse_keys(
    extra_specs: Mapping[str, str],
) -> Iterator[tuple[str, str, str, int]]:
    """The group, what is asked there, its name, and how many."""
    for key, value in extra_specs.items():
        match = _KEY.fullmatch(key)
        if match is None:
            continue
        if match['what'] == 'trait':
            yield match['group'], str(value), match['name'], 0
        elif str(value).isdecimal():
            yield match['group'], 'resources', match['name'], int(value)


def _make_group(
    asked: Iterable[tuple[str, str, str, int]], name: str
) -> Group:
    found = [
        (what, of, amount)
        for group, what, of, amount in asked
        if group == name
    ]
    return Group(
        name,
        tuple(
            sorted(
                (of, amount)
                for what, of, amount in found
                if what == 'resources'
            )
        ),
        frozenset(of for what, of, _ in found if what == 'required'),
        frozenset(of for what, of, _ in found if what == 'forbidden'),
    )
