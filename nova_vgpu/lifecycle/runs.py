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


"""Whole runs: apply, restore, and what an operator does by hand.

A run has the host for itself. It looks at the host, decides, and lets the GPUs
take their steps; what they hid from it is seen when it looks again.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import typing

from nova_vgpu import values
from nova_vgpu.decisions import courses
from nova_vgpu.decisions import mapper
from nova_vgpu.decisions import mode_findings
from nova_vgpu.decisions import steps
from nova_vgpu.host import locks
from nova_vgpu.knowledge import capabilities
from nova_vgpu.lifecycle import execution
from nova_vgpu.lifecycle import journal as journals
from nova_vgpu.lifecycle import lanes
from nova_vgpu.lifecycle import surroundings

# What VFs and vGPUs in the way hid is seen when the host is read again.
_MOST_ROUNDS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """The configuration, as it was read; perhaps for one GPU only."""

    declaration: values.Declaration
    problems: tuple[values.Problem, ...] = ()
    gpu: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ByHand:
    """What an operator asked for.

    ``keep`` are functions that are to be vGPUs of a type from now on, or not
    any more (None), also after a reboot.
    """

    courses: tuple[values.Course, ...]
    keep: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


def plan(
    around: surroundings.Surroundings, wish: Wish, reporter: lanes.Reporter
) -> tuple[values.Course, ...]:
    """What an apply would do first; nothing is changed.

    :raises InvalidLibvirtGPUConfig: if the operator has to correct something.
    :raises HostUnreadable: if the host cannot be looked at.
    """
    with around.connect() as connection:
        picture = surroundings.look(around, connection, reporter.warn)
    return _plan(around, wish, picture)[1]


def apply(
    around: surroundings.Surroundings, wish: Wish, reporter: lanes.Reporter
) -> lanes.Outcome:
    """Bring the host to its declared state.

    :raises InvalidLibvirtGPUConfig: if the operator has to correct something.
    :raises HostUnreadable: if the host cannot be looked at.
    :raises StateUnusable: if the journal cannot be written.
    :raises Busy: if another run does not end.
    """
    outcome = lanes.Outcome()
    with _alone(around, reporter) as (connection, executor):
        journal = _open_journal(around, reporter)
        for _ in range(_MOST_ROUNDS):
            picture = surroundings.look(around, connection, reporter.warn)
            made, found = _plan(around, wish, picture)
            failed = {failure.step.gpu for failure in outcome.failures}
            steps = [c for c in found if c.steps and c.gpu not in failed]
            outcome.refusals = [r for c in found for r in c.refusals]
            outcome.problems = _problems_of(made, found, wish)
            if not steps:
                break
            lanes.perform(around, steps, executor, outcome, reporter, journal)
        journal.end()
        picture = surroundings.look(around, connection, reporter.warn)
        surroundings.remember(around, picture, picture.held.kept.functions)
    return outcome


def restore(
    around: surroundings.Surroundings, reporter: lanes.Reporter
) -> lanes.Outcome | None:
    """Take back what the last apply did; None if there is nothing.

    :raises Corrupt: if the journal does not tell what that was.
    """
    outcome = lanes.Outcome()
    with _alone(around, reporter) as (_, executor):
        journal = journals.Journal(around.state)
        log = journal.read()
        if log.is_restored or not log.steps:
            return None
        executor.look()
        back = [steps.undo(course) for course in log.courses]
        lanes.perform(around, back, executor, outcome, reporter)
        if not outcome.failures:
            journal.mark_restored()
    return outcome


def carry_out(
    around: surroundings.Surroundings,
    decide: Callable[[surroundings.Picture], ByHand],
    reporter: lanes.Reporter,
) -> lanes.Outcome:
    """Do what an operator asked for by hand.

    :param decide: what that is, on the host as it is now.
    """
    outcome = lanes.Outcome()
    with _alone(around, reporter) as (connection, executor):
        picture = surroundings.look(around, connection, reporter.warn)
        executor.look()
        asked = decide(picture)
        former = picture.held.kept.functions
        functions = dict(former)
        for address, type_name in asked.keep.items():
            functions.pop(address, None)
            if type_name is not None:
                functions[address] = type_name
        if asked.keep:
            # First: if it is killed now, the next apply does the rest.
            surroundings.remember(around, picture, functions)
        lanes.perform(around, asked.courses, executor, outcome, reporter)
        picture = surroundings.look(around, connection, reporter.warn)
        if outcome.failures or outcome.refusals:
            functions = dict(former)
        surroundings.remember(around, picture, functions)
    return outcome


@contextlib.contextmanager
def _alone(
    around: surroundings.Surroundings, reporter: lanes.Reporter
) -> Iterator[tuple[typing.Any, execution.Executor]]:
    with (
        locks.hold_apply(
            around.state.path, around.timeout * 5, reporter.warn
        ) as lock,
        around.connect() as connection,
    ):
        yield (
            connection,
            execution.Executor(around, connection, lock, reporter.warn),
        )


def _open_journal(
    around: surroundings.Surroundings, reporter: lanes.Reporter
) -> journals.Journal:
    """The journal; one that makes no sense is put aside.

    The host must come up also if it is broken. What it said is lost to
    ``restore``, not to the operator.
    """
    journal = journals.Journal(around.state)
    try:
        journal.read()
    except journals.Corrupt as error:
        aside = journal.set_aside()
        reporter.warn(f'{error} It is {aside} now; a new one is begun.')
    return journal


def _plan(
    around: surroundings.Surroundings,
    wish: Wish,
    picture: surroundings.Picture,
) -> tuple[values.Plan, tuple[values.Course, ...]]:
    made = mapper.make_plan(wish.declaration, picture.host, wish.problems)
    mapper.require_valid(made)
    made = dataclasses.replace(
        made, problems=(*made.problems, *_check_mig(around, made))
    )
    found = courses.plan_courses(
        made,
        picture.host,
        picture.held,
        wish.declaration.creation,
        around.new_uuid,
    )
    return made, tuple(c for c in found if wish.gpu in (None, c.gpu))


def _check_mig(
    around: surroundings.Surroundings, made: values.Plan
) -> Iterator[values.Problem]:
    """Whether GPUs that are to serve types backed by MIG are in that mode.

    Only the driver's library knows; where it is not there, the driver has the
    last word.
    """
    backed = {
        assigned.gpu.address: assigned
        for assigned in made.assignments
        if assigned.gpu.address and assigned.type and _is_mig(assigned.type)
    }
    if not backed:
        return
    modes = around.read_modes(backed)
    for address, assigned in backed.items():
        mig = modes.of(address).mig
        name = assigned.type.name if assigned.type else None
        if mig is None:
            continue
        for found in mode_findings.find_mig(assigned.gpu, mig, name):
            if found.severity is values.Severity.ERROR:
                yield values.Problem(
                    found.severity,
                    found.code,
                    found.subject,
                    found.text,
                    found.cure,
                )


def _is_mig(vgpu_type: values.VGPUType) -> bool:
    name = capabilities.parse_type_name(vgpu_type.name or '')
    return name is not None and name.slices is not None


def _problems_of(
    made: values.Plan, found: Iterable[values.Course], wish: Wish
) -> tuple[values.Problem, ...]:
    """What keeps the GPUs in question from serving.

    That vGPUs are in the way is said by refusing to touch them.
    """
    others = {str(gpu) for gpu in made.gpus} - {wish.gpu}
    refused = {course.gpu for course in found if course.refusals}
    return tuple(
        problem
        for problem in made.problems_of(values.Severity.ERROR)
        if problem.subject not in refused
        and (wish.gpu is None or problem.subject not in others)
    )
