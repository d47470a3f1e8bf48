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

"""From a vendor's vGPU type to traits and facts.

Facts about a GPU or a type are asked for here: this module finds the vendor
and combines the driver's facts, the vendor's catalogue and the common rules.
"""

import dataclasses
import re

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors

_TYPE_TRAIT = re.compile(
    rf'{traits.TYPE_PREFIX}(?P<model>.+?)_(?P<size>(?:[0-9]+_)?[0-9]+[A-Z0-9]*)'
)
_PAIR = re.compile(r'([a-z_]{1,32})\s*[=:]\s*([^,\n]{1,64})')
_NUMBER = re.compile(r'([0-9]{1,9})', re.ASCII)
_MEBIBYTES = re.compile(r'([0-9]{1,9})M', re.ASCII)
_RESOLUTION = re.compile(r'([0-9]{1,5})x([0-9]{1,5})', re.ASCII)


def vendor_of(gpu: values.PhysicalGPU) -> vendors.Vendor | None:
    return vendors.get_by_pci_id(gpu.ids.vendor) if gpu.ids else None


def model_of(gpu: values.PhysicalGPU) -> str | None:
    """The model of the GPU, from its types' names or its PCI ids."""
    names = (parse_type_name(t.name) for t in gpu.types if t.name)
    models = {name.model for name in names if name}
    if len(models) == 1:
        return models.pop()
    made_by = vendor_of(gpu)
    return made_by.model_name(gpu.ids) if made_by and gpu.ids else None


def makes_vgpus(gpu: values.PhysicalGPU) -> bool:
    """Whether the model supports vGPUs, ready or not."""
    if gpu.types or gpu.all_vgpus:
        return True
    if gpu.sriov and not is_shared_without_types(gpu):
        return True
    made_by = vendor_of(gpu)
    return bool(made_by and gpu.ids and made_by.makes_vgpus(gpu.ids))


def is_shared_without_types(gpu: values.PhysicalGPU) -> bool:
    """Whether the GPU is shared by SR-IOV alone, and never has vGPU types.

    So are AMD's, and those of Intel that came after GVT-g.
    """
    made_by = vendor_of(gpu)
    if made_by is None or made_by.has_types_on_vfs:
        return False
    return not made_by.type_prefixes or bool(gpu.sriov or gpu.vfs)


def parse_type_name(text: str) -> vendors.TypeName | None:
    """Parse a type's name with the grammar of its vendor."""
    for made_by in vendors.list_vendors():
        name = made_by.parse_type_name(text)
        if name is not None:
            return name
    return None


def complete_name(text: str, model: str | None) -> vendors.TypeName | None:
    """Parse a type's name for a GPU of a model.

    NVIDIA's tables and tools only use the last word of a name: ``DC-16Q``.
    More than one model ends in that word, so it is completed with the GPU's
    model.
    """
    head = (model or '').rpartition(' ')[0]
    words = text.split()
    if model and head and len(words) == 1:
        full = parse_type_name(f'{head} {words[0]}')
        if full and full.model.casefold() == model.casefold():
            return dataclasses.replace(full, model=model)
    return parse_type_name(text)


def short_name(vgpu_type: values.VGPUType) -> str:
    """The short name of a type, ``A40-8Q``, or its id."""
    name = parse_type_name(vgpu_type.name or '')
    return name.short if name else vgpu_type.name or vgpu_type.id


def vendor_of_type(text: str) -> vendors.Vendor | None:
    """The vendor of a type that an operator wrote, if known."""
    by_id = vendors.get_by_type_id(text)
    if by_id is not None:
        return by_id
    known = vendors.list_vendors()
    by_name = next((v for v in known if v.parse_type_name(text)), None)
    return by_name or next(
        (v for v in known if v.parse_vf_profile(text)), None
    )


def parse_vf_profile(text: str) -> vendors.VFProfile | None:
    """Parse the name of a VF profile with the grammar of its vendor."""
    profiles = (v.parse_vf_profile(text) for v in vendors.list_vendors())
    return next((profile for profile in profiles if profile), None)


def facts_of(
    gpu: values.PhysicalGPU, vgpu_type: values.VGPUType
) -> values.TypeFacts:
    """Facts about a type on a GPU; the driver's take precedence."""
    made_by = vendor_of(gpu)
    if made_by is None or gpu.ids is None:
        return vgpu_type.facts
    return made_by.complete(vgpu_type, gpu.ids)


def may_have(gpu: values.PhysicalGPU, name: vendors.TypeName) -> bool:
    """Whether a GPU of a type's model can have the type, if that is known."""
    made_by = vendor_of(gpu)
    return made_by is None or made_by.may_have(name)


def mig_shape(
    gpu: values.PhysicalGPU, vgpu_type: values.VGPUType
) -> vendors.MigShape | None:
    """The GPU instance of a type; None if it has none or is unknown."""
    made_by = vendor_of(gpu)
    name = parse_type_name(vgpu_type.name or '')
    return made_by.mig_shape(name) if made_by and name else None


def is_backed_by_mig(vgpu_type: values.VGPUType) -> bool:
    """Whether a type needs a GPU instance of its own size, by its name."""
    name = parse_type_name(vgpu_type.name or '')
    return name is not None and name.slices is not None


def mixes_sizes(gpu: values.PhysicalGPU) -> bool | None:
    """Whether the GPU can have time-sliced vGPUs of several sizes."""
    made_by = vendor_of(gpu)
    return made_by.mixes_sizes(gpu.ids) if made_by and gpu.ids else None


def trait_of_type(vgpu_type: values.VGPUType) -> str:
    """The trait that names the type: ``CUSTOM_VGPU_TYPE_A40_8Q``."""
    return traits.custom('VGPU_TYPE', short_name(vgpu_type))


def type_of_trait(trait: str) -> values.VGPUType | None:
    """The type that a trait names, by its name alone; None if not known.

    A trait has underscores where a name has hyphens or spaces, and capitals
    only: the result is the name of a known model that gives this trait.
    """
    match = _TYPE_TRAIT.fullmatch(trait)
    if match is None:
        return None
    size = match['size'].replace('_', '-')
    for gap in ('-', ' '):
        name = f'{match["model"].replace("_", gap)}-{size}'
        if (parsed := parse_type_name(name)) is not None:
            found = values.VGPUType(parsed.short, parsed.short)
            if trait_of_type(found) == trait:
                return found
        elif (profile := parse_vf_profile(name)) is not None:
            return values.VGPUType(profile.name)
    return None


def traits_of(
    gpu: values.PhysicalGPU, vgpu_type: values.VGPUType
) -> tuple[str, ...]:
    """The traits of a provider that serves this type on this GPU."""
    found = {traits.OWNER, *traits.of_facts(facts_of(gpu, vgpu_type))}
    found.add(trait_of_type(vgpu_type))
    made_by = vendor_of(gpu)
    if made_by is not None and gpu.ids is not None:
        found.add(traits.custom('GPU_VENDOR', made_by.name))
        found.update(made_by.traits(vgpu_type, gpu.ids))
    return tuple(sorted(found))


def parse_description(text: str) -> values.TypeFacts:
    """The facts in the ``description`` file of an mdev type.

    NVIDIA writes one line of ``key=value`` pairs, Intel several lines of
    ``key: value``. An invalid value is ignored.
    """
    pairs = {key: value.strip() for key, value in _PAIR.findall(text)}
    pixels = pairs.get('max_resolution', pairs.get('resolution'))
    (mib,) = _parse_numbers(_MEBIBYTES, pairs.get('framebuffer')) or (None,)
    (most,) = _parse_numbers(_NUMBER, pairs.get('max_instance')) or (None,)
    (heads,) = _parse_numbers(_NUMBER, pairs.get('num_heads')) or (None,)
    size = _parse_numbers(_RESOLUTION, pixels)
    return values.TypeFacts(
        mib, most, heads, values.Resolution(*size) if size else None
    )


def _parse_numbers(
    pattern: re.Pattern[str], text: str | None
) -> tuple[int, ...]:
    """The numbers in a text; none if it does not match, or one is 0."""
    match = pattern.fullmatch(text or '')
    numbers = tuple(map(int, match.groups())) if match else ()
    return numbers if all(numbers) else ()
