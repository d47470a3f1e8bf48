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

"""The picture of all GPUs: tiles, filled as far as the GPUs are used.

GPUs of one role, model and type are together. In a small cloud a tile is one
GPU. In a large one it stands for several, so that the picture has never more
than some hundred tiles, and all tiles of a group are drawn by three paths. A
tile with a GPU that is fenced is crossed out: colours alone do not tell.
"""

import collections
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import urllib.parse

from nova_vgpu import values
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu_dashboard import listing

_TILE = 10
_PITCH = 12
_COLUMNS = 25
_MOST_TILES = 200
_MOST_GROUPS = 24


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
    """GPUs of one role, model and type.

    Model and type are empty if they are unknown; a whole GPU has no type.
    """

    role: values.Role
    model: str
    type: str
    gpus: tuple[fleet.GPU, ...]
    each: int = 1

    @property
    def query(self) -> str:
        """The query string of the list that selects these GPUs."""
        query = {'model': self.model or listing.UNKNOWN}
        if self.is_whole:
            query['role'] = self.role.value
        else:
            query['type'] = self.type or listing.UNKNOWN
        return urllib.parse.urlencode(query)

    @property
    def is_whole(self) -> bool:
        return self.role is values.Role.PASSTHROUGH

    @property
    def count(self) -> int:
        return len(self.gpus)

    @property
    def used(self) -> int:
        return sum(gpu.used for gpu in self.gpus)

    @property
    def total(self) -> int:
        return sum(gpu.total for gpu in self.gpus)

    @property
    def percent(self) -> int:
        return fill_level(self.used, self.total, 100)

    @property
    def fenced(self) -> int:
        return _count_fenced(self.gpus)

    @property
    def tiles(self) -> Tiles:
        return draw(self.gpus, self.each)


@dataclasses.dataclass(frozen=True, slots=True)
class Fleet:
    """All GPUs; ``more`` is the number of groups that are left out.

    A tile stands for ``each`` GPUs. A GPU that is divided among types is in
    the group of each type, and counts once here.
    """

    gpus: tuple[fleet.GPU, ...]
    groups: tuple[Group, ...]
    each: int
    more: int

    @property
    def count(self) -> int:
        return len({(gpu.host, gpu.address) for gpu in self.gpus})

    @property
    def hosts(self) -> int:
        return len({gpu.host for gpu in self.gpus})

    @property
    def shared(self) -> tuple[fleet.GPU, ...]:
        """Those that serve vGPUs."""
        return tuple(g for g in self.gpus if not whole_gpu_fleet.is_gpu(g))

    @property
    def used(self) -> int:
        return sum(gpu.used for gpu in self.shared)

    @property
    def total(self) -> int:
        return sum(gpu.total for gpu in self.shared)

    @property
    def whole(self) -> tuple[fleet.GPU, ...]:
        return tuple(filter(whole_gpu_fleet.is_gpu, self.gpus))

    @property
    def whole_used(self) -> int:
        return sum(gpu.used for gpu in self.whole)

    @property
    def fenced(self) -> int:
        return _count_fenced(self.gpus)


def make_fleet(gpus: Iterable[fleet.GPU]) -> Fleet:
    """The groups in the order of models and types, unknown ones last."""
    all_gpus = sorted(gpus, key=_place)
    each = max(-(-len(all_gpus) // _MOST_TILES), 1)
    found = collections.defaultdict(list)
    for gpu in all_gpus:
        facts = gpu.facts
        role = whole_gpu_fleet.find_role(gpu)
        key = not facts.model, facts.model or '', role.value, facts.types
        found[key].append(gpu)
    groups = [
        Group(
            whole_gpu_fleet.find_role(members[0]),
            members[0].facts.model or '',
            ', '.join(members[0].facts.types),
            tuple(members),
            each,
        )
        for _, members in sorted(found.items())
    ]
    shown = tuple(groups[:_MOST_GROUPS])
    return Fleet(tuple(all_gpus), shown, each, len(groups) - len(shown))


def _place(gpu: fleet.GPU) -> tuple[object, ...]:
    """As in the table: "compute10" is after "compute9"."""
    return listing.natural(gpu.host), gpu.address


def draw(gpus: Sequence[fleet.GPU], each: int = 1) -> Tiles:
    """The tiles, in lines from left to right."""
    frames, used, fenced = [], [], []
    parts = [gpus[at : at + each] for at in range(0, len(gpus), each)]
    for number, part in enumerate(parts):
        line, column = divmod(number, _COLUMNS)
        x, y = column * _PITCH, line * _PITCH
        frames.append(f'M{x} {y}h{_TILE}v{_TILE}h-{_TILE}z')
        total = sum(gpu.total for gpu in part)
        level = fill_level(sum(gpu.used for gpu in part), total, _TILE)
        if level:
            top = y + _TILE - level
            used.append(f'M{x} {top}h{_TILE}v{level}h-{_TILE}z')
        if _count_fenced(part):
            fenced.append(
                f'M{x} {y}l{_TILE} {_TILE}M{x + _TILE} {y}l-{_TILE} {_TILE}'
            )
    lines = -(-len(parts) // _COLUMNS)
    margin = _PITCH - _TILE
    return Tiles(
        min(len(parts), _COLUMNS) * _PITCH - margin,
        lines * _PITCH - margin,
        ''.join(frames),
        ''.join(used),
        ''.join(fenced),
    )


def _count_fenced(gpus: Iterable[fleet.GPU]) -> int:
    return len(
        {
            (gpu.host, gpu.address)
            for gpu in gpus
            if gpu.state is fleet.State.FENCED
        }
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
