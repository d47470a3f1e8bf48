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

"""The heterogeneous mode of a GPU that is to hold vGPUs of different sizes.

It is set while the GPU has no vGPU at all.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.reconcile import idle_vgpus
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpus_to_recreate


def clear(
    found: policies.GPUInput,
    creations: Collection[steps.VGPUStep],
    removals: Collection[steps.VGPUStep],
) -> tuple[steps.VGPUStep, ...]:
    """The idle vGPUs that go because the mode is off and has to be set."""
    if _is_mixed(found) is False and _is_to_mix(found, creations):
        return tuple(idle_vgpus.list_in_the_way(found, removals))
    return ()


def plan(
    found: policies.GPUInput,
    creations: tuple[steps.VGPUStep, ...],
    removals: tuple[steps.VGPUStep, ...],
) -> Iterator[values.Step]:
    """Let sizes mix, unless a vGPU stays: that leaves no choice."""
    removed = {steps.vgpu_in(step) for step in removals}
    if _is_to_mix(found, creations) and all(
        vgpu.name in removed for vgpu in found.gpu.all_vgpus
    ):
        yield values.SetHeterogeneous(str(found.gpu), False, True)


def _is_to_mix(
    found: policies.GPUInput, creations: Collection[steps.VGPUStep]
) -> bool:
    """Whether what is to be there, and what is served, differ in size.

    A GPU that holds vGPUs of different sizes already stays so.
    """
    is_mixed = _is_mixed(found)
    # A GPU that is divided is prepared for what servers will have.
    is_early = len(found.declared_names) > 1 and is_mixed is False
    if is_mixed or not (creations or is_early):
        return False
    return _have_sizes_to_mix(found, creations)


def _is_mixed(found: policies.GPUInput) -> bool | None:
    """Whether the GPU may hold vGPUs of different sizes, if that is known."""
    gpu = found.gpu
    if found.assigned is None:
        return None
    is_mixed = found.assigned.modes.heterogeneous
    if is_mixed and gpu.sriov is not None and not gpu.vfs:
        return False  # enabling VFs turns it off
    return is_mixed


def _have_sizes_to_mix(
    found: policies.GPUInput, creations: Iterable[steps.VGPUStep]
) -> bool:
    gpu = found.gpu
    wanted = {steps.type_in(step) for step in creations}
    wanted.update(found.names.get(n, n) for n in found.declared_names)
    sizes = {
        vgpus_to_recreate.size_of(gpu, name)
        for name in wanted
        # GPU instances differ in size without it.
        if not capabilities.is_backed_by_mig(values.VGPUType(name, name))
    }
    return gpu.address is not None and len(sizes) > 1 and None not in sizes
