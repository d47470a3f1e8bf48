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


"""Whole runs: apply, restore, and manual commands.

A run has the host for itself. It reads the host, decides, and executes the
steps of each GPU; what those uncover is seen when the host is read again.
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
from nova_vgpu.host import locks
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import journal as journals
from nova_vgpu.lifecycle import step_executor
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.plan import mapper
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.reconcile import steps

# What VFs and vGPUs in the way hid is seen when the host is read again, and so
# are mdevs that mdevctl started meanwhile.
_MOST_ROUNDS = 5


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """What an apply would do, and what keeps GPUs from serving before that."""

    gpu_steps: tuple[values.GPUSteps, ...]
    problems: tuple[values.Problem, ...]

    @property
    def steps(self) -> list[values.Step]:
        return [step for of_gpu in self.gpu_steps for step in of_gpu.steps]

    @property
    def outcome(self) -> step_runner.Outcome:
        """What is known of it beforehand.

        A GPU that is made ready may well serve then.
        """
        changed = {step.gpu for step in self.steps}
        return step_runner.Outcome(
            refusals=[r for of_gpu in self.gpu_steps for r in of_gpu.refusals],
            problems=tuple(
                p for p in self.problems if p.subject not in changed
            ),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ManualSteps:
    """What an operator asked for.

    ``keep`` are functions that are to be vGPUs of a type from now on, or not
    any more (None), also after a reboot.
    """

    gpu_steps: tuple[values.GPUSteps, ...]
    keep: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


def plan(
    access: host_access.HostAccess,
    configuration: values.Configuration,
    reporter: step_runner.Reporter,
    gpu: str | None = None,
) -> DryRun:
    """What an apply would do first; nothing is changed.

    :param gpu: the only one that it is about, if it is not about all.
    :raises InvalidLibvirtGPUConfig: if the operator has to correct something.
    :raises HostUnreadable: if the host cannot be read.
    """
    with access.connect() as connection:
        state = host_access.read_state(
            access, connection, reporter.warn, may_put_aside=False
        )
    made, found = _plan(access, configuration, state, gpu)
    return DryRun(found, _problems_of(made, found, gpu))


def apply(
    access: host_access.HostAccess,
    configuration: values.Configuration,
    reporter: step_runner.Reporter,
    gpu: str | None = None,
) -> step_runner.Outcome:
    """Bring the host to its declared state.

    :param gpu: the only one that it is about, if it is not about all.
    :raises InvalidLibvirtGPUConfig: if the operator has to correct something.
    :raises HostUnreadable: if the host cannot be read.
    :raises StateUnusable: if the journal cannot be written.
    :raises BusyError: if another run does not end.
    """
    outcome = step_runner.Outcome()
    with _exclusive(access, reporter) as (connection, executor):
        journal = _open_journal(access, reporter)
        unfinished = journal.read().unfinished
        late: list[values.Refusal] = []
        undone: set[str] = set()
        for rounds_left in reversed(range(_MOST_ROUNDS)):
            state = host_access.read_state(
                access, connection, reporter.warn, unfinished
            )
            made, found = _plan(access, configuration, state, gpu)
            undone.update(state.usage.unfinished, _list_started(found))
            # Here: a GPU that is full in the end may name its types no more.
            configuration = _with_names_of(configuration, state.host)
            stopped = {failure.step.gpu for failure in outcome.failures}
            stopped.update(refusal.gpu for refusal in late)
            steps = [c for c in found if c.steps and c.gpu not in stopped]
            outcome.refusals = [r for c in found for r in c.refusals] + late
            outcome.problems = _without_told(
                _problems_of(made, found, gpu), stopped
            )
            if not steps:
                break
            early = len(outcome.refusals)
            _remember_what_goes(access, state, steps)
            step_runner.execute(
                access,
                steps,
                executor,
                outcome,
                reporter,
                journal,
                is_replanned=rounds_left > 0,
            )
            late += outcome.refusals[early:]
        else:
            reporter.warn('Not converged yet; run apply again.')
        if not outcome.failures and gpu is None:
            undone.clear()  # what was not made is not wanted any more
        left = frozenset(undone)
        # First: if it is killed now, the journal knows as well.
        state = host_access.read_state(access, connection, reporter.warn, left)
        functions = state.usage.records.functions
        host_access.remember(access, state, functions, left)
        host_access.remember_types(
            access, configuration.type_names, reporter.warn
        )
        host_access.remember_gpus(access, configuration, state.host)
        journal.end()
    return outcome


def restore(
    access: host_access.HostAccess, reporter: step_runner.Reporter
) -> step_runner.Outcome | None:
    """Take back what the last apply did; None if there is nothing.

    :raises StateDamaged: if the journal does not tell what that was.
    """
    outcome = step_runner.Outcome()
    with _exclusive(access, reporter) as (_, executor):
        journal = journals.Journal(access.state)
        log = journal.read()
        if log.is_restored or not log.steps:
            return None
        executor.is_undoing = True
        back = [steps.undo(of_gpu) for of_gpu in log.gpu_steps]
        step_runner.execute(
            access,
            back,
            executor,
            outcome,
            reporter,
            stops_at=('failed', 'refused'),
        )
        if not outcome.failures and not outcome.refusals:
            journal.mark_restored()
    return outcome


def execute(
    access: host_access.HostAccess,
    decide: Callable[[host_access.HostState], ManualSteps],
    reporter: step_runner.Reporter,
) -> step_runner.Outcome:
    """Execute what an operator asked for by hand.

    :param decide: what that is, on the host as it is now.
    """
    outcome = step_runner.Outcome()
    with _exclusive(access, reporter) as (connection, executor):
        state = host_access.read_state(access, connection, reporter.warn)
        executor.read_host()
        asked = decide(state)
        former = state.usage.records.functions
        functions = dict(former)
        for address, type_name in asked.keep.items():
            functions.pop(address, None)
            if type_name is not None:
                functions[address] = type_name
        if asked.keep:
            # First: if it is killed now, the next apply does the rest.
            host_access.remember(access, state, functions)
        step_runner.execute(
            access, asked.gpu_steps, executor, outcome, reporter
        )
        state = host_access.read_state(access, connection, reporter.warn)
        if outcome.failures or outcome.refusals:
            functions = dict(former)
        host_access.remember(access, state, functions)
    return outcome


@contextlib.contextmanager
def _exclusive(
    access: host_access.HostAccess, reporter: step_runner.Reporter
) -> Iterator[tuple[typing.Any, step_executor.Executor]]:
    with (
        locks.hold_apply(
            access.state.path, access.timeout * 5, reporter.warn
        ) as lock,
        access.connect() as connection,
    ):
        for process in access.list_unshared():
            reporter.warn(
                f'nova-compute (process {process}) does not share the locks '
                f'in {access.locks}: a vGPU that it has just chosen for a '
                'server may be removed. Let both have one directory at '
                '[oslo_concurrency]lock_path: set it in the nova.conf that '
                'this command reads, and mount it into the container of '
                'nova-compute.'
            )
        yield (
            connection,
            step_executor.Executor(access, connection, lock, reporter.warn),
        )


def _list_started(found: Iterable[values.GPUSteps]) -> Iterator[str]:
    """The mdevs that are to be there, and are not."""
    for of_gpu in found:
        for step in of_gpu.steps:
            if isinstance(step, values.SetMdev) and step.after.is_started:
                yield step.uuid


def _remember_what_goes(
    access: host_access.HostAccess,
    state: host_access.HostState,
    found: Iterable[values.GPUSteps],
) -> None:
    """Keep mdevs that are removed, perhaps to be made again.

    If the run is killed between the two, nothing else knows of them.
    """
    if any(
        isinstance(step, values.SetMdev)
        and step.after is values.MdevState.ABSENT
        for of_gpu in found
        for step in of_gpu.steps
    ):
        host_access.remember(access, state, state.usage.records.functions)


def _open_journal(
    access: host_access.HostAccess, reporter: step_runner.Reporter
) -> journals.Journal:
    """The journal; one that makes no sense is put aside.

    The host must come up also if it is broken. What it said is lost to
    ``restore``, not to the operator.
    """
    journal = journals.Journal(access.state)
    try:
        journal.read()
    except exception.StateDamaged as error:
        aside = journal.set_aside()
        reporter.warn(f'{error} It is {aside} now; a new one is begun.')
    return journal


def _plan(
    access: host_access.HostAccess,
    configuration: values.Configuration,
    state: host_access.HostState,
    gpu: str | None,
) -> tuple[values.Plan, tuple[values.GPUSteps, ...]]:
    made = mapper.make_plan(
        configuration.plan_input(state.host, access.read_modes(state.host))
    )
    mapper.require_valid(made)
    if gpu is not None:
        _require_declared(made, gpu)
    found = gpu_steps.plan_steps(
        made,
        type_matching.list_type_names(state.host),
        state.usage,
        policy.for_apply(configuration.declaration.creation),
        access.new_uuid,
    )
    return made, tuple(c for c in found if gpu in (None, c.gpu))


def _with_names_of(
    configuration: values.Configuration, host: values.Host
) -> values.Configuration:
    """The configuration with what ids of types mean now."""
    return dataclasses.replace(
        configuration,
        type_names=type_matching.list_names_to_store(
            configuration.type_names, host, configuration.declaration
        ),
    )


def _require_declared(made: values.Plan, gpu: str) -> None:
    for left in made.left_alone:
        if str(left.gpu) == gpu:
            raise exception.UsageError(
                f'GPU {gpu} is left alone: {left.why}. "nova-vgpu plan" shows '
                'what is declared.'
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
    made: values.Plan, found: Iterable[values.GPUSteps], gpu: str | None
) -> tuple[values.Problem, ...]:
    """What keeps the GPUs in question from serving.

    That vGPUs are in the way is said by refusing to touch them.
    """
    others = {str(each) for each in made.gpus} - {gpu}
    refused = {of_gpu.gpu for of_gpu in found if of_gpu.refusals}
    return tuple(
        problem
        for problem in made.problems_of(values.Severity.ERROR)
        if problem.subject not in refused
        and (gpu is None or problem.subject not in others)
    )
