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

"""How a host differs from what is declared for it; nothing is changed.

What there is to say about it is a line of text for each finding. What was
there in the round before as well is not said again; what is not there any more
is said once. So the log of the agent has a line for each change, and none for
a host that stays as it is, be it good or bad.
"""

from collections.abc import Callable
import dataclasses
import itertools
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import journal
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy

_GONE = 'resolved: '


def read(
    access: host_access.HostAccess,
    connection: typing.Any,
    configuration: values.Configuration,
    warn: host_access.Warn,
    new_uuid: Callable[[], str],
    unfinished: frozenset[str] = frozenset(),
    may_put_aside: bool = True,
) -> values.DriftReport:
    """The host as it is now, and the steps that an apply would take.

    A configuration that has to be corrected is not an error here: what it is
    about is in the problems of the plan, and there are no steps.

    :param unfinished: see :func:`~nova_vgpu.lifecycle.host_access.read_state`,
        as ``may_put_aside``.
    :raises HostUnreadable: if the host cannot be read.
    :raises StateUnusable: if what is remembered cannot be read.
    """
    state = host_access.read_state(
        access, connection, warn, unfinished, may_put_aside
    )
    modes = access.read_modes(state.host)
    plan = mapper.make_plan(configuration.plan_input(state.host, modes))
    found: tuple[values.GPUSteps, ...] = ()
    if not plan.problems_of(values.Severity.FATAL):
        found = gpu_steps.plan_steps(
            plan,
            type_matching.list_type_names(state.host),
            state.usage,
            policy.for_apply(
                configuration.declaration.creation,
                configuration.declaration.switches_mig_mode,
            ),
            new_uuid,
        )
    return values.DriftReport(
        plan, state.host, state.usage, found, modes=modes
    )


def report(
    access: host_access.HostAccess,
    configuration: values.Configuration,
    warn: host_access.Warn,
) -> values.DriftReport:
    """The drift of the host, the last apply, and what else metrics tell.

    :raises HostUnreadable: if the host cannot be read.
    :raises StateUnusable: if what is remembered cannot be read.
    """
    # The same names in every round, or each would find other mdevs missing.
    numbers = itertools.count(1)
    with access.connect() as connection:
        found = read(
            access,
            connection,
            configuration,
            warn,
            lambda: f'new-{next(numbers)}',
        )
        node = host_access.read_node_name(connection)
        software = host_access.read_software(access, connection)
    found = dataclasses.replace(
        found,
        node=node,
        guest_drivers=access.read_guest_drivers(found.host),
        software=software,
        migration=access.read_migration(found.host),
        settings=configuration.migration_settings,
    )
    try:
        log = journal.Journal(access.state).read()
    except exception.StateDamaged:
        return found  # the next apply puts it aside and says so
    return dataclasses.replace(found, last_apply=journal.find_last_apply(log))


def list_findings(report: values.DriftReport) -> tuple[str, ...]:
    """All that is not as it should be, each once."""
    lines = [
        *(f'{p.severity.value}: {p}' for p in report.plan.problems),
        *(f'warning: {fault}' for fault in report.host.faults),
        *(f'drift: GPU {step.gpu}: {step}' for step in report.steps),
        *(f'refused: {refusal}' for refusal in report.refusals),
    ]
    return tuple(dict.fromkeys(' '.join(line.split()) for line in lines))


def list_news(
    before: tuple[str, ...], after: tuple[str, ...]
) -> tuple[str, ...]:
    """What changed from one round to the next."""
    return (
        *(_GONE + line for line in before if line not in after),
        *(line for line in after if line not in before),
    )


def summarise(report: values.DriftReport) -> str:
    """The host in one line."""
    bad = report.plan.problems_of(values.Severity.FATAL, values.Severity.ERROR)
    return (
        f'{len(report.plan.serving)} of {len(report.plan.gpus)} GPUs serve, '
        f'{len(report.steps)} steps of drift, {len(report.refusals)} things '
        f'in use, {len(bad)} problems'
    )
