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

"""The agent: reads the host again and again.

::

    configuration -> read -> what is new? -> say it -> metrics -> wait
                       |                                 ^
                       +-> repair, if it is told to -----+

A round that fails is said once, and the next one comes as usual. A repair is
an apply: it does what is declared, and leaves alone what a guest has.
"""

from collections.abc import Callable
import dataclasses
import time

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import locks
from nova_vgpu.host import systemd
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import drift_report as drift_reports
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import tally
from nova_vgpu.lifecycle import waiting
from nova_vgpu.reconcile import drift

Prepare = Callable[[], tuple[host_access.HostAccess, values.Configuration]]
Show = Callable[[values.DriftReport | None, tally.Tally], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How often to read the host, in seconds, and whether to repair."""

    interval: float = 30.0
    enforce: bool = False


class Agent:
    """Keeps an eye on one host until it is told to stop.

    :param prepare: reads the configuration, in every round.
    :param say: takes a line for the log.
    :param show: takes what monitoring shows.
    """

    def __init__(
        self,
        prepare: Prepare,
        settings: Settings,
        waiter: waiting.Waiter,
        notifier: systemd.Notifier,
        say: Callable[[str], None],
        show: Show,
    ) -> None:
        self._prepare = prepare
        self._settings = settings
        self._waiter = waiter
        self._notifier = notifier
        self._say = say
        self._show = show
        self._is_ready = False
        self._report: values.DriftReport | None = None
        self._configuration: values.Configuration | None = None
        self._patience = drift.Backoff()
        self._tally = tally.Tally()
        # What was said of each, so that it is not said again.
        self._findings: tuple[str, ...] = ()
        self._failure: tuple[str, ...] = ()
        self._undone: tuple[str, ...] = ()

    def run(self) -> None:
        """Go round and round, until the waiter is told to stop."""
        try:
            while True:
                self._go_round()
                if self._waiter.wait(self._settings.interval):
                    self._say('reload: reading the configuration and the host')
        except waiting.Stopped:
            self._notifier.stopping()
            self._say('stopped')

    def _go_round(self) -> None:
        failure: tuple[str, ...] = ()
        try:
            access, configuration = self._read()
            if self._is_repair_due(access.now()):
                self._repair(access, configuration)
        except exception.NovaVGPUError as error:
            failure = (' '.join(f'failed: {error}'.split()),)
        self._tell(self._failure, failure)
        self._failure = failure
        self._tally = dataclasses.replace(
            self._tally,
            rounds=self._tally.rounds + 1,
            failures=self._tally.failures + len(failure),
            is_failing=bool(failure),
        )
        self._publish(failure)

    def _read(self) -> tuple[host_access.HostAccess, values.Configuration]:
        self._report = None  # what is not known is not shown
        access, configuration = self._prepare()
        seen = drift_reports.read(access, configuration, self.warn)
        self._report = seen
        self._tally = dataclasses.replace(self._tally, last_round=time.time())
        findings = drift.list_findings(seen)
        self._tell(self._findings, findings)
        self._findings = findings
        if configuration != self._configuration or not seen.steps:
            self._patience = drift.Backoff()
        if not seen.steps:
            self._tell(self._undone, ())
            self._undone = ()
        self._configuration = configuration
        return access, configuration

    def _is_repair_due(self, now: float) -> bool:
        return (
            self._settings.enforce
            and self._report is not None
            and bool(self._report.steps)
            and now >= self._patience.not_before
        )

    def _repair(
        self,
        access: host_access.HostAccess,
        configuration: values.Configuration,
    ) -> None:
        # A repair can take minutes; systemd need not wait for the first one.
        self._publish(self._failure)
        _require_idle(access)

        def sleep(seconds: float) -> None:
            self._waiter.require_going_on()
            access.sleep(seconds)

        is_better = False
        try:
            outcome = apply.apply(
                dataclasses.replace(access, sleep=sleep), configuration, self
            )
            undone = tuple(f'failed: {f}' for f in outcome.failures)
            self._tell(self._undone, undone)
            self._undone = undone
            self._read()
            is_better = self._report is not None and not self._report.steps
        finally:
            self._patience = self._patience.after(
                not is_better, access.now(), self._settings.interval
            )

    def _tell(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        for line in drift.list_news(before, after):
            self._say(line)

    def _publish(self, failure: tuple[str, ...]) -> None:
        """Tell systemd and monitoring how things are."""
        self._show(self._report, self._tally)
        status = ', '.join(failure)
        if not status and self._report is not None:
            status = drift.summarise(self._report)
        if self._is_ready:
            self._notifier.status(status)
        else:
            self._notifier.ready(status)
            self._is_ready = True

    # -- what step_runner.Reporter asks for ---------------------------------

    def warn(self, text: str) -> None:
        self._say(f'warning: {text}')

    def begin(self, step: values.Step) -> None:
        """Before a step is taken: the last place where none need be.

        The journal has it as begun by now, and the next apply goes on there.
        """
        self._waiter.require_going_on()

    def finish(self, step: values.Step, event: str) -> None:
        counts = dict(self._tally.steps)
        counts[event] = counts.get(event, 0) + 1
        self._tally = dataclasses.replace(
            self._tally, steps=tuple(counts.items())
        )
        if event == 'done':
            self._say(f'done: GPU {step.gpu}: {step}')


def _require_idle(access: host_access.HostAccess) -> None:
    """Refuse to stand in line behind another command.

    :raises BusyError: if one is at work.
    """
    try:
        with locks.hold_apply(access.state.path, 0.0, lambda _text: None):
            pass
    except exception.BusyError as error:
        raise exception.BusyError(
            'Another command is at work on this host. Nothing is repaired '
            'until it ends.'
        ) from error
