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

A run has the host for itself. The GPUs take their steps in turn: one whose
types are not there yet, or that something holds for the moment, is asked again
later, and one that fails takes no further step; neither holds up the others.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.decisions import courses
from nova_vgpu.decisions import mapper
from nova_vgpu.decisions import mode_findings
from nova_vgpu.decisions import steps
from nova_vgpu.host import locks
from nova_vgpu.knowledge import capabilities
from nova_vgpu.lifecycle import execution
from nova_vgpu.lifecycle import journal as journals
from nova_vgpu.lifecycle import surroundings

# What VFs and vGPUs in the way hid is seen when the host is read again.
_MOST_ROUNDS = 4
_PAUSE = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A step that did not work; those after it were not tried."""

    step: values.Step
    error: exception.StepFailed

    def __str__(self) -> str:
        return f'GPU {self.step.gpu}: could not {self.step}: {self.error}'


@dataclasses.dataclass(slots=True)
class Outcome:
    """What a run did, and what it did not."""

    done: list[values.Step] = dataclasses.field(default_factory=list)
    refusals: list[values.Refusal] = dataclasses.field(default_factory=list)
    failures: list[Failure] = dataclasses.field(default_factory=list)
    problems: tuple[values.Problem, ...] = ()


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


@dataclasses.dataclass(slots=True)
class _Lane:
    """The steps that a GPU has before it, and since when it tries."""

    steps: collections.deque[values.Step]
    began: float | None = None

    def go_on(self, event: str) -> None:
        self.steps.popleft()
        self.began = None
        if event == 'failed':
            self.steps.clear()


class Reporter(typing.Protocol):
    """Who is told of what happens, while it does."""

    def warn(self, text: str) -> None: ...

    def begin(self, step: values.Step) -> None: ...

    def finish(self, step: values.Step, event: str) -> None: ...


def plan(
    around: surroundings.Surroundings, wish: Wish, reporter: Reporter
) -> tuple[values.Course, ...]:
    """What an apply would do first; nothing is changed.

    :raises InvalidLibvirtGPUConfig: if the operator has to correct something.
    :raises HostUnreadable: if the host cannot be looked at.
    """
    with around.connect() as connection:
        picture = surroundings.look(around, connection, reporter.warn)
    return _plan(around, wish, picture)[1]


def apply(
    around: surroundings.Surroundings, wish: Wish, reporter: Reporter
) -> Outcome:
    """Bring the host to its declared state.

    :raises InvalidLibvirtGPUConfig: if the operator has to correct something.
    :raises HostUnreadable: if the host cannot be looked at.
    :raises StateUnusable: if the journal cannot be written.
    :raises Busy: if another run does not end.
    """
    outcome = Outcome()
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
            _perform(around, steps, executor, outcome, reporter, journal)
        journal.end()
        picture = surroundings.look(around, connection, reporter.warn)
        surroundings.remember(around, picture, picture.held.kept.functions)
    return outcome


def restore(
    around: surroundings.Surroundings, reporter: Reporter
) -> Outcome | None:
    """Take back what the last apply did; None if there is nothing.

    :raises Corrupt: if the journal does not tell what that was.
    """
    outcome = Outcome()
    with _alone(around, reporter) as (_, executor):
        journal = journals.Journal(around.state)
        log = journal.read()
        if log.is_restored or not log.steps:
            return None
        executor.look()
        back = [steps.undo(course) for course in log.courses]
        _perform(around, back, executor, outcome, reporter)
        if not outcome.failures:
            journal.mark_restored()
    return outcome


def carry_out(
    around: surroundings.Surroundings,
    decide: Callable[[surroundings.Picture], ByHand],
    reporter: Reporter,
) -> Outcome:
    """Do what an operator asked for by hand.

    :param decide: what that is, on the host as it is now.
    """
    outcome = Outcome()
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
        _perform(around, asked.courses, executor, outcome, reporter)
        picture = surroundings.look(around, connection, reporter.warn)
        if outcome.failures or outcome.refusals:
            functions = dict(former)
        surroundings.remember(around, picture, functions)
    return outcome


@contextlib.contextmanager
def _alone(
    around: surroundings.Surroundings, reporter: Reporter
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
    around: surroundings.Surroundings, reporter: Reporter
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


def _perform(
    around: surroundings.Surroundings,
    found: Iterable[values.Course],
    executor: execution.Executor,
    outcome: Outcome,
    reporter: Reporter,
    journal: journals.Journal | None = None,
) -> None:
    """Take the steps of all GPUs, in turn."""
    executor.look()
    lanes = [_Lane(collections.deque(c.steps)) for c in found]
    while any(lane.steps for lane in lanes):
        is_stuck = True
        for lane in lanes:
            if not lane.steps:
                continue
            step = lane.steps[0]
            if lane.began is None:
                if journal is not None:
                    journal.begin(step)
                reporter.begin(step)
                lane.began = around.now()
            event = _take(around, step, executor, outcome, lane.began)
            if event is None:
                continue
            is_stuck = False
            if journal is not None:
                journal.finish(step, event)
            reporter.finish(step, event)
            lane.go_on(event)
        if is_stuck:
            around.sleep(_PAUSE)


def _take(
    around: surroundings.Surroundings,
    step: values.Step,
    executor: execution.Executor,
    outcome: Outcome,
    began: float,
) -> str | None:
    """Try a step; None if it is not decided yet."""
    try:
        is_done = executor.attempt(step)
    except exception.StepFailed as error:
        outcome.failures.append(Failure(step, error))
        return 'failed'
    except exception.InUse as error:
        outcome.refusals.append(error.refusal)
        return 'refused'
    if is_done:
        outcome.done.append(step)
        return 'done'
    if around.now() - began < around.timeout:
        return None
    outcome.failures.append(Failure(step, _too_late(around, step)))
    return 'failed'


def _too_late(
    around: surroundings.Surroundings, step: values.Step
) -> exception.StepFailed:
    message = f'It did not come about within {around.timeout:g} seconds.'
    if isinstance(step, values.AwaitTypes):
        return exception.StepFailed(
            message,
            'Is the vGPU manager running (systemctl status nvidia-vgpu-mgr), '
            'and does libvirt show the functions (virsh nodedev-list --cap '
            'pci)?',
        )
    return exception.StepFailed(
        message,
        'Something has the GPU open (nvidia-smi, a monitoring agent): stop '
        'it, then run this again.',
    )
