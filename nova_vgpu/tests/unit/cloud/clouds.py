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

"""GPUs of a cloud, as values."""

import typing

from nova_vgpu.cloud.gpus import fleet

T4 = ('CUSTOM_VGPU_TYPE_T4_2Q', 'CUSTOM_GPU_MODEL_T4')
A40 = ('CUSTOM_VGPU_TYPE_A40_8Q', 'CUSTOM_GPU_MODEL_A40')
WHOLE_A40 = (
    'COMPUTE_MANAGED_PCI_DEVICE',
    'CUSTOM_GPU_MODEL_A40',
    'CUSTOM_GPU_VENDOR_NVIDIA',
    'OWNER_NOVA',
)


def gpu(
    where: str,
    capacity: int = 8,
    used: int = 0,
    reserved: int | None = None,
    traits: tuple[str, ...] = T4,
    resource_class: str = 'VGPU',
    **others: typing.Any,
) -> fleet.GPU:
    """A GPU, where "compute1 84" is 0000:84:00.0 of compute1."""
    host, bus = where.split()
    return fleet.GPU(
        f'uuid of {where}',
        host,
        f'pci_0000_{bus}_00_0',
        (fleet.Stock(resource_class, capacity, used, reserved),),
        frozenset(traits),
        **others,
    )


def whole(
    where: str,
    capacity: int = 1,
    used: int = 0,
    reserved: int | None = None,
    traits: tuple[str, ...] = WHOLE_A40,
    resource_class: str = 'CUSTOM_GPU_A40',
) -> fleet.GPU:
    """A whole GPU, where "compute1 C1" is 0000:c1:00.0 of compute1."""
    host, bus = where.split()
    return fleet.GPU(
        f'uuid of {where}',
        host,
        f'0000:{bus}:00.0',
        (fleet.Stock(resource_class, capacity, used, reserved),),
        frozenset(traits),
    )
