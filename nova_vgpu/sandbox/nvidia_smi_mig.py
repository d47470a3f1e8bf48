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

"""``nvidia-smi mig`` and ``-mig`` for a simulated kernel.

GPU instances are created one by one, each with its compute instance at once.
One that a vGPU or a process has is not removed.

MIG mode is not switched while VFs are enabled. To switch it resets the GPU and
removes its GPU instances; while something has the GPU open, it is pending.
"""

import dataclasses

from nova_vgpu.host import tools
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import mig
from nova_vgpu.sandbox import modes

_NOT_SUPPORTED = 3
_IN_USE = 19
_INSUFFICIENT = 23


def switch(
    its_kernel: kernel.Kernel, gpu: host.GPU, mode: bool, is_open: bool
) -> tools.Finished:
    """``-i GPU -mig 1``

    :param is_open: whether something has the GPU open.
    """
    if not gpu.profiles:
        return tools.Finished(_NOT_SUPPORTED, 'Not Supported')
    if its_kernel.count_vfs(gpu.address):
        return tools.Finished(
            _IN_USE,
            f'Unable to set MIG mode of {gpu.address}: In use by another '
            'client',
        )
    word = 'enable' if mode else 'disable'
    if is_open or modes.list_processes(gpu):
        pending = None if mode is gpu.mig_mode else mode
        with its_kernel.effect(f'MIG mode pending on {gpu.address}'):
            its_kernel.update(gpu.address, mig_pending=pending)
        return tools.Finished(
            0,
            f'Warning: MIG mode is in pending {word} state for GPU '
            f'{gpu.address}: In use by another client',
        )
    if (gpu.mig_mode, gpu.mig_pending) != (mode, None):
        changes = {'mig_mode': mode, 'mig_pending': None, 'mixed': False}
        with its_kernel.effect(f'MIG mode {mode:d} of {gpu.address}'):
            its_kernel.update(gpu.address, gpu_instances=(), **changes)
    return tools.Finished(0, f'{word.title()}d MIG Mode for GPU')


def create(
    its_kernel: kernel.Kernel, gpu: host.GPU, profiles: str
) -> tools.Finished:
    """``-cgi 19,14 -C``: what there is no room for ends it."""
    for profile_id in profiles.split(','):
        gpu = its_kernel.get(gpu.address)
        found = [p for p in gpu.profiles if str(p.id) == profile_id]
        if not found:
            return tools.Finished(2, f'Unknown profile {profile_id}')
        made = mig.place(gpu.gpu_instances, found[0], is_complete=False)
        if made is None:
            return tools.Finished(
                _INSUFFICIENT,
                'Failed to create GPU instances: Insufficient Resources',
            )
        with its_kernel.effect(f'{made.profile.name} on {gpu.address}'):
            its_kernel.update(
                gpu.address, gpu_instances=(*gpu.gpu_instances, made)
            )
        with its_kernel.effect(f'a compute instance on {gpu.address}'):
            _replace(its_kernel, gpu, made.id, is_complete=True)
    return tools.Finished(0, 'Successfully created GPU instances')


def destroy_compute(
    its_kernel: kernel.Kernel, gpu: host.GPU, instance: str
) -> tools.Finished:
    """``-dci -gi 3``"""
    found = _find(gpu, instance)
    if found is None or not found.is_complete:
        return tools.Finished(6, 'No compute instances were found')
    if _is_used(gpu, found):
        return _refuse(instance)
    with its_kernel.effect(f'no compute instance {instance}'):
        _replace(its_kernel, gpu, found.id, is_complete=False)
    return tools.Finished(0, 'Successfully destroyed compute instance')


def destroy(
    its_kernel: kernel.Kernel, gpu: host.GPU, instance: str
) -> tools.Finished:
    """``-dgi -gi 3``"""
    found = _find(gpu, instance)
    if found is None:
        return tools.Finished(6, 'No GPU instances were found')
    if found.is_complete or _is_used(gpu, found):
        return _refuse(instance)
    left = tuple(i for i in gpu.gpu_instances if i != found)
    with its_kernel.effect(f'no GPU instance {instance}'):
        its_kernel.update(gpu.address, gpu_instances=left)
    return tools.Finished(0, 'Successfully destroyed GPU instance')


def _replace(
    its_kernel: kernel.Kernel, gpu: host.GPU, number: int, is_complete: bool
) -> None:
    its_kernel.update(
        gpu.address,
        gpu_instances=tuple(
            dataclasses.replace(i, is_complete=is_complete)
            if i.id == number
            else i
            for i in its_kernel.get(gpu.address).gpu_instances
        ),
    )


def _find(gpu: host.GPU, number: str) -> mig.Instance | None:
    found = (i for i in gpu.gpu_instances if str(i.id) == number)
    return next(found, None)


def _is_used(gpu: host.GPU, instance: mig.Instance) -> bool:
    return instance.has_process or any(
        created.gpu_instance == instance.id for created in gpu.created
    )


def _refuse(instance: str) -> tools.Finished:
    return tools.Finished(
        _IN_USE,
        f'Unable to destroy GPU instance ID {instance}: In use by another '
        'client',
    )
