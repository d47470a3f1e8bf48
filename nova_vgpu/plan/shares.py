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

"""How a GPU is divided among the types that list it.

A number at each entry, ``0000:21:00.0=3``, or virtual functions that only one
type lists: both say how many vGPUs of each type there are. The division does
not depend on what servers use, so that Placement's numbers are exact.

A type with a number uses all functions that no type lists by themselves; its
vGPUs are told from others by their type.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import address_matching
from nova_vgpu.plan import type_matching


def place(
    gpu: values.PhysicalGPU,
    claims: Sequence[address_matching.Claim],
    names: Mapping[str, str],
) -> Iterator[values.Assignment]:
    """What a listed GPU serves: one type, or several that each have a share.

    :param claims: those of the GPU.
    :param names: what ids of types mean, or meant, on this host.
    """
    by_type: dict[str, list[address_matching.Claim]] = {}
    for claim in claims:
        by_type.setdefault(claim.declared.name, []).append(claim)
    shares = [
        _make_share(gpu, of_type, claims, names)
        for of_type in by_type.values()
    ]
    for of_type, share in zip(by_type.values(), shares, strict=True):
        yield values.Assignment(
            gpu,
            share.declared,
            values.Reason.LISTED,
            share.functions,
            listed_share=of_type[0].share,
            share=share if len(shares) > 1 else None,
            beside=tuple(other for other in shares if other is not share),
        )


def _make_share(
    gpu: values.PhysicalGPU,
    of_type: Sequence[address_matching.Claim],
    claims: Iterable[address_matching.Claim],
    names: Mapping[str, str],
) -> values.Share:
    declared = of_type[0].declared
    listed = frozenset(claim.function for claim in of_type if claim.function)
    functions = listed
    if any(claim.function is None for claim in of_type):
        functions = gpu.functions - {
            claim.function
            for claim in claims
            if claim.declared.name != declared.name and claim.function
        }
    return values.Share(
        declared,
        make_label(declared.name, names),
        of_type[0].share or len(functions),
        functions,
    )


def make_label(declared: str, names: Mapping[str, str]) -> str:
    """What a type is called in the name of a provider.

    The name of the type also if it is declared by an id, which may mean
    another type after an upgrade of the driver.
    """
    types = [values.VGPUType(type_id, name) for type_id, name in names.items()]
    matches = type_matching.find_matches(declared, types)
    short = {capabilities.short_name(found) for found in matches}
    label = short.pop() if len(short) == 1 else declared
    return '-'.join(label.split())


def type_of(
    share: values.Share, gpu: values.PhysicalGPU, names: Mapping[str, str]
) -> values.VGPUType | None:
    """The type of a share, also of a GPU that does not offer it now.

    Then by its name alone; None if that is not known.
    """
    declared = share.declared.name
    types = type_matching.list_types(gpu, names)
    matches = type_matching.find_matches(declared, types)
    if matches:
        return matches[0] if len(matches) == 1 else None
    model = capabilities.model_of(gpu)
    name = capabilities.complete_name(names.get(declared, declared), model)
    return values.VGPUType(name.short, name.short) if name else None
