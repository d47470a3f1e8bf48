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

"""The inventory of one host: what nova-compute finds out every minute.

First of a host of which nothing is known, then of one that is as it was, then
of one where a vGPU came or went behind the driver's back.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import itertools
import pathlib
import tracemalloc
import typing

from benchmarks import drivers
from benchmarks import fake_libvirt
from benchmarks import machines
from benchmarks import report
from nova_vgpu.sandbox import host as simulation

FIRST = 'first'
UNCHANGED = 'unchanged'
CHANGED = 'one vGPU more or less'
_MEMORY = 'peak memory (bytes)'
_CALLS = 'libvirt calls'
_WRITES = 'providers changed'

#: What is to be reached on the largest host, half of whose VFs are used.
_BARS = {
    FIRST: (report.Bar(2.5), report.Bar(2, _MEMORY)),
    UNCHANGED: (report.Bar(50),),
    CHANGED: (report.Bar(20), report.Bar(50, _CALLS)),
}
_LARGEST = machines.Size()


def run(directory: pathlib.Path, quick: bool) -> list[report.Measurement]:
    """Measure, and plot into a directory."""
    found: list[report.Measurement] = []
    for size in _list_sizes(quick):
        report.tell(f'inventory: {size}')
        with machines.machine(size) as machine:
            fake = fake_libvirt.FakeLibvirt(machine)
            for title, connect in (
                ('libvirt', machine.connect),
                ('fake libvirt', lambda fake=fake: fake),
            ):
                found += _measure(machine, title, connect, quick)
    _plot(directory, found)
    return found


def _list_sizes(quick: bool) -> Iterator[machines.Size]:
    if quick:
        yield machines.Size(2, 4, 8)
        yield machines.Size(4, 8, 8)
        return
    for size in itertools.product(
        (1, 8, 16), (1, 16, 48), (8, 23), (0, 0.5, 1)
    ):
        yield machines.Size(*size)


def _measure(
    machine: machines.Machine,
    title: str,
    connect: Callable[[], typing.Any],
    quick: bool,
) -> Iterator[report.Measurement]:
    sides = {
        name: drivers.Side(name, machine, connect)
        for name in (report.STOCK, report.OURS)
    }
    is_fake, is_largest = title != 'libvirt', machine.size == _LARGEST
    rounds = 2 if quick else 9 if is_largest else 3
    for what in (FIRST, UNCHANGED, CHANGED):
        if what == CHANGED and is_fake:
            continue  # the fake is there for what makes vGPUs
        seconds = _take_turns(machine, sides, what, rounds)
        figures = {
            name: report.Figures(
                seconds[name], _count(machine, sides[name], what)
            )
            for name in sides
        }
        yield report.Measurement(
            'inventory',
            f'{what}, {title}',
            machine.size.scene(),
            figures[report.OURS],
            figures[report.STOCK],
            _BARS[what] if is_largest and not is_fake else (),
            shown=is_largest or quick,
        )


def _take_turns(
    machine: machines.Machine,
    sides: Mapping[str, drivers.Side],
    what: str,
    rounds: int,
) -> dict[str, float]:
    def prepare(name: str) -> None:
        if what == FIRST:
            sides[name].start()
        elif what == CHANGED and name == report.STOCK:
            _toggle(machine)  # for both: ours comes after it
            machine.connect()

    return report.take_turns(
        {name: side.update for name, side in sides.items()}, rounds, prepare
    )


def _toggle(machine: machines.Machine) -> None:
    """Let the last vGPU of the first GPU come, or go."""
    gpu = machine.host.gpus[0]
    last = gpu.vfs - 1
    made = tuple(created for created in gpu.pinned() if created.vf != last)
    if len(made) == len(gpu.created):
        made = (*made, simulation.Created(machines.TYPE, last))
    machine.replace(0, dataclasses.replace(gpu, created=made))


def _count(
    machine: machines.Machine, side: drivers.Side, what: str
) -> dict[str, float]:
    """What an update asks for, in a run of its own."""
    counts: dict[str, float] = {}
    if what == FIRST:
        counts[_MEMORY] = _measure_memory(side)
        side.start()
    elif what == CHANGED:
        side.update()
        _toggle(machine)
    with drivers.counted(side, counts):
        counts[_WRITES] = side.count_changes()
    return counts


def _measure_memory(side: drivers.Side) -> int:
    side.start()
    tracemalloc.start()
    try:
        side.update()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _plot(directory: pathlib.Path, found: list[report.Measurement]) -> None:
    """How the time grows with the number of functions."""
    most = max(each.scene['types'] for each in found)
    for what in (FIRST, UNCHANGED, CHANGED):
        lines: dict[str, list[tuple[float, float]]] = {}
        for each in found:
            scene = each.scene
            if (
                each.what == f'{what}, libvirt'
                and each.stock is not None
                and scene['types'] == most
                and scene['used'] == '50%'
            ):
                functions = scene['GPUs'] * (1 + scene['VFs'])
                for name, figures in (
                    (report.STOCK, each.stock),
                    (report.OURS, each.ours),
                ):
                    lines.setdefault(name, []).append(
                        (functions, figures.seconds * 1000)
                    )
        report.plot(
            directory / f'inventory-{what.split()[0]}.png',
            f'Inventory: {what} ({most} types, half of the VFs used)',
            'GPUs and virtual functions of the host',
            lines,
        )
