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

"""What the steps of a GPU are decided by: a policy, and one GPU's input.

The rules are the same for all who reconcile a host; a policy says which of the
rules each one follows. nova-compute runs without privileges and creates a vGPU
when a server needs it, so it does less than ``apply`` and the agent, which
prepare the host beforehand.
"""

from collections.abc import Mapping
import dataclasses

from nova_vgpu import values
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import steps


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """Which steps are planned.

    ``prepares_gpus``
        Bind GPUs to their drivers, enable VFs, set the heterogeneous mode. A
        type that a GPU does not offer yet may be offered by then, so vGPUs are
        planned without regard to what is offered now.
    ``switches_mig_mode``
        Turn MIG mode on or off, which resets a GPU.
    ``restores_all``
        Bring back every vGPU that a guest has or an operator enabled. If not,
        only the types of functions that guests have: an mdev is created again
        when its server starts.
    ``creates_ahead``
        Create as many vGPUs as each GPU serves.
    ``removes_blocking_only``
        Remove an idle mdev of another type only if its GPU serves nothing
        while the mdev is there.
    ``clears_idle_functions``
        Clear the types of functions that are not in use, unless an operator
        enabled them.
    ``goes_beyond_plan``
        Look also at functions and GPUs that nothing is declared for: restore
        types there for guests, and clear those that servers left behind.
    """

    prepares_gpus: bool = False
    switches_mig_mode: bool = False
    restores_all: bool = False
    creates_ahead: bool = False
    removes_blocking_only: bool = False
    clears_idle_functions: bool = False
    goes_beyond_plan: bool = False


def for_apply(
    creation: values.Creation, switches_mig_mode: bool = False
) -> Policy:
    """``apply``, ``plan`` and the agent: all that is declared.

    :param switches_mig_mode: whether the operator allows that.
    """
    return Policy(
        prepares_gpus=True,
        switches_mig_mode=switches_mig_mode,
        restores_all=True,
        creates_ahead=creation is values.Creation.AHEAD,
    )


def for_compute(creation: values.Creation, knows_records: bool) -> Policy:
    """nova-compute: what keeps servers from their vGPUs, and what they left.

    :param knows_records: whether it is known which functions an operator
        enabled; if not, idle functions keep their types.
    """
    on_demand = creation is not values.Creation.AHEAD
    return Policy(
        removes_blocking_only=True,
        clears_idle_functions=on_demand and knows_records,
        goes_beyond_plan=True,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class GPUInput:
    """A GPU, what it is to serve, and the use of the host.

    ``assigned`` is None for a GPU that nothing is declared for. ``functions``
    are the names of those that the plan puts vGPUs on, also of VFs that are
    not enabled yet. ``names`` are those of types by their ids.

    A GPU that is divided has an input for each of its types: ``index`` is the
    place of this one, ``all_of_gpu`` are all of them in order.

    ``is_in_vain`` if no vGPU of the type can be created unless MIG mode is
    switched.
    """

    gpu: values.PhysicalGPU
    assigned: values.Assignment | None
    functions: frozenset[str]
    usage: values.Usage
    names: Mapping[str, str]
    policy: Policy
    index: int = 0
    all_of_gpu: tuple['GPUInput', ...] = ()
    is_in_vain: bool = False

    def decides_on(self, function: str, vgpu_type: values.VGPUType) -> bool:
        """Whether this input, and no other of the GPU, decides on a vGPU.

        It is the one that the type is declared for; of a type that is not
        declared it is the first one that uses the function.
        """
        on_function = self._list_on(function) or self.all_of_gpu
        of_type = [one for one in on_function if one.is_declared(vgpu_type)]
        first = next(iter(of_type or on_function), self)
        return first.index == self.index

    def _list_on(self, function: str) -> tuple['GPUInput', ...]:
        return tuple(o for o in self.all_of_gpu if function in o.functions)

    def find_default(self, function: str) -> str | None:
        """The declared type of a function that is to have one of any."""
        first = next(iter(self._list_on(function)), self)
        return first.declared_name

    def is_declared_on(
        self, function: str, vgpu_type: values.VGPUType
    ) -> bool:
        """Whether a type is one that the function is to serve."""
        on_function = self._list_on(function) or (self,)
        return any(one.is_declared(vgpu_type) for one in on_function)

    @property
    def serves(self) -> bool:
        """Whether the GPU serves all that it is to serve."""
        return all(
            one.assigned is None or one.assigned.serves
            for one in self.all_of_gpu or (self,)
        )

    @property
    def declared_names(self) -> tuple[str, ...]:
        """All that the GPU is to serve."""
        found = (one.declared_name for one in self.all_of_gpu or (self,))
        return tuple(filter(None, found))

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
        declared = self.assigned.declared.name
        return type_matching.may_be_hidden(
            self.gpu, self.names.get(declared, declared)
        )

    def is_manual(self, vgpu: values.VGPU) -> bool:
        """Whether an operator made a vGPU of the function by hand."""
        return steps.spell(vgpu.name) in self.usage.records.functions

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
        if not self.decides_on(vgpu.function, vgpu_type):
            return False
        if self.assigned.type is None and (
            self.policy.removes_blocking_only
            or not self.may_hide_type
            # One that nothing names may well be the declared one.
            or vgpu_type.name is None
        ):
            return False
        return not self.is_declared_on(vgpu.function, vgpu_type)

    def is_offered(self, type_name: str) -> bool:
        """Whether the GPU offers a type now."""
        matches = type_matching.find_matches(type_name, self.gpu.types)
        return len(matches) == 1

    def remove(self, vgpu: values.VGPU) -> steps.VGPUStep:
        """The step that removes a vGPU which is there."""
        return steps.remove(
            str(self.gpu),
            vgpu,
            steps.label(self.type_of(vgpu)),
            self.usage.state_of(vgpu.name),
        )
