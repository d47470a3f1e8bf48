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

"""Why a GPU does not serve vGPUs at the moment, if that is known."""

import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import vendors

STUB_DRIVER = 'pci-pf-stub'
_PASSTHROUGH_DRIVER = 'vfio-pci'
# Drivers of the kernel for NVIDIA's GPUs that do not support vGPUs.
_PLAIN_DRIVERS = frozenset({'nouveau', 'nvidiafb'})

#: The codes of all obstacles.
OBSTACLES = frozenset(
    {'no-driver', 'on-stub-driver', 'passed-through', 'plain-driver'}
    | {'no-types-ever', 'vfs-passed-through', 'no-types-yet', 'vfs-off'}
    | {'no-types'}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Obstacle:
    """An obstacle: a stable code, the finding and the cure."""

    code: str
    finding: str
    cure: str


def is_passed_through(gpu: values.PhysicalGPU) -> bool:
    """Whether the GPU is reserved for passthrough to a server."""
    return gpu.driver == _PASSTHROUGH_DRIVER


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
        'Assign its virtual functions to servers by PCI passthrough.',
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
            f'it is bound to {_PASSTHROUGH_DRIVER}, for passthrough of the '
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
    if gpu.vfs and all(vf.driver == _PASSTHROUGH_DRIVER for vf in gpu.vfs):
        return Obstacle(
            'vfs-passed-through',
            f'its VFs are bound to {_PASSTHROUGH_DRIVER}, as libvirt does '
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
