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

"""Why a GPU does not serve vGPUs, or its type, at the moment.

A GPU in MIG mode has the types that are backed by its GPU instances, and no
others; a GPU that is not has time-sliced types. The vGPUs of a GPU show
which of the two it is. What only NVML knows is in
:mod:`nova_vgpu.plan.mig_problems`.
"""

from collections.abc import Mapping
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import vendors

STUB_DRIVER = 'pci-pf-stub'
VFIO_DRIVER = 'vfio-pci'
# Drivers of the kernel for NVIDIA's GPUs that do not support vGPUs.
_PLAIN_DRIVERS = frozenset({'nouveau', 'nvidiafb'})

#: The codes of all obstacles.
OBSTACLES = frozenset(
    {'no-driver', 'on-stub-driver', 'passed-through', 'plain-driver'}
    | {'no-types-ever', 'vfs-passed-through', 'no-types-yet', 'vfs-off'}
    | {'no-types'}
)
_MIX = (
    'The GPU has vGPUs of several sizes in heterogeneous mode only, which can '
    'be set while it has no vGPU: run "nova-vgpu apply" when the servers that '
    'use it are gone. If it is in that mode, remove vGPUs of types that it is '
    'not to serve.'
)
_ONE_SIZE = (
    'A GPU has vGPUs of one size at a time: it serves the type once the '
    'others are removed. "nova-vgpu apply" removes those not in use.'
)
_REPARTITION = (
    'No GPU instance for it is free. If there is space, "nova-vgpu apply" '
    'creates one with the help of NVML, or create it by hand (nvidia-smi mig '
    '-i {gpu} -lgip shows the space, -cgi PROFILE -C creates it). Otherwise '
    'repartition the GPU once the vGPUs of other sizes are removed, or '
    'declare a type that its GPU instances have.'
)
_TURN_ON = (
    'The GPU has time-sliced vGPUs, so it is not in MIG mode. Declare a '
    'time-sliced type; or turn MIG mode on once no server uses the GPU: '
    '"nova-vgpu apply" does it with [devices]switch_mig_mode = true. By hand: '
    'disable its VFs (nova-vgpu sriov disable {gpu}), turn MIG mode on '
    '(nvidia-smi -i {gpu} -mig 1), and run "nova-vgpu apply".'
)
_TURN_OFF = (
    'The GPU is in MIG mode, which has no time-sliced types. Declare a type '
    'that is backed by MIG; or turn MIG mode off once no server uses the GPU: '
    '"nova-vgpu apply" does it with [devices]switch_mig_mode = true. By hand: '
    'disable its VFs (nova-vgpu sriov disable {gpu}), turn MIG mode off '
    '(nvidia-smi -i {gpu} -mig 0), and run "nova-vgpu apply".'
)
_CREATE = (
    'Run "nova-vgpu apply", which creates GPU instances for it with the help '
    'of NVML. Or create them by hand, after the VFs are enabled: nvidia-smi '
    'mig -i {gpu} -cgi PROFILE -C. sriov-manage removes those that were there '
    'before.'
)
_NONE_HELD = (
    'Check that the listed functions are enabled and, on a GPU with MIG, that '
    'MIG mode is off: nvidia-smi -i {gpu} -mig 0, while its VFs are disabled.'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Obstacle:
    """An obstacle: a stable code, the finding and the cure."""

    code: str
    finding: str
    cure: str


def is_passed_through(gpu: values.PhysicalGPU) -> bool:
    """Whether the GPU is reserved for passthrough to a server."""
    return gpu.driver == VFIO_DRIVER


def find_obstacle(gpu: values.PhysicalGPU) -> Obstacle | None:
    """Why a GPU offers no type; None if it offers some."""
    # Not by the framework: a ready VF may have no type to choose.
    if gpu.types or gpu.all_vgpus:
        return None
    return (
        _vendor_obstacle(gpu)
        or _driver_obstacle(gpu)
        or _function_obstacle(gpu)
    )


def _vendor_obstacle(gpu: values.PhysicalGPU) -> Obstacle | None:
    """First: whatever its driver is, nothing can be repaired."""
    made_by = capabilities.vendor_of(gpu)
    if made_by is None or not capabilities.is_shared_without_types(gpu):
        return None
    return Obstacle(
        'no-types-ever',
        f'{made_by.name} GPUs with SR-IOV have no vGPU types'
        if made_by.type_prefixes
        else f'{made_by.name} GPUs are shared by SR-IOV alone and have no '
        'vGPU types',
        f'Declare a VF profile ({made_by.vf_profile_form}) with its '
        'address, or assign its virtual functions to servers by PCI '
        'passthrough.'
        if made_by.vf_profile_form
        else 'Assign its virtual functions to servers by PCI passthrough.',
    )


def _driver_obstacle(gpu: values.PhysicalGPU) -> Obstacle | None:
    if gpu.driver is None:
        return Obstacle(
            'no-driver',
            'no driver is bound to it',
            "Install and load the vendor's vGPU host driver.",
        )
    if gpu.driver == STUB_DRIVER:
        return Obstacle(
            'on-stub-driver',
            f'it is bound to {STUB_DRIVER}, where an interrupted '
            'sriov-manage leaves a GPU',
            f'Bind it to its own driver again, and enable its VFs: '
            f'nova-vgpu sriov enable {gpu}',
        )
    if is_passed_through(gpu):
        return Obstacle(
            'passed-through',
            f'it is bound to {VFIO_DRIVER}, for passthrough of the '
            'whole GPU to a server',
            f'Bind {gpu} to the vGPU host driver, or remove it from the '
            'configuration.',
        )
    if gpu.driver in _PLAIN_DRIVERS:
        return Obstacle(
            'plain-driver',
            f'its driver is {gpu.driver}, which does not support vGPUs',
            "Install the vendor's vGPU host driver and prevent "
            f'{gpu.driver} from loading.',
        )
    return None


def _function_obstacle(gpu: values.PhysicalGPU) -> Obstacle:
    made_by = capabilities.vendor_of(gpu)
    if gpu.vfs and all(vf.driver == VFIO_DRIVER for vf in gpu.vfs):
        return Obstacle(
            'vfs-passed-through',
            f'its VFs are bound to {VFIO_DRIVER}, as libvirt does '
            "with a VF that a guest uses with managed='yes'",
            f"Bind the VFs of {gpu} to the GPU's own driver again.",
        )
    if gpu.vfs and gpu.sriov is not None and gpu.sriov.offset is None:
        # With VFs enabled, only libvirt does not show the offset.
        return Obstacle(
            'no-types-yet',
            f'libvirt shows no vGPU type of its {len(gpu.vfs)} VFs, and '
            'does not show vendor-specific VFIO',
            'Run the command on the host itself, which has sysfs.',
        )
    if gpu.vfs:
        return Obstacle(
            'no-types-yet',
            f'{len(gpu.vfs)} VFs are enabled, but none shows a vGPU type',
            made_by.no_types_cure if made_by else vendors.NO_TYPES_CURE,
        )
    if gpu.sriov is not None:
        return Obstacle(
            'vfs-off',
            f'its VFs are not enabled (0 of {gpu.sriov.total})',
            (made_by.vfs_off_cure if made_by else vendors.VFS_OFF_CURE).format(
                gpu=gpu
            ),
        )
    return Obstacle(
        'no-types',
        f'its driver, {gpu.driver}, shows no vGPU types',
        vendors.NO_TYPES_CURE,
    )


def find_room_cure(
    gpu: values.PhysicalGPU,
    wanted: str,
    names: Mapping[str, str],
    is_divided: bool = False,
) -> str:
    """The cure for a GPU without room for a type.

    :param wanted: the name of the type.
    :param is_divided: whether the GPU is to serve other types as well.
    """
    name = capabilities.complete_name(wanted, capabilities.model_of(gpu))
    is_mig = name is not None and name.slices is not None
    held = {
        capabilities.is_backed_by_mig(values.VGPUType(type_id, names[type_id]))
        for type_id in {vgpu.type_id for vgpu in gpu.all_vgpus}
        if type_id in names
    }
    if not gpu.all_vgpus:
        cure = _CREATE if is_mig else _NONE_HELD
    elif is_mig:
        cure = _TURN_ON if held == {False} else _REPARTITION
    elif True in held:
        cure = _TURN_OFF
    else:
        cure = _MIX if is_divided else _ONE_SIZE
    return cure.format(gpu=gpu)
