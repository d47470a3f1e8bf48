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
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.diagnose import mode_findings
from nova_vgpu.host import locks
from nova_vgpu.knowledge import capabilities
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import journal as journals
from nova_vgpu.lifecycle import step_executor
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.plan import mapper
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_changes
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import steps

# What VFs and vGPUs in the way hid is seen when the host is read again, and so
# are mdevs that mdevctl started meanwhile.
_MOST_ROUNDS = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration, as it was read; perhaps for one GPU only.

    ``seen`` are addresses that were those of GPUs of this host before.
    """

    declaration: values.Declaration
    problems: tuple[values.Problem, ...] = ()
    gpu: str | None = None
    seen: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """What an apply would do, and what keeps GPUs from serving before that."""

    courses: tuple[values.GPUSteps, ...]
    problems: tuple[values.Problem, ...]

    @property
    def steps(self) -> list[values.Step]:
        return [step for course in self.courses for step in course.steps]

    @property
    def outcome(self) -> step_runner.Outcome:
        """What is known of it beforehand.

        A GPU that is made ready may well serve then.
        """
        changed = {step.gpu for step in self.steps}
        return step_runner.Outcome(
            refusals=[r for course in self.courses for r in course.refusals],
            problems=tuple(
                p for p in self.problems if p.subject not in changed
            ),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ByHand:
    """What an operator asked for.

    ``keep`` are functions that are to be vGPUs of a type from now on, or not
    any more (None), also after a reboot.
    """

    courses: tuple[values.GPUSteps, ...]
    keep: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


def plan(
    around: host_access.HostAccess,
    wish: Configuration,
    reporter: step_runner.Reporter,
) -> DryRun:
    """What an apply would do first; nothing is changed.

    :raises InvalidLibvirtGPUConfig: if the operator has to correct something.
    :raises HostUnreadable: if the host cannot be looked at.
    """
    with around.connect() as connection:
        picture = host_access.look(
            around, connection, reporter.warn, may_put_aside=False
        )
    recalled = host_access.recall_types(
        around, reporter.warn, may_put_aside=False
    )
    made, found = _plan(around, wish, picture, recalled.names)
    return DryRun(found, _problems_of(made, found, wish))


def apply(
    around: host_access.HostAccess,
    wish: Configuration,
    reporter: step_runner.Reporter,
) -> step_runner.Outcome:
    """Bring the host to its declared state.

    :raises InvalidLibvirtGPUConfig: if the operator has to correct something.
    :raises HostUnreadable: if the host cannot be looked at.
    :raises StateUnusable: if the journal cannot be written.
    :raises BusyError: if another run does not end.
    """
    outcome = step_runner.Outcome()
    with _alone(around, reporter) as (connection, executor):
        journal = _open_journal(around, reporter)
        unfinished = journal.read().unfinished
        recalled = host_access.recall_types(around, reporter.warn)
        names = recalled.names
        late: list[values.Refusal] = []
        undone: set[str] = set()
        for rounds_left in reversed(range(_MOST_ROUNDS)):
            picture = host_access.look(
                around, connection, reporter.warn, unfinished
            )
            made, found = _plan(around, wish, picture, names)
            undone.update(picture.held.unfinished, _list_started(found))
            # Here: a GPU that is full in the end may name its types no more.
            names = type_changes.list_names(
                names, picture.host, wish.declaration
            )
            stopped = {failure.step.gpu for failure in outcome.failures}
            stopped.update(refusal.gpu for refusal in late)
            steps = [c for c in found if c.steps and c.gpu not in stopped]
            outcome.refusals = [r for c in found for r in c.refusals] + late
            outcome.problems = _without_told(
                _problems_of(made, found, wish), stopped
            )
            if not steps:
                break
            early = len(outcome.refusals)
            _remember_what_goes(around, picture, steps)
            step_runner.perform(
                around,
                steps,
                executor,
                outcome,
                reporter,
                journal,
                is_replanned=rounds_left > 0,
            )
            late += outcome.refusals[early:]
        else:
            reporter.warn('There is more to do than was done: run it again.')
        if not outcome.failures and wish.gpu is None:
            undone.clear()  # what was not made is not wanted any more
        left = frozenset(undone)
        # First: if it is killed now, the journal knows as well.
        picture = host_access.look(around, connection, reporter.warn, left)
        functions = picture.held.kept.functions
        host_access.remember(around, picture, functions, left)
        host_access.remember_types(around, recalled, names)
        host_access.remember_gpus(
            around, wish.seen, wish.declaration, picture.host
        )
        journal.end()
    return outcome


def restore(
    around: host_access.HostAccess, reporter: step_runner.Reporter
) -> step_runner.Outcome | None:
    """Take back what the last apply did; None if there is nothing.

    :raises CorruptError: if the journal does not tell what that was.
    """
    outcome = step_runner.Outcome()
    with _alone(around, reporter) as (_, executor):
        journal = journals.Journal(around.state)
        log = journal.read()
        if log.is_restored or not log.steps:
            return None
        executor.is_undoing = True
        back = [steps.undo(course) for course in log.courses]
        step_runner.perform(
            around,
            back,
            executor,
            outcome,
            reporter,
            stops_at=('failed', 'refused'),
        )
        if not outcome.failures and not outcome.refusals:
            journal.mark_restored()
    return outcome


def carry_out(
    around: host_access.HostAccess,
    decide: Callable[[host_access.HostState], ByHand],
    reporter: step_runner.Reporter,
) -> step_runner.Outcome:
    """Do what an operator asked for by hand.

    :param decide: what that is, on the host as it is now.
    """
    outcome = step_runner.Outcome()
    with _alone(around, reporter) as (connection, executor):
        picture = host_access.look(around, connection, reporter.warn)
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
            host_access.remember(around, picture, functions)
        step_runner.perform(around, asked.courses, executor, outcome, reporter)
        picture = host_access.look(around, connection, reporter.warn)
        if outcome.failures or outcome.refusals:
            functions = dict(former)
        host_access.remember(around, picture, functions)
    return outcome


@contextlib.contextmanager
def _alone(
    around: host_access.HostAccess, reporter: step_runner.Reporter
) -> Iterator[tuple[typing.Any, step_executor.Executor]]:
    with (
        locks.hold_apply(
            around.state.path, around.timeout * 5, reporter.warn
        ) as lock,
        around.connect() as connection,
    ):
        for process in around.list_unshared():
            reporter.warn(
                f'nova-compute (process {process}) does not share the locks '
                f'in {around.locks}: a vGPU that it has just chosen for a '
                'server may be removed. Let both have one directory at '
                '[oslo_concurrency]lock_path: set it in the nova.conf that '
                'this command reads, and mount it into the container of '
                'nova-compute.'
            )
        yield (
            connection,
            step_executor.Executor(around, connection, lock, reporter.warn),
        )


def _list_started(found: Iterable[values.GPUSteps]) -> Iterator[str]:
    """The mdevs that are to be there, and are not."""
    for course in found:
        for step in course.steps:
            if isinstance(step, values.SetMdev) and step.after.is_started:
                yield step.uuid


def _remember_what_goes(
    around: host_access.HostAccess,
    picture: host_access.HostState,
    found: Iterable[values.GPUSteps],
) -> None:
    """Keep mdevs that are removed, perhaps to be made again.

    If the run is killed between the two, nothing else knows of them.
    """
    if any(
        isinstance(step, values.SetMdev)
        and step.after is values.MdevState.ABSENT
        for course in found
        for step in course.steps
    ):
        host_access.remember(around, picture, picture.held.kept.functions)


def _open_journal(
    around: host_access.HostAccess, reporter: step_runner.Reporter
) -> journals.Journal:
    """The journal; one that makes no sense is put aside.

    The host must come up also if it is broken. What it said is lost to
    ``restore``, not to the operator.
    """
    journal = journals.Journal(around.state)
    try:
        journal.read()
    except journals.CorruptError as error:
        aside = journal.set_aside()
        reporter.warn(f'{error} It is {aside} now; a new one is begun.')
    return journal


def _plan(
    around: host_access.HostAccess,
    wish: Configuration,
    picture: host_access.HostState,
    remembered: type_changes.Names,
) -> tuple[values.Plan, tuple[values.GPUSteps, ...]]:
    made = mapper.make_plan(
        wish.declaration, picture.host, wish.problems, remembered, wish.seen
    )
    mapper.require_valid(made)
    made = dataclasses.replace(
        made, problems=(*made.problems, *_check_mig(around, made))
    )
    if wish.gpu is not None:
        _require_declared(made, wish.gpu)
    found = gpu_steps.plan_courses(
        made,
        picture.host,
        picture.held,
        wish.declaration.creation,
        around.new_uuid,
    )
    chosen = tuple(c for c in found if wish.gpu in (None, c.gpu))
    return made, tuple(_without_needless_mixing(around, c) for c in chosen)


def _require_declared(made: values.Plan, gpu: str) -> None:
    for left in made.left_alone:
        if str(left.gpu) == gpu:
            raise exception.UsageError(
                f'GPU {gpu} is left alone: {left.why}. "nova-vgpu plan" shows '
                'what is declared.'
            )


def _without_needless_mixing(
    around: host_access.HostAccess, course: values.GPUSteps
) -> values.GPUSteps:
    """A GPU that holds vGPUs of different sizes already stays so."""
    if not any(isinstance(s, values.SetHeterogeneous) for s in course.steps):
        return course
    address = values.PciAddress.parse(course.gpu)
    if not around.read_modes([address]).of(address).heterogeneous:
        return course
    kept = [
        s for s in course.steps if not isinstance(s, values.SetHeterogeneous)
    ]
    return dataclasses.replace(course, steps=tuple(kept))


def _check_mig(
    around: host_access.HostAccess, made: values.Plan
) -> Iterator[values.Problem]:
    """Whether GPUs that are to serve types backed by MIG are in that mode.

    Only the driver's library knows; where it is not there, the driver has the
    last word.
    """
    backed = {
        assigned.gpu.address: assigned
        for assigned in made.assignments
        if assigned.gpu.address
        and assigned.type
        and capabilities.is_backed_by_mig(assigned.type)
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


def _without_told(
    problems: Iterable[values.Problem], stopped: Container[str]
) -> tuple[values.Problem, ...]:
    """Without what keeps a GPU from serving because a step failed.

    The failure says why. The cure of the problem is the step.
    """
    return tuple(
        problem
        for problem in problems
        if problem.subject not in stopped
        or problem.code not in readiness.OBSTACLES
    )


def _problems_of(
    made: values.Plan, found: Iterable[values.GPUSteps], wish: Configuration
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
