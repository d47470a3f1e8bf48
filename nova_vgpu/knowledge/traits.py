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

"""Traits: standard ones of os-traits if possible, CUSTOM_ ones for the rest.

A standard trait is used if os-traits has one with exactly this meaning.
Otherwise (compute capability after 7.2, for example) a custom trait with the
same words is used. All custom traits of this project start with one of
``OWN_PREFIXES``, which distinguishes them from an operator's.
"""

from collections.abc import Iterator
import functools
import re

import os_traits

from nova_vgpu import values

#: The trait that marks a provider as Nova's for its scheduler.
OWNER = 'OWNER_NOVA'
#: Nova's trait for providers of its PCI tracker.
TRACKED_BY_NOVA = 'COMPUTE_MANAGED_PCI_DEVICE'

#: The prefix of the trait that names a provider's type.
TYPE_PREFIX = 'CUSTOM_VGPU_TYPE_'
#: The prefix of the trait that names the vendor of a GPU.
VENDOR_PREFIX = 'CUSTOM_GPU_VENDOR_'
#: The prefixes of the traits that name its model, series and frame buffer.
MODEL_PREFIX = 'CUSTOM_GPU_MODEL_'
SERIES_PREFIX = 'CUSTOM_VGPU_SERIES_'
FRAMEBUFFER_PREFIX = 'CUSTOM_VGPU_FRAMEBUFFER_'
#: The prefixes of standard traits of GPUs.
GPU_PREFIX = 'HW_GPU_'

OWN_PREFIXES = (
    VENDOR_PREFIX,
    MODEL_PREFIX,
    'CUSTOM_GPU_ARCH_',
    'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_',
    TYPE_PREFIX,
    SERIES_PREFIX,
    FRAMEBUFFER_PREFIX,
    'CUSTOM_GPU_MAX_DISPLAY_HEADS_',
    'CUSTOM_GPU_RESOLUTION_',
    'CUSTOM_VGPU_MIG_BACKED',
)

_MAX_LENGTH = 255  # of a trait's name in Placement
_CUSTOM = re.compile(rf'CUSTOM_[A-Z0-9_]{{1,{_MAX_LENGTH - 7}}}')
_RESOLUTION = re.compile(r'HW_GPU_RESOLUTION_W([0-9]+)H([0-9]+)')


def custom(*words: str) -> str:
    """``CUSTOM_`` and the words, in characters that Placement accepts."""
    name: str = os_traits.normalize_name('_'.join(words))
    return name[:_MAX_LENGTH]


def standard_or_custom(*words: str) -> str:
    """``HW_`` and the words if os-traits has that, a custom trait if not."""
    standard = '_'.join(('HW', *words))
    return standard if standard in _standard_traits() else custom(*words)


def is_custom(trait: str) -> bool:
    """Whether the trait can be created, as a custom one."""
    return bool(os_traits.is_custom(trait))


def is_valid(trait: str) -> bool:
    """Whether Placement accepts the trait from an operator."""
    if is_custom(trait):
        return _CUSTOM.fullmatch(trait) is not None
    return trait in _standard_traits()


def of_facts(facts: values.TypeFacts) -> Iterator[str]:
    """The traits of a type's facts, for every vendor."""
    if facts.framebuffer_mib is not None:
        gib, rest = divmod(facts.framebuffer_mib, 1024)
        size = f'{facts.framebuffer_mib}M' if rest else f'{gib}G'
        yield custom('VGPU_FRAMEBUFFER', size)
    if facts.heads is not None:
        yield standard_or_custom('GPU_MAX_DISPLAY_HEADS', str(facts.heads))
    if facts.max_resolution is not None:
        yield from _resolutions(facts.max_resolution)


def _resolutions(most: values.Resolution) -> Iterator[str]:
    """Every standard size that fits, and the largest one if not standard."""
    for size, trait in _standard_resolutions().items():
        if size.width <= most.width and size.height <= most.height:
            yield trait
    yield standard_or_custom('GPU_RESOLUTION', f'W{most.width}H{most.height}')


@functools.cache
def _standard_traits() -> frozenset[str]:
    return frozenset(os_traits.get_traits())


@functools.cache
def _standard_resolutions() -> dict[values.Resolution, str]:
    found = {}
    for trait in _standard_traits():
        match = _RESOLUTION.fullmatch(trait)
        if match:
            found[values.Resolution(int(match[1]), int(match[2]))] = trait
    return found
