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

"""From Nova's layout of providers to one provider per physical GPU.

Nova's own driver makes a provider of every function that offers types: of the
GPU, which has the same name here, or of each of its virtual functions. What
servers hold of the latter moves to the provider of the GPU.

Nova reshapes only while the service starts, and only if Placement can be
reached at that moment. So the driver asks Placement itself, whenever it has
to be: a GPU may get ready later.
"""

import collections
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
import typing

from nova_vgpu import values
from nova_vgpu.compute import tree
from nova_vgpu.publish import inventories
from nova_vgpu.publish import providers


def is_needed(
    held: tree.Held, node: str, plan: values.Plan, wanted: Collection[str]
) -> bool:
    """Whether something is on providers where it does not belong.

    :param wanted: names of the providers that GPUs are to have.
    """
    return bool(wanted) and (
        'VGPU' in held[node].inventory
        or bool(_find_moves(held, node, plan, wanted))
    )


def move_from_functions(
    provider_tree: tree.Tree,
    node: str,
    plan: values.Plan,
    allocations: dict[str, typing.Any],
) -> None:
    """Move allocations from VFs' providers to GPUs', and remove the former.

    ``allocations`` is edited in place, as Nova has it.
    """
    held = tree.list_held(provider_tree, node)
    moves = _find_moves(held, node, plan, held)
    targets = {held[old].uuid: held[new] for old, new in moves}
    for consumer in allocations.values():
        given = consumer['allocations']
        for old, target in targets.items():
            if old not in given:
                continue
            moved = given.pop(old)['resources']
            there = given.setdefault(target.uuid, {'resources': {}})
            for name, amount in moved.items():
                resources = there['resources']
                resources[name] = resources.get(name, 0) + amount
    for old, _ in moves:
        provider_tree.remove(old)


def ensure_targets(
    provider_tree: tree.Tree, node: str, wanted: Iterable[str]
) -> None:
    """Create the providers that allocations can move to."""
    for name in wanted:
        if not provider_tree.exists(name):
            provider_tree.new_child(name, node)


def make_room(
    provider_tree: tree.Tree,
    wanted: Iterable[str],
    allocations: dict[str, typing.Any],
) -> None:
    """Let the providers of GPUs have what is allocated from them.

    What they are to offer beyond that follows with the next update.

    :param allocations: all of the node, as they are to be.
    """
    used: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for consumer in allocations.values():
        for uuid, given in consumer['allocations'].items():
            used[uuid].update(given['resources'])
    for name in wanted:
        provider = provider_tree.data(name)
        offered = inventories.make_room(
            tree.make_value(provider, provider.inventory, used[provider.uuid])
        )
        provider_tree.update_inventory(name, tree.to_nova(offered))


def _find_moves(
    held: tree.Held, node: str, plan: values.Plan, wanted: Container[str]
) -> list[tuple[str, str]]:
    """Names of providers to leave and to move to."""
    return [
        (old, new)
        for assigned in plan.assignments
        if (new := providers.name_of(node, assigned.gpu.name)) in wanted
        for old in _list_old(held, node, assigned.gpu)
    ]


def _list_old(
    held: tree.Held, node: str, gpu: values.PhysicalGPU
) -> list[str]:
    """The providers of a GPU's virtual functions that there are."""
    prefix = providers.name_of(node, '')
    functions = {vf.name for vf in gpu.vfs}
    return [name for name in held if name.removeprefix(prefix) in functions]
