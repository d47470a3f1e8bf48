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

"""What each GPU of a host is for: vGPUs, passthrough, a display, or nothing.

What is declared counts before what the host shows: a GPU that is declared for
vGPUs has that role also if it is not ready, or shows the console. Virtual
functions in ``[pci]device_spec`` are vGPUs of Nova's own driver if they have
vGPU types, and otherwise shares of a GPU that is passed through.
"""

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import nova_conflicts
from nova_vgpu.plan import readiness


def find_role(
    gpu: values.PhysicalGPU,
    plan: values.Plan,
    declaration: values.Declaration,
    isolation: values.GPUIsolation,
) -> values.Role:
    """The role of a GPU, by the configuration and by its host."""
    if plan.assignments_of(gpu.name):
        return values.Role.VGPU
    listed = nova_conflicts.find_listed(declaration.pci_devices, gpu)
    if any(vf.vendor_vfio and vf.name in listed for vf in gpu.vfs):
        return values.Role.VGPU
    if gpu.name in listed or readiness.is_passed_through(gpu):
        return values.Role.PASSTHROUGH
    if listed:  # virtual functions, enabled or not
        has_types = capabilities.makes_vgpus(gpu)
        return values.Role.VGPU if has_types else values.Role.PASSTHROUGH
    if isolation.is_display:
        return values.Role.DISPLAY
    return values.Role.UNUSED
