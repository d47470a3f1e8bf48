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

"""Answers of Placement, as short as tests need them."""

import typing

from nova_vgpu import values
from nova_vgpu.scheduler import inventory

A40_8Q = 'CUSTOM_VGPU_TYPE_A40_8Q'
T4_2Q = 'CUSTOM_VGPU_TYPE_T4_2Q'
PACK, SPREAD = values.Order.PACK, values.Order.SPREAD
BOTH_SPREAD = values.SchedulingRules(
    values.Orders(SPREAD), values.Orders(SPREAD)
)

Answer = tuple[list[typing.Any], dict[str, typing.Any], str]


def gpu(
    used: int,
    capacity: int = 4,
    host: str = 'host1',
    trait: str = A40_8Q,
) -> inventory.GPU:
    return inventory.GPU(
        host,
        frozenset({trait} - {''}),
        frozenset({'VGPU'}),
        capacity,
        used,
    )


def summary(gpu: inventory.GPU) -> dict[str, typing.Any]:
    """Of the provider of a GPU."""
    return {
        'resources': {'VGPU': {'capacity': gpu.capacity, 'used': gpu.used}},
        'traits': ['HW_GPU_API_VULKAN', *gpu.type_traits],
        'parent_provider_uuid': gpu.host,
        'root_provider_uuid': gpu.host,
    }


def root(host: str) -> dict[str, typing.Any]:
    return {
        'resources': {'VCPU': {'capacity': 64, 'used': 1}},
        'traits': ['COMPUTE_NODE'],
        'parent_provider_uuid': None,
        'root_provider_uuid': host,
    }


def candidate(host: str, *gpus: str, number: int = 1) -> dict[str, typing.Any]:
    """One for a server with vGPUs of these GPUs."""
    vgpus = {uuid: {'resources': {'VGPU': number}} for uuid in gpus}
    return {'allocations': {host: {'resources': {'VCPU': 1}}, **vgpus}}


def answer(**gpus: inventory.GPU) -> Answer:
    """For a server with one vGPU: a candidate for each GPU with room."""
    hosts = {gpu.host for gpu in gpus.values()}
    return (
        [candidate(g.host, uuid) for uuid, g in gpus.items() if g.free],
        {
            **{host: root(host) for host in hosts},
            **{uuid: summary(gpu) for uuid, gpu in gpus.items()},
        },
        '1.36',
    )
