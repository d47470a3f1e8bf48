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

"""Choosing the device of one server, and a storm of servers.

On a fake libvirt, because libvirt's test driver makes no mdevs. ``choosing``
ends before the mdev is created, which takes as long for all drivers.
"""

from collections.abc import Callable
from collections.abc import Iterator
from concurrent import futures
import contextlib
import functools
import pathlib
import time
import typing

from nova.virt.libvirt import config as guest_config

from benchmarks import drivers
from benchmarks import fake_libvirt
from benchmarks import machines
from benchmarks import report

_THREADS = 8
_LARGEST = machines.Size()
_NEW = 'choosing, new vGPU'
_IDLE = 'choosing, vGPU left by another'


def run(directory: pathlib.Path, quick: bool) -> list[report.Measurement]:
    """Measure, and plot into a directory."""
    found: list[report.Measurement] = []
    for size in _list_sizes(quick):
        report.tell(f'allocation: {size}')
        with machines.machine(size) as machine:
            found += _measure_choice(machine, quick)
    _plot(directory, found)
    found.append(_measure_storm(quick))
    return found


def _list_sizes(quick: bool) -> Iterator[machines.Size]:
    if quick:
        yield machines.Size(2, 4, 8)
        return
    for gpus in (1, 4, 8, 16):
        yield machines.Size(gpus)
    for used in (0.0, 0.96):
        yield machines.Size(used=used)


def _measure_choice(
    machine: machines.Machine, quick: bool
) -> Iterator[report.Measurement]:
    fake = fake_libvirt.FakeLibvirt(machine)
    sides = {}
    for name in (report.STOCK, report.OURS):
        side = sides[name] = drivers.Side(name, machine, lambda: fake)
        side.update()
        _make_nothing(side)
    yield _measure_one(machine, sides, _NEW, quick, lambda name: None)
    if machine.size.used == _LARGEST.used:
        # The guest of the last GPU's first vGPU goes, and leaves it.
        *_, last = machine.host.gpus
        ((left, _),) = last.mdevs(0)
        for uuid, guest in list(fake.guests.items()):
            if left in guest.mdevs:
                del fake.guests[uuid]

        def prepare(name: str) -> None:
            if name == report.OURS:
                # What it does when it deletes a server.
                sides[name].driver.vgpus.usage.attached.remove([left])

        yield _measure_one(machine, sides, _IDLE, quick, prepare)


def _measure_one(
    machine: machines.Machine,
    sides: dict[str, drivers.Side],
    what: str,
    quick: bool,
    prepare: Callable[[str], None],
) -> report.Measurement:
    asked = {name: _ask(side, what) for name, side in sides.items()}

    def choose(name: str) -> None:
        if not sides[name].driver._allocate_mdevs(asked[name]):
            raise RuntimeError('nothing was chosen')

    seconds = report.take_turns(
        {name: functools.partial(choose, name) for name in sides},
        2 if quick else 15,
        prepare,
    )
    figures = {}
    for name, side in sides.items():
        counts: dict[str, float] = {}
        prepare(name)
        with drivers.counted(side, counts):
            choose(name)
        figures[name] = report.Figures(seconds[name], counts)
    return report.Measurement(
        'allocation',
        what,
        machine.size.scene(),
        figures[report.OURS],
        figures[report.STOCK],
        (report.Bar(20),) if machine.size == _LARGEST else (),
    )


def _ask(side: drivers.Side, what: str) -> dict[str, typing.Any]:
    """The allocation of a server that is to have a vGPU of the last GPU."""
    *_, last = side.machine.host.gpus
    device = last.address.node_device_name
    if side.name == report.STOCK:
        addresses = last.vf_addresses
        device = addresses[0 if what == _IDLE else -1].node_device_name
    return _allocate(side, device)


def _allocate(side: drivers.Side, device: str) -> dict[str, typing.Any]:
    provider = side.tree.data(f'{drivers.NODE}_{device}').uuid
    return {provider: {'resources': {'VGPU': 1}}}


def _make_nothing(side: drivers.Side) -> None:
    """Let the driver choose, but not make what it has chosen."""
    side.driver._create_mdev = lambda *_, **__: 'chosen'


# -- a storm ----------------------------------------------------------------


def _measure_storm(quick: bool) -> report.Measurement:
    """Fill a host from nothing, with several threads."""
    size = machines.Size(2, 4, 8, 0) if quick else machines.Size(16, 32, 23, 0)
    figures = {}
    for name in (report.STOCK, report.OURS):
        report.tell(f'boot storm: {size}, {name}')
        with machines.machine(size) as machine:
            figures[name] = _storm(name, machine)
    return report.Measurement(
        'boot storm',
        f'{size.gpus * size.vfs} servers by {_THREADS} threads',
        size.scene(),
        figures[report.OURS],
        figures[report.STOCK],
        () if quick else (report.Bar(5),),
    )


def _storm(name: str, machine: machines.Machine) -> report.Figures:
    fake = fake_libvirt.FakeLibvirt(machine)
    side = drivers.Side(name, machine, lambda: fake)
    side.update()
    orders = list(enumerate(_list_orders(side), len(fake.guests)))

    def boot(order: tuple[int, dict[str, typing.Any]]) -> None:
        number, allocation = order
        driver = side.driver
        with contextlib.ExitStack() as stack:
            if name == report.OURS:
                # As its spawn does.
                stack.enter_context(driver.vgpus.allocator.operation())
            chosen = driver._allocate_mdevs(allocation)
            guest = guest_config.LibvirtConfigGuest()
            driver._guest_add_mdevs(guest, chosen)
            mdevs = [device.uuid for device in guest.devices]
            fake.defineXML(machines.make_guest(number, mdevs))

    began = time.perf_counter()
    with futures.ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(boot, orders))
    seconds = time.perf_counter() - began
    given = [mdev for guest in fake.guests.values() for mdev in guest.mdevs]
    return report.Figures(
        seconds,
        {
            'servers per second': len(orders) / seconds,
            'vGPUs given twice': len(given) - len(set(given)),
            'libvirt calls': fake.calls,
        },
    )


def _list_orders(side: drivers.Side) -> Iterator[dict[str, typing.Any]]:
    """What Placement would give to servers, one GPU after the other."""
    vfs = range(side.machine.size.vfs)
    for number in vfs:
        for gpu in side.machine.host.gpus:
            device = gpu.address.node_device_name
            if side.name == report.STOCK:
                device = gpu.vf_addresses[number].node_device_name
            yield _allocate(side, device)


def _plot(directory: pathlib.Path, found: list[report.Measurement]) -> None:
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in found:
        if each.scene['used'] != '50%' or each.stock is None:
            continue
        suffix = '' if each.what == _NEW else ', left by another'
        for name, figures in (
            (report.STOCK, each.stock),
            (report.OURS, each.ours),
        ):
            lines.setdefault(name + suffix, []).append(
                (each.scene['GPUs'], figures.seconds * 1000)
            )
    report.plot(
        directory / 'allocation.png',
        'Choosing the vGPU of one server (48 VFs each, half of them used)',
        'GPUs of the host',
        lines,
    )
