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

"""The state of a host, and what an apply would do; nothing is changed."""

import itertools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import journal
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy


def read(
    access: host_access.HostAccess,
    configuration: values.Configuration,
    warn: host_access.Warn,
) -> values.DriftReport:
    """The host as it is now.

    A configuration that has to be corrected is not an error here: what it is
    about is in the problems of the plan.

    :raises HostUnreadable: if the host cannot be read.
    :raises StateUnusable: if what is remembered cannot be read.
    """
    with access.connect() as connection:
        state = host_access.read_state(access, connection, warn)
    made = mapper.make_plan(
        configuration.plan_input(state.host, access.read_modes(state.host))
    )
    found: tuple[values.GPUSteps, ...] = ()
    if not made.problems_of(values.Severity.FATAL):
        # The same names in every round, or each would find other mdevs
        # missing.
        numbers = itertools.count(1)
        found = gpu_steps.plan_steps(
            made,
            type_matching.list_type_names(state.host),
            state.usage,
            policy.for_apply(configuration.declaration.creation),
            lambda: f'new-{next(numbers)}',
        )
    return values.DriftReport(
        made, state.host, state.usage, found, _read_last_apply(access)
    )


def _read_last_apply(access: host_access.HostAccess) -> float | None:
    try:
        log = journal.Journal(access.state).read()
    except exception.StateDamaged:
        return None  # the next apply puts it aside and says so
    return journal.find_last_apply(log)
