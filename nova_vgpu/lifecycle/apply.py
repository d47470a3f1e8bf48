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
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import locks
from nova_vgpu.lifecycle import drift
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import journal as journals
from nova_vgpu.lifecycle import step_executor
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.plan import mapper
from nova_vgpu.plan import mig_problems
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching
from nova_vgpu.plan import vf_profiles
from nova_vgpu.reconcile import way_back

# What VFs and vGPUs in the way hid is seen when the host is read again, and so
# are mdevs that mdevctl started meanwhile.
_MOST_ROUNDS = 5
# Problems whose cure is a step: if it fails, that says why.
_OBSTACLES = readiness.OBSTACLES | vf_profiles.OBSTACLES


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """What an apply would do, and what is known of its outcome before."""

    steps: tuple[values.Step, ...]
    outcome: step_runner.Outcome


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
        report = _read(
            access, connection, configuration, reporter, gpu, may_change=False
        )
    _warn_of_unknown(report, reporter, gpu)
    # A GPU that is made ready may well serve then, but not in a MIG mode that
    # is not switched.
    changed = {step.gpu for step in report.steps}
    lasting = mig_problems.MODE_CODES
    if configuration.declaration.switches_mig_mode:
        lasting = frozenset()
    problems = tuple(
        p
        for p in _list_problems(report, gpu)
        if p.subject not in changed or p.code in lasting
    )
    return DryRun(
        report.steps,
        step_runner.Outcome(refusals=[*report.refusals], problems=problems),
    )


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
        journal, unfinished = _open_journal(access, reporter)
        undone: set[str] = set()
        rounds = 0
        while True:
            report = _read(
                access, connection, configuration, reporter, gpu, unfinished
            )
            # Here: a GPU that is full in the end may name its types no more.
            configuration = _with_names_of(configuration, report.host)
            mdevs = [s for s in report.steps if isinstance(s, values.SetMdev)]
            started = (s.uuid for s in mdevs if s.after.is_started)
            undone.update(report.usage.unfinished, started)
            stopped = outcome.stopped
            left = [
                of_gpu
                for of_gpu in report.gpu_steps
                if of_gpu.steps and of_gpu.gpu not in stopped
            ]
            if not left or rounds == _MOST_ROUNDS:
                break
            rounds += 1
            if any(s.after is values.MdevState.ABSENT for s in mdevs):
                # If it is killed now, nothing else knows what they were.
                host_access.remember(access, report.host, report.usage)
            executor.vgpus.host = report.host
            step_runner.execute(
                *(access, left, executor, outcome, reporter, journal),
                is_replanned=rounds < _MOST_ROUNDS,
            )
        if left:
            reporter.warn('Not converged yet; run apply again.')
        _warn_of_unknown(report, reporter, gpu)
        said = _OBSTACLES
        if configuration.declaration.switches_mig_mode:
            said |= mig_problems.MODE_CODES
        outcome.problems = _list_problems(report, gpu, stopped, said)
        outcome.refusals[:0] = report.refusals
        if not outcome.failures and gpu is None:
            undone.clear()  # what was not made is not wanted any more
        host_access.remember(
            access, report.host, report.usage, undone=frozenset(undone)
        )
        host_access.remember_declared(
            access, configuration, report.host, reporter.warn
        )
        journal.end()  # last: if it is killed before, the journal knows
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
        host = executor.vgpus.read_host()
        back = [way_back.plan(of_gpu, host) for of_gpu in log.gpu_steps]
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
        executor.vgpus.host = state.host
        asked = decide(state)
        former = state.usage.records.functions
        functions = dict(former)
        for address, type_name in asked.keep.items():
            functions.pop(address, None)
            if type_name is not None:
                functions[address] = type_name
        if asked.keep:
            # First: if it is killed now, the next apply does the rest.
            host_access.remember(access, state.host, state.usage, functions)
        step_runner.execute(
            access, asked.gpu_steps, executor, outcome, reporter
        )
        state = host_access.read_state(access, connection, reporter.warn)
        if outcome.failures or outcome.refusals:
            functions = dict(former)
        host_access.remember(access, state.host, state.usage, functions)
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


def _open_journal(
    access: host_access.HostAccess, reporter: step_runner.Reporter
) -> tuple[journals.Journal, frozenset[str]]:
    """The journal, and the mdevs that a run which was cut off leaves.

    A journal that makes no sense is put aside: the host must come up also if
    it is broken. What it said is lost to ``restore``, not to the operator.
    """
    journal = journals.Journal(access.state)
    try:
        return journal, journal.read().unfinished
    except exception.StateDamaged as error:
        aside = journal.set_aside()
        reporter.warn(f'{error} It is {aside} now; a new one is begun.')
        return journal, frozenset()


def _read(
    access: host_access.HostAccess,
    connection: typing.Any,
    configuration: values.Configuration,
    reporter: step_runner.Reporter,
    gpu: str | None,
    unfinished: frozenset[str] = frozenset(),
    may_change: bool = True,
) -> values.DriftReport:
    """The host and the steps of the GPUs in question."""
    report = drift.read(
        access,
        connection,
        configuration,
        reporter.warn,
        access.new_uuid,
        unfinished,
        may_change,
    )
    mapper.require_valid(report.plan)
    for left in report.plan.left_alone:
        if str(left.gpu) == gpu:
            raise exception.UsageError(
                f'GPU {gpu} is left alone: {left.why}. "nova-vgpu plan" shows '
                'what is declared.'
            )
    found = tuple(c for c in report.gpu_steps if gpu in (None, c.gpu))
    return dataclasses.replace(report, gpu_steps=found)


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


def _list_problems(
    report: values.DriftReport,
    gpu: str | None,
    stopped: Container[str] = (),
    said: Container[str] = (),
) -> tuple[values.Problem, ...]:
    """What keeps the GPUs in question from serving.

    That vGPUs are in the way is said by refusing to touch them, and why a step
    failed by the failure: the cure of an obstacle is the step.

    :param stopped: GPUs with a step that failed or was refused.
    :param said: the codes of problems that are said by that.
    """
    others = {str(each) for each in report.plan.gpus} - {gpu}
    refused = {refusal.gpu for refusal in report.refusals}
    return tuple(
        problem
        for problem in report.plan.problems_of(values.Severity.ERROR)
        if problem.subject not in refused
        and (gpu is None or problem.subject not in others)
        and (problem.subject not in stopped or problem.code not in said)
    )


def _warn_of_unknown(
    report: values.DriftReport,
    reporter: step_runner.Reporter,
    gpu: str | None,
) -> None:
    """MIG modes that are not switched because they are not known."""
    for problem in report.plan.problems:
        is_asked = gpu is None or problem.subject == gpu
        if problem.code == mig_problems.UNKNOWN and is_asked:
            reporter.warn(str(problem))
