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

"""The picture of all GPUs: a tile for each, filled as far as it is used.

GPUs of one model and type are together. All tiles of a group are drawn by
three paths, so that the picture of a thousand GPUs is small as well. A GPU
that is fenced is crossed out: colours alone do not tell.
"""

import collections
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from nova_vgpu.cloud.gpus import fleet

_TILE = 10
_PITCH = 12
_COLUMNS = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Tiles:
    """Paths of SVG within a width and height."""

    width: int
    height: int
    frames: str
    used: str
    fenced: str


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """GPUs of one model and type; a type is empty if it is unknown."""

    model: str
    type: str
    gpus: tuple[fleet.GPU, ...]

    @property
    def count(self) -> int:
        return len(self.gpus)

    @property
    def hosts(self) -> int:
        return len({gpu.host for gpu in self.gpus})

    @property
    def used(self) -> int:
        return sum(gpu.used for gpu in self.gpus)

    @property
    def total(self) -> int:
        return sum(gpu.total for gpu in self.gpus)

    @property
    def fenced(self) -> int:
        return sum(gpu.state is fleet.State.FENCED for gpu in self.gpus)

    @property
    def tiles(self) -> Tiles:
        return draw(self.gpus)


def make_groups(gpus: Iterable[fleet.GPU]) -> tuple[Group, ...]:
    """The groups in the order of models and types, unknown ones last."""
    found = collections.defaultdict(list)
    for gpu in gpus:
        found[gpu.facts.model or '', ', '.join(gpu.facts.types)].append(gpu)
    return tuple(
        Group(model, type_name, tuple(found[model, type_name]))
        for model, type_name in sorted(
            found, key=lambda key: (not key[0], not key[1], key)
        )
    )


def draw(gpus: Sequence[fleet.GPU]) -> Tiles:
    """The tiles, in lines from left to right."""
    frames, used, fenced = [], [], []
    for number, gpu in enumerate(gpus):
        line, column = divmod(number, _COLUMNS)
        x, y = column * _PITCH, line * _PITCH
        frames.append(f'M{x} {y}h{_TILE}v{_TILE}h-{_TILE}z')
        level = fill_level(gpu.used, gpu.total, _TILE)
        if level:
            top = y + _TILE - level
            used.append(f'M{x} {top}h{_TILE}v{level}h-{_TILE}z')
        if gpu.state is fleet.State.FENCED:
            fenced.append(
                f'M{x} {y}l{_TILE} {_TILE}M{x + _TILE} {y}l-{_TILE} {_TILE}'
            )
    lines = -(-len(gpus) // _COLUMNS)
    margin = _PITCH - _TILE
    return Tiles(
        min(len(gpus), _COLUMNS) * _PITCH - margin,
        lines * _PITCH - margin,
        ''.join(frames),
        ''.join(used),
        ''.join(fenced),
    )


def fill_level(part: int, whole: int, size: int) -> int:
    """How much of a size is filled.

    Something is never drawn as nothing, nor less than all as all.
    """
    if not whole or not part:
        return 0
    if part >= whole:
        return size
    return min(max(round(size * part / whole), 1), size - 1)
