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

"""What the agent has to say about a host.

A finding is a line of text. What was there in the round before as well is not
said again; what is not there any more is said once. So the log has a line for
each change, and none for a host that stays as it is, be it good or bad.
"""

import dataclasses

from nova_vgpu import values

_GONE = 'resolved: '
_LONGEST_PAUSE = 3600.0


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


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """When to repair again after a repair that failed.

    A repair that fails costs something: the vendor's program takes the GPU
    from its driver for a while. Each failure doubles the pause, and the events
    that the attempt itself caused do not shorten it.
    """

    failures: int = 0
    not_before: float = 0.0

    def after(self, failed: bool, now: float, interval: float) -> 'Backoff':
        """What it is after an attempt."""
        if not failed:
            return Backoff()
        pause = interval * 2 ** min(self.failures, 16)
        pause = min(pause, max(interval, _LONGEST_PAUSE))
        return Backoff(self.failures + 1, now + pause)
