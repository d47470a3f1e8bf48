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

"""How the virtual functions of GPUs without types are provisioned."""

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host.type_backends import gim
from nova_vgpu.host.type_backends import xe


def complete(
    tree: files.Files,
    gpu: values.PhysicalGPU,
    faults: list[values.ReadFault],
) -> values.PhysicalGPU:
    """The GPU with what its driver shows of that, if its driver does it."""
    if gpu.driver in xe.DRIVERS:
        return xe.XeProfiles(tree).complete(gpu, faults)
    if gpu.driver in gim.DRIVERS:
        return gim.GimPartitions(tree).complete(gpu)
    return gpu
