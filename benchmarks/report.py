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
"""What the benchmarks have in common: figures, their table and their plots.

A benchmark measures the same thing twice, with Nova's own driver ("stock") and
with this project ("ours"), in turns within one process, so that a busy machine
slows down both. Only the ratio of the two is worth anything on another
machine. Nothing passes or fails by its time.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import json
import pathlib
import statistics
import sys
import time
import typing

from matplotlib import figure as pictures

STOCK = 'stock'
OURS = 'ours'
_COLOURS = {STOCK: '#b0413e', OURS: '#2f6f8f'}


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """How long something took, and what else it took.

    ``counts`` has libvirt calls, bytes of XML, files read, requests to
    Placement or whatever tells why.
    """

    seconds: float
    counts: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """What is to be reached, on one measurement.

    ``count`` None is about seconds, else about that count: how many times
    more of it stock is to take, at least.
    """

    at_least: float
    count: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """One thing, measured both ways, in one scene.

    ``stock`` None is something that only this project does. ``bars`` is for
    the scene in which they are to be reached; one that is not ``shown`` is a
    point on a curve and not in the table.
    """

    benchmark: str
    what: str
    scene: Mapping[str, typing.Any]
    ours: Figures
    stock: Figures | None = None
    bars: tuple[Bar, ...] = ()
    shown: bool = True

    def ratio(self, count: str | None = None) -> float | None:
        """How many times more stock takes; None if that cannot be said."""
        if self.stock is None:
            return None
        if count is None:
            return self.stock.seconds / self.ours.seconds
        theirs, own = self.stock.counts[count], self.ours.counts[count]
        return theirs / own if own else float('inf')

    def is_reached(self, bar: Bar) -> bool:
        ratio = self.ratio(bar.count)
        return ratio is not None and ratio >= bar.at_least


def tell(line: str) -> None:
    """Say how far it is."""
    print(f'==> {line}', file=sys.stderr, flush=True)


def take_turns(
    bodies: Mapping[str, Callable[[], object]],
    rounds: int,
    prepare: Callable[[str], object] = lambda name: None,
) -> dict[str, float]:
    """Medians in seconds of what is run in turns.

    :param prepare: is run before each body, with its name, and not measured.
    """
    taken: dict[str, list[float]] = {name: [] for name in bodies}
    # One round more: the first one fills caches and is not counted.
    for number in range(rounds + 1):
        for name, body in bodies.items():
            prepare(name)
            began = time.perf_counter()
            body()
            seconds = time.perf_counter() - began
            if number:
                taken[name].append(seconds)
    return {name: statistics.median(times) for name, times in taken.items()}


def make_table(measurements: Iterable[Measurement]) -> str:
    """What was measured, in 100 columns; counts on lines of their own."""
    lines = []
    for benchmark, group in _grouped(measurements).items():
        lines += [
            '',
            benchmark,
            f'  {"":56} {"stock":>12} {"ours":>12} {"ratio":>7}',
        ]
        for each in group:
            scene = ', '.join(f'{k} {v}' for k, v in each.scene.items())
            lines.append(f'  {each.what}')
            ratio = each.ratio()
            times = f'{ratio:7.1f}' if ratio is not None else f'{"":7}'
            lines.append(
                f'    {scene:54} {_milliseconds(each.stock):>12} '
                f'{_milliseconds(each.ours):>12} {times}'
                f'{_verdict(each, None)}'
            )
            lines += [_make_count(each, count) for count in each.ours.counts]
    return '\n'.join(line.rstrip() for line in lines[1:])


def write_json(
    measurements: Iterable[Measurement], path: pathlib.Path
) -> None:
    found = []
    for each in measurements:
        entry = dataclasses.asdict(each)
        entry['ratio'] = each.ratio()
        entry['bars'] = [
            {**dataclasses.asdict(bar), 'reached': each.is_reached(bar)}
            for bar in each.bars
        ]
        found.append(entry)
    path.write_text(json.dumps(found, indent=1) + '\n')


def plot(
    path: pathlib.Path,
    title: str,
    x_label: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    y_label: str = 'milliseconds',
) -> None:
    """A growth curve for each line, on logarithmic axes.

    :param lines: points by the name of the line; what stock and this project
        take have their colours by how the name starts.
    """
    figure = pictures.Figure(figsize=(7, 4.2), layout='tight')
    axes = figure.subplots()
    for name, points in lines.items():
        colour = next(
            (c for start, c in _COLOURS.items() if name.startswith(start)),
            None,
        )
        axes.plot(
            *zip(*sorted(points), strict=True),
            marker='o',
            label=name,
            color=colour,
            linestyle='-' if name in _COLOURS else '--',
        )
    axes.set(
        title=title, xlabel=x_label, ylabel=y_label, xscale='log', yscale='log'
    )
    axes.grid(visible=True, which='both', alpha=0.2)
    axes.legend()
    figure.savefig(path, dpi=110)


def _grouped(
    measurements: Iterable[Measurement],
) -> dict[str, list[Measurement]]:
    groups: dict[str, list[Measurement]] = {}
    for each in measurements:
        if each.shown:
            groups.setdefault(each.benchmark, []).append(each)
    return groups


def _make_count(each: Measurement, count: str) -> str:
    own = f'{each.ours.counts[count]:,.0f}'
    theirs = ''
    if each.stock is not None and count in each.stock.counts:
        theirs = f'{each.stock.counts[count]:,.0f}'
    verdict = _verdict(each, count)
    return f'      {count:52} {theirs:>12} {own:>12} {"":7}{verdict}'


def _verdict(each: Measurement, count: str | None) -> str:
    for bar in each.bars:
        if bar.count == count:
            reached = 'reached' if each.is_reached(bar) else 'NOT reached'
            return f'  bar {bar.at_least:g}: {reached}'
    return ''


def _milliseconds(figures: Figures | None) -> str:
    return f'{figures.seconds * 1000:,.2f} ms' if figures else ''
