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
"""

from collections.abc import Collection
import typing

from nova_vgpu import values
from nova_vgpu.decisions import providers

Tree = typing.Any  # nova.compute.provider_tree.ProviderTree


def is_needed(
    tree: Tree, node: str, plan: values.Plan, wanted: Collection[str]
) -> bool:
    """Whether something is on providers where it does not belong.

    :param wanted: names of the providers that GPUs are to have.
    """
    return bool(wanted) and (
        'VGPU' in tree.data(node).inventory
        or bool(_find_moves(tree, node, plan, wanted))
    )


def move_from_functions(
    tree: Tree,
    node: str,
    plan: values.Plan,
    allocations: dict[str, typing.Any],
) -> None:
    """Move allocations from VFs' providers to GPUs', and remove the former.

    ``allocations`` is edited in place, as Nova has it.
    """
    wanted = {tree.data(uuid).name for uuid in tree.get_provider_uuids(node)}
    moves = _find_moves(tree, node, plan, wanted)
    targets = {tree.data(old).uuid: tree.data(new) for old, new in moves}
    for consumer in allocations.values():
        held = consumer['allocations']
        for old, target in targets.items():
            if old not in held:
                continue
            moved = held.pop(old)['resources']
            there = held.setdefault(target.uuid, {'resources': {}})
            for name, amount in moved.items():
                resources = there['resources']
                resources[name] = resources.get(name, 0) + amount
    for old, _ in moves:
        tree.remove(old)


def _find_moves(
    tree: Tree, node: str, plan: values.Plan, wanted: Collection[str]
) -> list[tuple[str, str]]:
    """Names of providers to leave and to move to."""
    return [
        (old, new)
        for assigned in plan.assignments
        if (new := providers.name_of(node, assigned.gpu.name)) in wanted
        for vf in assigned.gpu.vfs
        if tree.exists(old := providers.name_of(node, vf.name))
    ]
