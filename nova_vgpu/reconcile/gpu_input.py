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

"""One GPU, with all that decides on its steps."""

from collections.abc import Mapping
import dataclasses

from nova_vgpu import values
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps


@dataclasses.dataclass(frozen=True, slots=True)
class GPUInput:
    """A GPU, what it is to serve, and the use of the host.

    ``assigned`` is None for a GPU that nothing is declared for. ``functions``
    are the names of those that the plan puts vGPUs on, also of VFs that are
    not enabled yet. ``names`` are those of types by their ids.
    """

    gpu: values.PhysicalGPU
    assigned: values.Assignment | None
    functions: frozenset[str]
    usage: values.Usage
    names: Mapping[str, str]
    policy: policies.Policy

    @property
    def name(self) -> str:
        """What an operator calls the GPU."""
        return str(self.gpu)

    @property
    def restorable(self) -> frozenset[str]:
        """The functions on which guests get their vGPUs back."""
        if self.policy.goes_beyond_plan:
            return self.gpu.functions | self.functions
        return self.functions

    @property
    def declared_name(self) -> str | None:
        """What the GPU is to serve, as well as it is known."""
        if self.assigned is None:
            return None
        if self.assigned.type is not None:
            return steps.label(self.assigned.type)
        return self.assigned.declared.name

    @property
    def may_hide_type(self) -> bool:
        """Whether vGPUs may be why the GPU does not offer what is declared."""
        if self.assigned is None:
            return False
        return may_be_hidden(self.assigned, self.names)

    def type_of(self, vgpu: values.VGPU) -> values.VGPUType:
        return values.VGPUType(vgpu.type_id, self.names.get(vgpu.type_id))

    def is_declared(self, vgpu_type: values.VGPUType) -> bool:
        """Whether a type is the one that the GPU is to serve."""
        if self.assigned is None:
            return False
        if self.assigned.type is not None:
            label = steps.label(vgpu_type)
            return bool(
                type_matching.find_matches(label, [self.assigned.type])
            )
        wanted = self.assigned.declared.name
        return bool(type_matching.find_matches(wanted, [vgpu_type]))

    def is_other(self, vgpu: values.VGPU) -> bool:
        """Whether a vGPU is of another type than the GPU is to serve.

        False if that is not known.
        """
        vgpu_type = self.type_of(vgpu)
        if self.assigned is None or vgpu.function not in self.functions:
            return False
        if self.assigned.type is None and (
            self.policy.removes_blocking_only
            or not self.may_hide_type
            # One that nothing names may well be the declared one.
            or vgpu_type.name is None
        ):
            return False
        return not self.is_declared(vgpu_type)

    def is_offered(self, type_name: str) -> bool:
        """Whether the GPU offers a type now."""
        matches = type_matching.find_matches(type_name, self.gpu.types)
        return len(matches) == 1


def may_be_hidden(
    assigned: values.Assignment, names: Mapping[str, str]
) -> bool:
    """Whether what the GPU has may be why it does not offer its type."""
    declared = assigned.declared.name
    return type_matching.may_be_hidden(
        assigned.gpu, names.get(declared, declared)
    )


def list_functions(assigned: values.Assignment) -> frozenset[str]:
    """The names of the functions that vGPUs may be on.

    Those that will be there once the VFs are enabled as well.
    """
    gpu = assigned.gpu
    if gpu.address is None:
        return frozenset((gpu.name,))
    every = set(gpu.functions)
    if gpu.sriov is not None:
        every.update(
            address.node_device_name
            for address in gpu.sriov.addresses(gpu.address)
        )
    every -= assigned.pci_devices
    if gpu.name not in assigned.functions:
        every &= assigned.functions
    return frozenset(every)
