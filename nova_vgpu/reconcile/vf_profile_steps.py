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

"""What has to be done to provision the virtual functions of a GPU.

::

    VFs off -> quotas -> VFs on -> scheduling

The driver changes the number of enabled virtual functions through 0 only, and
that takes them from the guests that have them: while any guest has one, they
stay as they are. After a reboot of the host there are none, and guests that do
not run get theirs back. A GPU whose driver enables virtual functions when it
is loaded has no steps (:mod:`nova_vgpu.plan.fixed_vfs`).
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.plan import fixed_vfs
from nova_vgpu.plan import vf_profiles
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps

_VRAM = 'vram_mib'


def plan(found: policies.GPUInput) -> values.GPUSteps:
    """What provisions VFs, if the policy prepares GPUs."""
    gpu, assigned = found.gpu, found.assigned
    if (
        assigned is None
        or not found.policy.prepares_gpus
        or fixed_vfs.is_fixed(gpu)
    ):
        return values.GPUSteps(str(gpu))
    wanted = vf_profiles.find_wanted(assigned)
    if not isinstance(wanted, vf_profiles.Wanted):
        return values.GPUSteps(str(gpu))
    if len(gpu.vfs) == wanted.vfs and vf_profiles.has_quotas(gpu, wanted):
        return values.GPUSteps(str(gpu), tuple(_schedule(gpu, wanted)))
    refusals = tuple(
        steps.refuse(
            str(gpu),
            f'VF {vf.address}',
            found.usage.owners[vf.name],
            f', and the GPU is to have {wanted.vfs} VFs of {wanted.name}',
        )
        for vf in gpu.vfs
        if vf.name in found.usage.owners
    )
    claimed = any(vf.name in found.usage.claimed for vf in gpu.vfs)
    if refusals or claimed:
        return values.GPUSteps(str(gpu), (), refusals)
    return values.GPUSteps(str(gpu), tuple(_provision(gpu, wanted)))


def _provision(
    gpu: values.PhysicalGPU, wanted: vf_profiles.Wanted
) -> Iterator[values.Step]:
    if gpu.vfs:
        yield values.SetVFs(str(gpu), len(gpu.vfs), 0)
    else:
        yield from _clear_quotas(gpu, wanted)
    if wanted.vram_mib:
        yield values.SetVFProfile(
            str(gpu), wanted.vfs, _VRAM, 0, wanted.vram_mib
        )
    yield values.SetVFs(str(gpu), 0, wanted.vfs)
    yield from _schedule(gpu, wanted)


def _clear_quotas(
    gpu: values.PhysicalGPU, wanted: vf_profiles.Wanted
) -> Iterator[values.Step]:
    """What an interrupted run left: it would keep the driver from choosing.

    Disabling VFs releases all of them.
    """
    shown = gpu.vf_profiles.vram_mib if gpu.vf_profiles else ()
    kept = wanted.vfs if wanted.vram_mib else 0
    left = [i for i, mib in enumerate(shown, 1) if mib and i > kept]
    if left:
        yield values.SetVFProfile(
            str(gpu), left[-1], _VRAM, shown[left[-1] - 1], 0
        )


def _schedule(
    gpu: values.PhysicalGPU, wanted: vf_profiles.Wanted
) -> Iterator[values.Step]:
    """What may be set at any time; a guest keeps its VF meanwhile."""
    for name, found, number in vf_profiles.list_unset(gpu, wanted):
        yield values.SetVFProfile(str(gpu), wanted.vfs, name, found, number)
