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

"""Random GPUs that are divided among types, and what hardware makes of it."""

from collections.abc import Sequence
import dataclasses

from hypothesis import strategies as st

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests.unit import strategies

ADDRESS = values.PciAddress.parse('0000:21:00.0')
GPU = ADDRESS.node_device_name

_SLICES = 7

#: Where GPU instances can begin in the memory of an A100, in eighths, and
#: how many they take, by the slices of their profile: NVIDIA Multi-Instance
#: GPU User Guide, "A100 MIG Profiles".
_PLACES = {
    1: (range(7), 1),
    2: ((0, 2, 4), 2),
    3: ((0, 4), 4),
    4: ((0,), 4),
    7: ((0,), 8),
}


@dataclasses.dataclass(frozen=True)
class Division:
    """A card, and a declaration that divides it."""

    card: simulation.GPU
    declaration: values.Declaration


def is_mig(board_type: boards.BoardType) -> bool:
    found = values.VGPUType(board_type.id, board_type.name)
    return capabilities.is_backed_by_mig(found)


def list_places(card: simulation.GPU) -> list[int | None]:
    """Where vGPUs can be: the card, or each of its functions."""
    return [*range(card.vfs)] if card.board.total_vfs else [None]


def create(
    card: simulation.GPU, type_id: str, places: Sequence[int | None]
) -> simulation.GPU | None:
    """The card with one more vGPU on the first place that takes it."""
    (kind,) = (t for t in card.board.types if t.id == type_id)
    for vf in places:
        more = (*card.created, simulation.Created(type_id, vf))
        after = dataclasses.replace(card, created=more)
        if card.available(kind, vf) and _has_instances(after):
            return after
    return None


def _has_instances(card: simulation.GPU) -> bool:
    """Whether GPU instances for all vGPUs of types of MIG fit on the card."""
    kinds = {t.id: t for t in card.board.types}
    names = [str(kinds[created.type_id].name) for created in card.created]
    slices = [
        int(name.split('-')[1])
        for created, name in zip(card.created, names, strict=True)
        if is_mig(kinds[created.type_id])
    ]
    return sum(slices) <= _SLICES and _fit(sorted(slices, reverse=True), 0)


def _fit(slices: Sequence[int], taken: int) -> bool:
    """Whether instances fit beside those whose places are taken, as bits."""
    if not slices:
        return True
    starts, length = _PLACES[slices[0]]
    wanted = ((1 << length) - 1 << start for start in starts)
    return any(
        not taken & place and _fit(slices[1:], taken | place)
        for place in wanted
    )


@st.composite
def cards(draw: st.DrawFn) -> simulation.GPU:
    """A card of any framework, in the mode for vGPUs of several sizes.

    It has vGPUs of any of its types.
    """
    board = draw(
        st.sampled_from((boards.T4, boards.A10, boards.L40S, boards.A100D))
    )
    with_mig = board is boards.A100D and draw(st.booleans())
    types = tuple(t for t in board.types if is_mig(t) == with_mig)
    total_vfs = min(board.total_vfs, draw(st.integers(2, 16)))
    board = dataclasses.replace(board, types=types, total_vfs=total_vfs)
    card = simulation.GPU(
        ADDRESS,
        board,
        vfs=total_vfs,
        vendor_vfio=total_vfs > 0 and draw(st.booleans()),
        mixed=True,
        instances=with_mig,
    )
    for kind in draw(st.lists(st.sampled_from(types), max_size=4)):
        places = draw(st.permutations(list_places(card)))
        card = create(card, kind.id, places) or card
    return card


@st.composite
def declarations(draw: st.DrawFn, card: simulation.GPU) -> values.Declaration:
    """Types with numbers, or with functions, or some with each."""
    kinds = draw(
        st.lists(
            st.sampled_from(card.board.types),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    # The ones that the card has are more interesting.
    there = {created.type_id for created in card.created}
    kinds += [
        t
        for t in card.board.types
        if t.id in there and t not in kinds and draw(st.booleans())
    ][: 3 - len(kinds)]
    functions = list(card.vf_addresses)
    types = []
    for kind in kinds:
        entries = [f'{ADDRESS}={draw(st.integers(1, 6))}']
        if functions and draw(st.sampled_from((True, False, False))):
            count = draw(st.integers(1, min(3, len(functions))))
            chosen = draw(st.permutations(functions))[:count]
            functions = [f for f in functions if f not in chosen]
            entries = [str(address) for address in chosen]
        name = draw(st.sampled_from((kind.id, str(kind.name))))
        types.append(
            values.DeclaredType(
                name,
                f'vgpu_{name}',
                tuple(entries),
                max_instances=draw(st.sampled_from((None, None, None, 2))),
            )
        )
    return values.Declaration(tuple(types), values.UnlistedGPUs.IGNORE)


@st.composite
def divisions(draw: st.DrawFn) -> Division:
    card = draw(cards())
    return Division(card, draw(declarations(card)))


def read_host(card: simulation.GPU) -> values.Host:
    """The host, where the driver has a file with the names of all types."""
    names = tuple((t.id, t.name) for t in card.board.types if t.name)
    return dataclasses.replace(hosts.make_host(card), type_names=names)


def worlds() -> st.SearchStrategy[strategies.World]:
    """Hosts with such a GPU; what each address was made from is left out."""
    return divisions().map(
        lambda division: strategies.World(
            read_host(division.card), division.declaration, {}
        )
    )
