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

"""vGPUs that are not in use and keep a GPU from serving several types.

A server leaves its mdev behind, and the next one gets it. A GPU that is
divided has no more of a type than its share, so more than that are of no use
and take the memory of other shares. And sizes mix only on a GPU whose mode was
set while it had no vGPU at all.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import math

from nova_vgpu import values
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps


def list_surplus(
    found: policies.GPUInput, idle: Sequence[values.VGPU]
) -> frozenset[str]:
    """The names of idle vGPUs that are more than the share of their type.

    :param idle: all vGPUs of the GPU that nothing needs.
    """
    if found.assigned is None or found.assigned.share is None:
        return frozenset()
    own = _list_own(found)
    surplus = max(len(own) - found.assigned.share.count, 0)
    removable = [v.name for v in idle if v in own and _may_go(found, v)]
    return frozenset(removable[-surplus:] if surplus else ())


def _may_go(found: policies.GPUInput, vgpu: values.VGPU) -> bool:
    """Whether no operator made a vGPU by hand, as far as the policy knows."""
    policy = found.policy
    is_known = policy.prepares_gpus or policy.clears_idle_functions
    return vgpu.uuid is not None or (is_known and not found.is_manual(vgpu))


def count_room(found: policies.GPUInput) -> float:
    """How many more vGPUs a share is to have; of an undivided GPU any."""
    if found.assigned is None or found.assigned.share is None:
        return math.inf
    return found.assigned.share.count - len(_list_own(found))


def _list_own(found: policies.GPUInput) -> list[values.VGPU]:
    """The vGPUs that count in the share."""
    return [
        vgpu
        for vgpu in found.gpu.all_vgpus
        if vgpu.function in found.functions
        and found.is_declared(found.type_of(vgpu))
    ]


def list_in_the_way(
    found: policies.GPUInput, removals: Iterable[steps.VGPUStep]
) -> Iterator[steps.VGPUStep]:
    """The rest of the vGPUs of a divided GPU, if none of them is needed.

    :param removals: those that go anyway.
    """
    if len(found.declared_names) < 2:
        return
    gone = {steps.vgpu_in(step) for step in removals}
    left = [v for v in found.gpu.all_vgpus if v.name not in gone]
    kept = {*found.usage.owners, *found.usage.claimed}
    if any(v.name in kept or not _may_go(found, v) for v in left):
        return
    yield from map(found.remove, left)
