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


"""What an apply did, written down before it is done.

One line of JSON for each event. A step is on the disk before the host is
touched, so that whatever happened to the host is in the journal: a step that
was begun and has no end may be done, half done or not done. An apply that was
cut off goes on in the same journal, so that the way back leads to before the
first of them::

    {"event": "apply", "time": "2026-03-01T12:00:00+00:00"}
    {"event": "begin", "step": {"kind": "SetVFs", "gpu": "0000:41:00.0", ...}}
    {"event": "done", "step": ...}    or "failed", or "refused"
    {"event": "end"}
    {"event": "restored"}
"""

import dataclasses
import datetime
import json
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state

FILE = 'journal'

_KINDS: dict[str, type[typing.Any]] = {
    kind.__name__: kind
    for kind in (
        values.RepairDriver,
        values.SetVFs,
        values.AwaitTypes,
        values.SetMigMode,
        values.SetGPUInstances,
        values.SetHeterogeneous,
        values.SetVFProfile,
        values.SetType,
        values.SetMdev,
    )
}
_OF_STEPS = frozenset({'begin', 'done', 'failed', 'refused'})
_EVENTS = _OF_STEPS | {'apply', 'end', 'restored'}


@dataclasses.dataclass(frozen=True, slots=True)
class Log:
    """What the journal says: steps in the order in which they were begun."""

    steps: tuple[values.Step, ...] = ()
    is_open: bool = False
    is_restored: bool = False
    #: The lines that count, without what a power cut left of the last one.
    lines: tuple[str, ...] = ()

    @property
    def unfinished(self) -> frozenset[str]:
        """The mdevs that a run which was cut off removed or meant to start.

        What it removed may be what it was to make again.
        """
        return frozenset(
            step.uuid
            for step in self.steps
            if self.is_open
            and isinstance(step, values.SetMdev)
            and step.after is not values.MdevState.DEFINED
        )

    @property
    def gpu_steps(self) -> tuple[values.GPUSteps, ...]:
        """The steps by GPU."""
        by_gpu: dict[str, list[values.Step]] = {}
        for step in self.steps:
            by_gpu.setdefault(step.gpu, []).append(step)
        return tuple(values.GPUSteps(g, tuple(s)) for g, s in by_gpu.items())


class Journal:
    """The journal of the last apply."""

    def __init__(self, directory: state.StateDirectory) -> None:
        self._state = directory
        self._is_begun = False

    def read(self) -> Log:
        """What is written.

        :raises StateDamaged: if it cannot be understood.
        :raises StateUnusable: if it cannot be read.
        """
        text = self._state.read(FILE)
        return parse(text or '', f'{self._state.path}/{FILE}')

    def set_aside(self) -> str:
        """Put a journal that makes no sense out of the way."""
        return self._state.set_aside(FILE, '.corrupt')

    def begin(self, step: values.Step) -> None:
        """Write down what will be done next."""
        if not self._is_begun:
            log = self.read()
            lines = log.lines if log.is_open else ()
            now = datetime.datetime.now(datetime.UTC)
            time = now.isoformat(timespec='seconds')
            self._rewrite(lines, {'event': 'apply', 'time': time})
            self._is_begun = True
        self._write('begin', step)

    def finish(self, step: values.Step, event: str) -> None:
        """Write down what became of it: done, failed or refused."""
        self._write(event, step)

    def end(self) -> None:
        """Nothing more will be done; an apply that did nothing is none."""
        if self._is_begun:  # so its last line is whole
            self._state.append(FILE, json.dumps({'event': 'end'}))
            return
        log = self.read()
        if log.is_open:
            self._rewrite(log.lines, {'event': 'end'})

    def mark_restored(self) -> None:
        """All that it says was taken back."""
        self._rewrite(self.read().lines, {'event': 'restored'})

    def _rewrite(
        self, lines: tuple[str, ...], entry: dict[str, typing.Any]
    ) -> None:
        """Add an entry to a journal whose last line may not be whole."""
        lines = (*lines, json.dumps(entry))
        self._state.replace(FILE, ''.join(f'{line}\n' for line in lines))

    def _write(self, event: str, step: values.Step) -> None:
        entry = {'event': event, 'step': dump_step(step)}
        self._state.append(FILE, json.dumps(entry))


def parse(text: str, path: str) -> Log:
    """Understand a journal.

    :raises StateDamaged: unless only the last line is not whole.
    """
    lines = text.splitlines()
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(_parse_line(line))
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break
            raise exception.StateDamaged(
                f'{path} is broken in line {number}: {error}.'
            ) from error
    events = [event for event, _ in entries]
    begun: list[values.Step] = []
    for event, step in entries:
        if step is not None and event == 'begin':
            begun.append(step)
        elif step is not None and event == 'refused' and step in begun:
            begun.remove(step)  # nothing was done
    return Log(
        tuple(begun),
        bool(events) and events[-1] not in ('end', 'restored'),
        'restored' in events,
        tuple(lines[: len(entries)]),
    )


def find_last_apply(log: Log) -> float | None:
    """When the last apply began, in seconds since the epoch."""
    for line in reversed(log.lines):
        entry = json.loads(line)
        if entry['event'] == 'apply':
            try:
                return datetime.datetime.fromisoformat(
                    entry['time']
                ).timestamp()
            except (KeyError, TypeError, ValueError):
                return None  # written by hand
    return None


def dump_step(step: values.Step) -> dict[str, typing.Any]:
    """A step in the words of the journal."""
    found: dict[str, typing.Any] = {'kind': type(step).__name__}
    for field in dataclasses.fields(step):
        value = getattr(step, field.name)
        is_state = isinstance(value, values.MdevState)
        found[field.name] = value.value if is_state else value
    return found


def load_step(found: typing.Any) -> values.Step:
    """The step that the journal means.

    :raises ValueError: if that is none.
    """
    if not isinstance(found, dict) or found.get('kind') not in _KINDS:
        raise ValueError('no step of a known kind')
    kind = _KINDS[found['kind']]
    wanted = {field.name: field.type for field in dataclasses.fields(kind)}
    if found.keys() - {'kind'} != wanted.keys():
        raise ValueError(f'{found["kind"]} with other fields than it has')
    loaded: dict[str, typing.Any] = {}
    for name, kind_of_field in wanted.items():
        value = found[name]
        if kind_of_field is values.MdevState:
            value = values.MdevState(value)
        elif type(value) is not kind_of_field or (
            kind_of_field is int and value < 0
        ):
            raise ValueError(f'{name} is {value!r}')
        loaded[name] = value
    step: values.Step = kind(**loaded)
    return step


def _parse_line(line: str) -> tuple[str, values.Step | None]:
    entry = json.loads(line)
    if not isinstance(entry, dict) or entry.get('event') not in _EVENTS:
        raise ValueError('no event of a known kind')
    event = entry['event']
    step = load_step(entry.get('step')) if event in _OF_STEPS else None
    return event, step
