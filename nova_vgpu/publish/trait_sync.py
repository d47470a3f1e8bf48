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

"""The traits of providers: which to set, and which of them are ours.

``provider sync`` sets the traits alone where the providers are Nova's: one per
GPU, or one per virtual function. They are found by their names and get the
traits of the type that their GPU serves.

Nothing is remembered between two runs but what Placement itself holds. Custom
traits of ours have a prefix. The owner of a standard trait is unknown: it is
ours if it follows from the type that the provider served before, which its
trait ``CUSTOM_VGPU_TYPE_*`` names. All others are foreign and stay, also
standard ones that an operator set by hand, and so does ``OWNER_NOVA``.
"""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits
from nova_vgpu.publish import providers


def diff_traits(
    target: providers.Target, tree: values.PlacementTree
) -> values.Difference:
    """What to change so that Nova's providers carry the plan's traits.

    A GPU that is to serve a type and cannot (yet) keeps what it has: nothing
    is known about it that would be a reason to change anything.
    """
    changes: list[values.Change] = []
    problems: list[values.Problem] = []
    for gpu, names, wanted in _list_wanted(target):
        known, unknown = split_known(wanted, tree)
        problems.extend(unknown)
        found = [held for held in tree.providers if held.name in names]
        if wanted and not found:
            problems.append(_without_provider(gpu, names))
        for held in found:
            changes.extend(change_traits(gpu, held, known))
    return values.Difference(
        (*create_traits(changes, tree), *changes),
        tuple(dict.fromkeys(problems)),
    )


def list_names_of_interest(target: providers.Target) -> frozenset[str]:
    """The providers whose traits :func:`diff_traits` has to know."""
    return frozenset(
        name for _, names, _ in _list_wanted(target) for name in names
    )


def _list_wanted(
    target: providers.Target,
) -> Iterator[tuple[values.PhysicalGPU, frozenset[str], frozenset[str]]]:
    """What serves, and the GPUs that shall not: their providers and traits."""
    for assigned, provider in target.served.values():
        names = providers.list_names_of(assigned, target.node)
        yield assigned.gpu, names, frozenset(provider.traits)
    for left in target.plan.left_alone:
        names = providers.list_names(left.gpu, target.node)
        yield left.gpu, names, frozenset()


def change_traits(
    gpu: values.PhysicalGPU,
    held: values.PlacementProvider,
    wanted: frozenset[str],
) -> Iterator[values.SetTraits]:
    """What to add and what of ours to take away, if anything."""
    if held.traits == wanted:
        return
    stale = find_stale(gpu, held.traits, wanted)
    after = held.traits - stale | wanted
    if after != held.traits:
        yield values.SetTraits(held.uuid, held.name, held.traits, after)


def create_traits(
    changes: Iterable[values.Change], tree: values.PlacementTree
) -> tuple[values.CreateTrait, ...]:
    """The custom traits that have to be there before the changes."""
    needed = {
        trait
        for change in changes
        if isinstance(change, values.SetTraits)
        for trait in change.added
    }
    return tuple(
        values.CreateTrait(trait)
        for trait in sorted(needed - tree.known_traits)
    )


def split_known(
    wanted: frozenset[str], tree: values.PlacementTree
) -> tuple[frozenset[str], tuple[values.Problem, ...]]:
    """What Placement can take, and what it cannot.

    A standard trait cannot be created; a Placement with an older os-traits
    would refuse all traits of the provider because of it.
    """
    unknown = frozenset(
        trait
        for trait in wanted - tree.known_traits
        if not traits.is_custom(trait)
    )
    return wanted - unknown, tuple(
        values.Problem(
            values.Severity.WARNING,
            'trait-unknown',
            trait,
            f'Placement does not know the standard trait {trait}, so no '
            'provider gets it.',
            "Upgrade Placement's os-traits, and run placement-manage db sync "
            'there.',
        )
        for trait in sorted(unknown)
    )


def find_stale(
    gpu: values.PhysicalGPU, there: Iterable[str], wanted: Iterable[str]
) -> frozenset[str]:
    """Those of a provider's traits that are ours and not wanted any more."""
    found = frozenset(there)
    ours = {trait for trait in found if trait.startswith(traits.OWN_PREFIXES)}
    for trait in sorted(ours):
        if trait.startswith(traits.TYPE_PREFIX):
            ours.update(_follow_from(gpu, trait))
    ours.discard(traits.OWNER)
    return found & ours - frozenset(wanted)


def is_foreign(trait: str) -> bool:
    """Whether a trait is certainly not ours."""
    return trait != traits.OWNER and not trait.startswith(
        (*traits.OWN_PREFIXES, traits.GPU_PREFIX)
    )


def _follow_from(gpu: values.PhysicalGPU, trait: str) -> tuple[str, ...]:
    """The traits that we gave the provider along with that of its type."""
    for vgpu_type in gpu.types:
        if capabilities.trait_of_type(vgpu_type) == trait:
            return capabilities.traits_of(gpu, vgpu_type)
    gone = capabilities.type_of_trait(trait)
    return capabilities.traits_of(gpu, gone) if gone else ()


def _without_provider(
    gpu: values.PhysicalGPU, names: frozenset[str]
) -> values.Problem:
    own = max(names, key=lambda name: (gpu.name in name, name))
    return values.Problem(
        values.Severity.WARNING,
        'gpu-without-provider',
        str(gpu),
        f'Placement has no provider for GPU {gpu}: neither '
        f'{own} nor one of its virtual functions.',
        'Start nova-compute with this configuration, and sync again.',
    )
