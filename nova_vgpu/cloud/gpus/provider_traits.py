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

"""What the traits of a GPU's provider tell about it.

They are those that :mod:`nova_vgpu.knowledge` gives to providers. The
provider of Nova's own driver has none of them, and nothing is known of it.
"""

from collections.abc import Collection
from collections.abc import Iterable
import dataclasses
import functools
import re

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import whole_gpu_names

_SIZE = re.compile(r'([0-9]+)([GM])')


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """A GPU's type, as far as it is known.

    ``types`` has more than one name only if the provider has traits of
    several types.
    """

    types: tuple[str, ...] = ()
    model: str | None = None
    series: str | None = None
    framebuffer_mib: int | None = None

    @property
    def name(self) -> str | None:
        """The type's; None if it is unknown, and of several, all."""
        return ', '.join(self.types) or None


@functools.lru_cache(maxsize=1024)
def read(found: frozenset[str]) -> Facts:
    """The facts; GPUs of one type have the same traits."""
    types = sorted(_words(found, traits.TYPE_PREFIX))
    parsed = [
        capabilities.type_of_trait(f'{traits.TYPE_PREFIX}{name}')
        for name in types
    ]
    return Facts(
        tuple(
            known.id if known else name
            for name, known in zip(types, parsed, strict=True)
        ),
        _spell(_only(_words(found, traits.MODEL_PREFIX)), parsed),
        _only(_words(found, traits.SERIES_PREFIX)),
        _mib(_only(_words(found, traits.FRAMEBUFFER_PREFIX))),
    )


def _spell(
    model: str | None, types: Iterable[values.VGPUType | None]
) -> str | None:
    """The model as its vendor spells it: a trait has capitals only."""
    for known in types:
        name = capabilities.parse_type_name(known.id) if known else None
        if name and model == _words_of(name.model):
            return name.model
    named = whole_gpu_names.find_names(model) if model else None
    return named.title if named else model


def is_model(found: Collection[str], model: str) -> bool:
    """Whether these are the traits of a GPU of a model, in any spelling."""
    return f'{traits.MODEL_PREFIX}{_words_of(model)}' in found


def _words_of(model: str) -> str:
    return traits.custom('GPU_MODEL', model).removeprefix(traits.MODEL_PREFIX)


def _words(found: Collection[str], prefix: str) -> list[str]:
    return [
        trait.removeprefix(prefix)
        for trait in found
        if trait.startswith(prefix)
    ]


def _only(words: list[str]) -> str | None:
    return words[0] if len(words) == 1 else None


def _mib(size: str | None) -> int | None:
    match = _SIZE.fullmatch(size or '')
    if match is None:
        return None
    return int(match[1]) * (1024 if match[2] == 'G' else 1)
