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

"""Placement with a whole fleet of GPU hosts in it.

The same hosts, once with Nova's layout of providers, one for each virtual
function, and once with this project's, one for each GPU. Each layout has a
Placement process and a database of its own on the same PostgreSQL. Nova's own
report client asks, by HTTP on loopback; Placement's options about candidates
are as it ships them.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import functools
import math
import os
import pathlib
import time
from unittest import mock

from benchmarks import fleet_layouts
from benchmarks import fleet_nova
from benchmarks import fleet_postgresql
from benchmarks import fleet_rows
from benchmarks import report
from nova_vgpu.sandbox import placement

BENCHMARK = 'Placement at fleet scale'
_CANDIDATES = 'candidates for a flavor'
_CLAIM = 'one claim'
_MINUTE = "a host's update, every minute"
_FIVE_MINUTES = "a host's update, every five minutes"
_SCENES = (100, 1000)
_QUICK_SCENES = (10, 50)
_BAR = report.Bar(5)
#: The size on paper, in fleets of the biggest scene.
_ON_PAPER = 10
_ROUNDS = {_CANDIDATES: 5, _CLAIM: 25, _MINUTE: 7, _FIVE_MINUTES: 5}


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """A fleet in one layout, and Nova before its Placement."""

    nova: fleet_nova.Nova
    providers: int


def run(directory: pathlib.Path, quick: bool) -> list[report.Measurement]:
    """Measure all scenes; plots go to the directory."""
    scenes = _QUICK_SCENES if quick else _SCENES
    measured: list[report.Measurement] = []
    with fleet_postgresql.run_server() as server:
        for hosts in scenes:
            with _run_sites(server, hosts) as sites:
                measured += _measure(sites, hosts)
    measured = [_with_bar(each, scenes[-1]) for each in measured]
    candidates = [each for each in measured if each.what == _CANDIDATES]
    on_paper = _extrapolate(*candidates)
    _plot(directory, measured, on_paper)
    return [*measured, on_paper]


@contextlib.contextmanager
def _run_sites(
    server: fleet_postgresql.Server, hosts: int
) -> Iterator[dict[str, Site]]:
    with contextlib.ExitStack() as stack:
        yield {
            layout.name: stack.enter_context(_run_site(server, layout, hosts))
            for layout in fleet_layouts.list_layouts()
        }


@contextlib.contextmanager
def _run_site(
    server: fleet_postgresql.Server, layout: fleet_layouts.Layout, hosts: int
) -> Iterator[Site]:
    with contextlib.ExitStack() as stack:
        name = f'{layout.name}_{hosts}'
        stack.enter_context(server.database(name))
        # The environment comes before the file that the server is given.
        connection = {'OS_PLACEMENT_DATABASE__CONNECTION': server.url(name)}
        with mock.patch.dict(os.environ, connection):
            # It makes the schema by itself when it starts.
            url = stack.enter_context(
                placement.run_placement(server.directory / name)
            )
        providers = hosts * layout.per_host
        began = time.perf_counter()
        with contextlib.closing(server.connect(name)) as database:
            fleet_rows.load(database, layout, hosts)
        taken = time.perf_counter() - began
        report.tell(
            f'{hosts} hosts, {layout.name}: {providers} providers loaded '
            f'in {taken:.1f} s'
        )
        yield Site(fleet_nova.Nova(url), providers)


def _measure(
    sites: Mapping[str, Site], hosts: int
) -> Iterator[report.Measurement]:
    middle = hosts // 2
    yield _compare(
        _CANDIDATES, hosts, sites, fleet_nova.Nova.ask_for_candidates
    )
    yield _compare(
        _CLAIM, hosts, sites, fleet_nova.Nova.claim, fleet_nova.Nova.release
    )
    for site in sites.values():
        site.nova.release()
    yield _compare(
        _FIVE_MINUTES,
        hosts,
        sites,
        lambda nova: nova.update(middle),
        fleet_nova.Nova.forget,
    )
    yield _compare(_MINUTE, hosts, sites, lambda nova: nova.update(middle))


def _compare(
    what: str,
    hosts: int,
    sites: Mapping[str, Site],
    body: Callable[[fleet_nova.Nova], object],
    prepare: Callable[[fleet_nova.Nova], object] = lambda nova: None,
) -> report.Measurement:
    """One thing with both layouts, in turns."""
    report.tell(f'{hosts} hosts: {what}')
    traffic: dict[str, fleet_nova.Traffic] = {}

    def run_once(name: str) -> None:
        nova = sites[name].nova
        before = nova.traffic.copy()
        body(nova)
        traffic[name] = nova.traffic.since(before)

    seconds = report.take_turns(
        {name: functools.partial(run_once, name) for name in sites},
        _ROUNDS[what],
        lambda name: prepare(sites[name].nova),
    )
    figures = {
        name: report.Figures(seconds[name], _counts(what, site, traffic[name]))
        for name, site in sites.items()
    }
    return report.Measurement(
        BENCHMARK,
        what,
        {'hosts': hosts},
        figures[report.OURS],
        figures[report.STOCK],
    )


def _counts(
    what: str, site: Site, traffic: fleet_nova.Traffic
) -> dict[str, float]:
    counts: dict[str, float] = {
        'Placement requests': traffic.answers,
        'bytes in answers': traffic.size,
    }
    if what == _CANDIDATES:
        counts |= {
            'providers': site.providers,
            'candidates': site.nova.offer.candidates,
            'hosts among them': site.nova.offer.hosts,
        }
    return counts


def _with_bar(each: report.Measurement, hosts: int) -> report.Measurement:
    if each.what != _CANDIDATES or each.scene['hosts'] != hosts:
        return each
    return dataclasses.replace(each, bars=(_BAR,))


def _extrapolate(
    small: report.Measurement, big: report.Measurement
) -> report.Measurement:
    """As much slower with ten times the hosts as the power law says.

    That is rather too little: a part of what Placement does grows with the
    square of the hosts (_get_trees_with_traits looks through all providers
    for each host), and weighs the more the bigger the fleet is.
    """
    hosts = small.scene['hosts'], big.scene['hosts']

    def continued(
        less: report.Figures, more: report.Figures
    ) -> report.Figures:
        power = math.log(more.seconds / less.seconds) / math.log(
            hosts[1] / hosts[0]
        )
        return report.Figures(
            more.seconds * _ON_PAPER**power,
            {'providers': more.counts['providers'] * _ON_PAPER},
        )

    stock = None
    if small.stock is not None and big.stock is not None:
        stock = continued(small.stock, big.stock)
    return report.Measurement(
        BENCHMARK,
        'candidates, extrapolated',
        {'hosts': hosts[1] * _ON_PAPER, 'measured': 'no'},
        continued(small.ours, big.ours),
        stock,
    )


def _plot(
    directory: pathlib.Path,
    measured: list[report.Measurement],
    on_paper: report.Measurement,
) -> None:
    titles = {
        'fleet-candidates.png': _CANDIDATES,
        'fleet-claim.png': _CLAIM,
        'fleet-update.png': _FIVE_MINUTES,
    }
    for file, what in titles.items():
        points = [each for each in measured if each.what == what]
        lines = _lines(points)
        if what == _CANDIDATES:
            dashed = _lines([points[-1], on_paper])
            lines |= {f'{k}, not measured': v for k, v in dashed.items()}
        report.plot(directory / file, f'Placement: {what}', 'hosts', lines)


def _lines(
    points: list[report.Measurement],
) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in points:
        both = {report.STOCK: each.stock, report.OURS: each.ours}
        for name, figures in both.items():
            if figures is not None:
                lines.setdefault(name, []).append(
                    (each.scene['hosts'], figures.seconds * 1000)
                )
    return lines
