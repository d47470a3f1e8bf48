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


"""The GPUs of a host take their steps in turn.

One whose types are not there yet, or that something holds for the moment, is
asked again later, and one that fails takes no further step; neither holds up
the others.
"""

import collections
from collections.abc import Container
from collections.abc import Iterable
import dataclasses
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import journal as journals
from nova_vgpu.lifecycle import step_executor
from nova_vgpu.reconcile import steps

_PAUSE = 0.5

#: What becomes of a step that does not fit the host any more.
PUT_OFF = 'put off'


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

    @property
    def stopped(self) -> frozenset[str]:
        """The GPUs with a step that failed or was refused."""
        failed = (failure.step.gpu for failure in self.failures)
        return frozenset(failed).union(r.gpu for r in self.refusals)


@dataclasses.dataclass(slots=True)
class _GPURun:
    """The steps that a GPU has before it, and since when it tries."""

    steps: collections.deque[values.Step]
    began: float | None = None

    def go_on(self, event: str, stops_at: Container[str]) -> None:
        step = self.steps.popleft()
        self.began = None
        # What servers have fits without it; the rest will fail by itself.
        is_optional = isinstance(step, values.SetHeterogeneous) or (
            isinstance(step, values.SetGPUInstances)
            and step.after > step.before
        )
        # Without its driver, its functions or profiles, nothing goes on.
        is_base = isinstance(
            step,
            values.RepairDriver
            | values.SetVFs
            | values.SetMigMode
            | values.SetGPUInstances
            | values.SetVFProfile,
        )
        if (
            event == PUT_OFF
            or (event in stops_at and not is_optional)
            or (event == 'refused' and is_base)
        ):
            self.steps.clear()


class Reporter(typing.Protocol):
    """Who is told of what happens, while it does."""

    def warn(self, text: str) -> None: ...

    def begin(self, step: values.Step) -> None: ...

    def finish(self, step: values.Step, event: str) -> None: ...


def execute(
    access: host_access.HostAccess,
    found: Iterable[values.GPUSteps],
    executor: step_executor.Executor,
    outcome: Outcome,
    reporter: Reporter,
    journal: journals.Journal | None = None,
    stops_at: Container[str] = ('failed',),
    is_replanned: bool = False,
) -> None:
    """Execute the steps of all GPUs, in turn.

    :param stops_at: what becomes of a step after which no further one of its
        GPU is tried.
    :param is_replanned: whether the host is read again after this: then
        a step that does not fit the host any more is not a failure.
    """
    runs = [_GPURun(collections.deque(c.steps)) for c in found]
    executor.vgpus.recreated = frozenset(
        steps.vgpu_in(step)
        for run in runs
        for step in run.steps
        if isinstance(step, steps.VGPUStep) and steps.creates(step)
    )
    while any(run.steps for run in runs):
        is_stuck = True
        for run in runs:
            if not run.steps:
                continue
            step = run.steps[0]
            if run.began is None:
                if journal is not None:
                    journal.begin(step)
                reporter.begin(step)
                run.began = access.now()
            event = _take(
                access, step, executor, outcome, run.began, is_replanned
            )
            if event is None:
                continue
            is_stuck = False
            if journal is not None:
                # The last failure is that of this step, if it failed.
                is_untouched = event == PUT_OFF or (
                    event == 'failed'
                    and isinstance(
                        outcome.failures[-1].error, exception.PlanOutdated
                    )
                )
                journal.finish(step, 'refused' if is_untouched else event)
            reporter.finish(step, event)
            run.go_on(event, stops_at)
        if is_stuck:
            access.sleep(_PAUSE)


def _take(
    access: host_access.HostAccess,
    step: values.Step,
    executor: step_executor.Executor,
    outcome: Outcome,
    began: float,
    is_replanned: bool,
) -> str | None:
    """Try a step; None if it is not decided yet."""
    is_done = False
    try:
        is_done = executor.attempt(step)
    except exception.StepFailed as error:
        if is_replanned and isinstance(error, exception.PlanOutdated):
            return PUT_OFF
        outcome.failures.append(Failure(step, error))
        return 'failed'
    except exception.InUseError as error:
        outcome.refusals.append(error.refusal)
        return 'refused'
    except (exception.BusyError, exception.HostUnreadable) as error:
        # Others, or libvirt, in the midst of something.
        if not isinstance(step, values.AwaitTypes):
            failed = exception.StepFailed(str(error), 'Run it again.')
            outcome.failures.append(Failure(step, failed))
            return 'failed'
    if is_done:
        outcome.done.append(step)
        return 'done'
    if access.now() - began < access.timeout:
        return None
    outcome.failures.append(Failure(step, _too_late(access, step)))
    return 'failed'


def _too_late(
    access: host_access.HostAccess, step: values.Step
) -> exception.StepFailed:
    message = f'Timed out after {access.timeout:g} s.'
    if isinstance(step, values.AwaitTypes):
        return exception.StepFailed(
            message,
            'Is the vGPU manager running (systemctl status nvidia-vgpu-mgr), '
            'and does libvirt show the functions (virsh nodedev-list --cap '
            'pci)?',
        )
    if isinstance(step, values.SetMigMode):
        return exception.StepFailed(
            message,
            'Something has the GPU open (nvidia-smi, a monitoring agent): '
            'stop it, then run this again.',
        )
    return exception.StepFailed(
        message,
        'Either something has the GPU open (nvidia-smi, a monitoring agent): '
        'stop it, then run this again. Or the kernel does not show the VFs '
        'as they were set: see its log (journalctl -k).',
    )
