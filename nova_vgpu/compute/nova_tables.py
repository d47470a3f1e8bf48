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

"""The plan in the tables where Nova's own methods look for it."""

import collections
import typing

from nova_vgpu import values

#: In front of the type of a vGPU that is a virtual function, where Nova
#: compares types before a live migration: one of the same type that is an
#: mdev cannot take its place.
FUNCTION_PREFIX = 'vfio:'


class Tables(typing.Protocol):
    """The attributes of Nova's driver that hold what it makes of nova.conf."""

    #: Ids of types, and resource classes, by the addresses of functions.
    pgpu_type_mapping: dict[str, str]
    mdev_class_mapping: dict[str, str]
    #: GPUs that are not PCI devices, by name.
    virtual_mdevs: set[str]
    #: The types that a guest may have that migrates to this host.
    supported_vgpu_types: list[str]


def fill(
    tables: Tables, plan: values.Plan, declared: values.Declaration
) -> None:
    """Let Nova's own methods find the plan."""
    types: dict[str, str] = {}
    classes: dict[str, str] = collections.defaultdict(lambda: 'VGPU')
    supported: set[str] = set()
    for assigned in plan.assignments:
        gpu = assigned.gpu
        for name, address in _addresses(gpu):
            classes[address] = assigned.declared.resource_class
            if assigned.type and name in assigned.functions:
                types[address] = assigned.type.id
        if assigned.type:
            supported.add(_label(gpu, assigned.type))
    tables.pgpu_type_mapping = types
    tables.mdev_class_mapping = classes
    tables.virtual_mdevs = {
        a.gpu.name for a in plan.assignments if a.gpu.address is None
    }
    tables.supported_vgpu_types = sorted(supported) or [
        declared_type.name for declared_type in declared.types
    ]


def _addresses(gpu: values.PhysicalGPU) -> list[tuple[str, str]]:
    """Name and address, as Nova writes it, of a GPU and its functions."""
    return [
        (gpu.name, str(gpu)),
        *((vf.name, str(vf.address)) for vf in gpu.vfs),
    ]


def _label(gpu: values.PhysicalGPU, vgpu_type: values.VGPUType) -> str:
    """What a type is called where Nova compares types."""
    if gpu.framework is values.Framework.VENDOR_VFIO:
        return FUNCTION_PREFIX + vgpu_type.id
    return vgpu_type.id
