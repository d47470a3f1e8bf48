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

"""What has to be done to have the GPU instances that the declaration needs.

::

    sriov-manage removes all GPU instances -> VFs on
           -> idle instances that are not needed go
           -> missing ones are created, large profiles first

An instance that has a vGPU or a process is never removed, and neither is one
of which that is unknown. Instances are made again at other places only while
all of the GPU are idle.
"""

import collections
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.reconcile import gpu_instance_needs
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps

_Counts = collections.Counter[int]


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceSteps:
    """The steps, in order; there ``will_be`` so many instances after them."""

    removals: tuple[values.SetGPUInstances, ...] = ()
    creations: tuple[values.SetGPUInstances, ...] = ()
    refusals: tuple[values.Refusal, ...] = ()
    will_be: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class _GPUState:
    """A GPU whose instances are known, and what there is to be on it."""

    gpu: values.PhysicalGPU
    there: values.GPUInstances
    needs: gpu_instance_needs.Needs
    removable: frozenset[int]

    def count(self, profile_id: int) -> int:
        return len(self.there.list_of(profile_id))

    def list_stuck(self, profile_id: int) -> list[values.GPUInstance]:
        """Those that stay although they are more than is declared."""
        there = self.there.list_of(profile_id)
        stays = [i for i in there if i.id not in self.removable]
        return stays[self.needs.declared[profile_id] :]


def plan(
    of_gpu: Sequence[policies.GPUInput],
    removals: Iterable[steps.VGPUStep],
    creations: Iterable[steps.VGPUStep],
) -> InstanceSteps | None:
    """What the GPU instances need; None if they are not known.

    :param removals: what becomes of vGPUs before.
    :param creations: and after it.
    """
    assigned = of_gpu[0].assigned
    there = assigned.modes.gpu_instances if assigned else None
    if assigned is None or there is None:
        return None
    gone = {steps.vgpu_in(step) for step in removals}
    needed = gpu_instance_needs.count(of_gpu, there, gone, creations)
    if needed is None:
        return None
    gpu = assigned.gpu
    removable = list_removable(gpu, assigned.modes, gone)
    state = _GPUState(gpu, there, needed, removable)
    if gpu.sriov is not None and not gpu.vfs:
        return _plan_anew(state)
    return _plan_difference(state)


def is_declared(of_gpu: Iterable[policies.GPUInput]) -> bool:
    """Whether the GPU is to serve types that are backed by MIG, by name."""
    names = (
        found.names.get(name, name)
        for found in of_gpu
        if (name := found.declared_name) is not None
    )
    parsed = (capabilities.parse_type_name(name) for name in names)
    return any(name and name.slices is not None for name in parsed)


def list_removable(
    gpu: values.PhysicalGPU,
    modes: values.GPUModes,
    gone: Container[str] = (),
) -> frozenset[int]:
    """The ids of GPU instances that have no vGPU and no process.

    NVML shows vGPUs of guests that run. If the GPU has more of a profile,
    those may be on any instance of it.

    :param gone: vGPUs that are removed before.
    """
    profiles = {t.type_id: t.profile_id for t in modes.mig_types or ()}
    held: _Counts = collections.Counter()
    for vgpu in gpu.all_vgpus:
        if vgpu.name in gone:
            continue
        if vgpu.type_id not in profiles:
            return frozenset()
        held[profiles[vgpu.type_id]] += 1
    there = modes.gpu_instances or values.GPUInstances()
    shown: _Counts = collections.Counter()
    for instance in there.instances:
        shown[instance.profile_id] += instance.vgpus
    return frozenset(
        instance.id
        for instance in there.instances
        if instance.is_used is False
        and held[instance.profile_id] <= shown[instance.profile_id]
    )


def _plan_anew(state: _GPUState) -> InstanceSteps:
    """VFs are to be enabled, and no instance is there after that."""
    instances = state.there.instances
    stuck = [i for i in instances if i.id not in state.removable]
    if stuck:
        because = 'and its VFs cannot be enabled while it is there'
        return InstanceSteps(refusals=(_refuse(state, stuck, because),))
    removals = [_change(state, p, state.count(p.id), 0) for p in _sort(state)]
    return _combine(state, removals, collections.Counter())


def _plan_difference(state: _GPUState) -> InstanceSteps:
    kept = _list_kept(state)
    left = _count(kept)
    missing = [p for p in _sort(state) if state.needs.all[p.id] > left[p.id]]
    is_idle = len(state.removable) == len(state.there.instances)
    if missing and is_idle:
        # Smaller ones may be where a larger one has to be.
        largest = _size(missing[0])
        small = {p.id for p in _sort(state) if _size(p) < largest}
        kept = [i for i in kept if i.profile_id not in small]
        left = _count(kept)
    removals = [
        _change(state, p, state.count(p.id), left[p.id]) for p in _sort(state)
    ]
    found = _combine(state, removals, left)
    stuck = [
        instance
        for profile in _sort(state)
        for instance in state.list_stuck(profile.id)
    ]
    planned = sum(step.after - step.before for step in found.creations)
    if stuck and planned < (state.needs.all - left).total():
        because = 'and GPU instances that are to be created have no room'
        refusal = _refuse(state, stuck, because)
        return dataclasses.replace(found, refusals=(refusal,))
    return found


def _list_kept(state: _GPUState) -> list[values.GPUInstance]:
    """As many as are needed, and those that cannot be removed."""
    kept: list[values.GPUInstance] = []
    for profile in state.there.profiles:
        instances = state.there.list_of(profile.id)
        stays = [i for i in instances if i.id not in state.removable]
        idle = [
            i for i in instances if i.id in state.removable and i.is_complete
        ]
        room = max(state.needs.all[profile.id] - len(stays), 0)
        kept += [*stays, *idle[:room]]
    return kept


def _combine(
    state: _GPUState,
    removals: Iterable[values.SetGPUInstances | None],
    left: _Counts,
) -> InstanceSteps:
    """With the creations that there is room for, large profiles first."""
    profiles = state.there.profiles
    slices = max((p.slices for p in profiles), default=0)
    memory = max((p.memory_mib for p in profiles), default=0)
    for profile in profiles:
        slices -= profile.slices * left[profile.id]
        memory -= profile.memory_mib * left[profile.id]
    after = left.copy()
    # What servers have comes before what they may have.
    for wanted in (state.needs.held, state.needs.all):
        for profile in _sort(state):
            number = min(
                max(wanted[profile.id] - after[profile.id], 0),
                max(slices, 0) // max(profile.slices, 1),
                max(memory, 0) // max(profile.memory_mib, 1),
            )
            slices -= profile.slices * number
            memory -= profile.memory_mib * number
            after[profile.id] += number
    creations = [
        _change(state, p, left[p.id], after[p.id]) for p in _sort(state)
    ]
    return InstanceSteps(
        tuple(step for step in removals if step),
        tuple(step for step in creations if step),
        will_be=after.total(),
    )


def _change(
    state: _GPUState,
    profile: values.GPUInstanceProfile,
    before: int,
    after: int,
) -> values.SetGPUInstances | None:
    if before == after:
        return None
    return values.SetGPUInstances(
        str(state.gpu), profile.id, profile.name, before, after
    )


def _refuse(
    state: _GPUState, stuck: Sequence[values.GPUInstance], because: str
) -> values.Refusal:
    names = {profile.id: profile.name for profile in state.there.profiles}
    listed = ', '.join(f'{i.id} ({names[i.profile_id]})' for i in stuck)
    gpu = state.gpu
    are_used = all(instance.is_used for instance in stuck)
    use = 'in use' if are_used else 'perhaps in use'
    return values.Refusal(
        str(gpu),
        f'GPU {gpu}: GPU instances with these ids are not removed: {listed}. '
        f'They are {use}, {because}.',
        'Remove their vGPUs, and end their processes (nvidia-smi), then run '
        'it again.',
    )


def _count(instances: Iterable[values.GPUInstance]) -> _Counts:
    return collections.Counter(i.profile_id for i in instances)


def _size(profile: values.GPUInstanceProfile) -> tuple[int, int]:
    return profile.slices, profile.memory_mib


def _sort(state: _GPUState) -> list[values.GPUInstanceProfile]:
    """The profiles, the largest first."""
    return sorted(state.there.profiles, key=_size, reverse=True)
