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

"""A look at the host, and at what an apply would do; nothing is changed."""

import itertools

from nova_vgpu import values
from nova_vgpu.host import type_id_store
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import journal
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_changes
from nova_vgpu.reconcile import gpu_steps


def look(
    around: host_access.HostAccess,
    wish: apply.Configuration,
    warn: host_access.Warn,
) -> values.DriftReport:
    """The host as it is now.

    A configuration that has to be corrected is no error here: what it is
    about is in the problems of the plan.

    :raises HostUnreadable: if the host cannot be looked at.
    :raises StateUnusable: if what is remembered cannot be read.
    """
    with around.connect() as connection:
        picture = host_access.look(around, connection, warn)
    types = type_id_store.recall(around.state)
    made = mapper.make_plan(
        wish.declaration,
        picture.host,
        (*wish.problems, *type_changes.list_lost(types.lost)),
        types.names,
        wish.seen,
    )
    found: tuple[values.GPUSteps, ...] = ()
    if not made.problems_of(values.Severity.FATAL):
        # The same names in every round, or each would find other mdevs
        # missing.
        numbers = itertools.count(1)
        found = gpu_steps.plan_courses(
            made,
            picture.host,
            picture.held,
            wish.declaration.creation,
            lambda: f'new-{next(numbers)}',
        )
    return values.DriftReport(
        made, picture.host, picture.held, found, _read_last_apply(around)
    )


def _read_last_apply(around: host_access.HostAccess) -> float | None:
    try:
        log = journal.Journal(around.state).read()
    except journal.CorruptError:
        return None  # the next apply puts it aside and says so
    return journal.find_last_apply(log)
