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

"""What differs between those who reconcile a host.

The rules are the same for all of them; a policy says which of the rules each
one follows. nova-compute runs without privileges and creates a vGPU when a
server needs it, so it does less than ``apply`` and the agent, which prepare
the host beforehand.
"""

import dataclasses

from nova_vgpu import values


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """Which steps are planned.

    ``prepares_gpus``
        Bind GPUs to their drivers, enable VFs, set the heterogeneous mode. A
        type that a GPU does not offer yet may be offered by then, so vGPUs are
        planned without regard to what is offered now.
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
    restores_all: bool = False
    creates_ahead: bool = False
    removes_blocking_only: bool = False
    clears_idle_functions: bool = False
    goes_beyond_plan: bool = False


def for_apply(creation: values.Creation) -> Policy:
    """``apply``, ``plan`` and the agent: all that is declared."""
    return Policy(
        prepares_gpus=True,
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
