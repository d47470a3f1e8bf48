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

"""``openstack vgpu`` in a large cloud, beside ``openstack hypervisor list``.

A real Keystone, Placement and nova-api on loopback. Most of their hosts are
copies of one of the scene's in their databases: by the APIs they would take
minutes.
"""

from collections.abc import Callable
import contextlib
import functools
import os
import pathlib
import sqlite3
import subprocess
import sys
import typing
import uuid

from benchmarks import report
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import running
from nova_vgpu.tests.cloud import scene

_ROUNDS = 5
_GPUS = 5
#: Of the eight that each GPU has.
_VGPUS = (1, 8)
#: Each list is to take at most three times as long.
_BAR = 0.34
#: But for this one, which asks Placement about each GPU.
_WITHOUT_BAR = 'server list --long'
_COMMANDS = {
    'gpu list': ('vgpu', 'gpu', 'list'),
    'flavor list': ('vgpu', 'flavor', 'list'),
    'type list': ('vgpu', 'type', 'list', '--long'),
    'server list': ('vgpu', 'server', 'list'),
    'server list --long': ('vgpu', 'server', 'list', '--long'),
    'usage': ('vgpu', 'usage'),
    'doctor': ('vgpu', 'doctor', '-f', 'json'),
}
_FOUND = 2
_TEMPLATE = scene.GPUS[0]

Row = dict[str, typing.Any]


def run(directory: pathlib.Path, quick: bool) -> list[report.Measurement]:
    """Measure; there is nothing to plot."""
    report.tell('cloud')
    copies = 2 if quick else 200
    found: list[report.Measurement] = []
    with running.RunningCloud() as cloud:
        connection = cloud.connect()
        filling.fill(connection)
        gpus = _copy_hosts(cloud.path, copies)
        before = 0
        for vgpus in _VGPUS:
            _allocate(cloud.path, gpus, vgpus - before)
            before = vgpus
            size = {
                'hosts': copies + len(scene.HOSTS),
                'GPUs': len(gpus) + len(scene.GPUS),
                'vGPUs of each': vgpus,
            }
            found += _measure(cloud, size, 1 if quick else _ROUNDS)
    return found


def _measure(
    cloud: running.RunningCloud, size: dict[str, int], rounds: int
) -> list[report.Measurement]:
    bodies = {report.STOCK: _make_body(cloud, 'hypervisor', 'list')} | {
        what: _make_body(cloud, *words) for what, words in _COMMANDS.items()
    }
    counts: dict[str, dict[str, float]] = {}
    for name, body in bodies.items():
        for each in cloud.proxies.values():
            each.reset()
        body()
        counts[name] = {
            f'requests to {service}': len(each.seen)
            for service, each in cloud.proxies.items()
        }
    taken = report.take_turns(bodies, rounds)
    return [
        report.Measurement(
            'cloud',
            f'{what} beside hypervisor list',
            size,
            report.Figures(taken[what], counts[what]),
            report.Figures(taken[report.STOCK], counts[report.STOCK]),
            () if what == _WITHOUT_BAR else (report.Bar(_BAR),),
        )
        for what in _COMMANDS
    ]


def _make_body(
    cloud: running.RunningCloud, *words: str
) -> Callable[[], object]:
    environment = cloud.environment(accounts.ADMIN, accounts.ADMIN)
    return functools.partial(_run, words, os.environ | environment)


def _run(words: tuple[str, ...], environment: dict[str, str]) -> None:
    program = pathlib.Path(sys.executable).with_name('openstack')
    done = subprocess.run(
        [str(program), *words], stdout=subprocess.DEVNULL, env=environment
    )
    # The doctor finds a flavor of the scene that no host has the GPUs for.
    if done.returncode != (_FOUND if 'doctor' in words else 0):
        raise SystemExit(f'{" ".join(words)} failed: {done.returncode}')


def _copy_hosts(path: pathlib.Path, number: int) -> list[int]:
    """Copy a host with its first GPU; gives the ids of the GPUs."""
    names = [f'copy{n:04}' for n in range(number)]
    for database, table in (
        ('nova_cell1', 'compute_nodes'),
        ('nova_cell1', 'services'),
        ('nova_api', 'host_mappings'),
    ):
        with _open(path, database) as nova:
            (old,) = _read(nova, table, host=_TEMPLATE.host)
            for name in names:
                new = {'host': name, 'hypervisor_hostname': name}
                new['uuid'] = str(uuid.uuid4())
                _insert(nova, table, _change(old, id=None, **new))
    gpus = []
    with _open(path, 'placement') as placement:
        for name in names:
            root = _copy_provider(placement, _TEMPLATE.host, name)
            for n in range(_GPUS):
                device = f'{name}_pci_0000_{n + 16:02x}_00_0'
                gpus.append(
                    _copy_provider(placement, _TEMPLATE.name, device, root)
                )
    return gpus


def _copy_provider(
    placement: sqlite3.Connection,
    source: str,
    name: str,
    root: int | None = None,
) -> int:
    table = 'resource_providers'
    (old,) = _read(placement, table, name=source)
    own = _insert(
        placement,
        table,
        _change(old, id=None, name=name, uuid=str(uuid.uuid4()))
        | {'parent_provider_id': root, 'root_provider_id': root},
    )
    if root is None:
        placement.execute(
            f'UPDATE {table} SET root_provider_id = id WHERE id = ?',  # noqa: S608 - our own
            (own,),
        )
    for part in ('inventories', 'resource_provider_traits'):
        for row in _read(placement, part, resource_provider_id=old['id']):
            new = _change(row, id=None, resource_provider_id=own)
            _insert(placement, part, new)
    return own


def _allocate(path: pathlib.Path, gpus: list[int], number: int) -> None:
    """Let new servers use so many vGPUs more of each GPU."""
    of_one = scene.SERVERS[0].uuid
    with (
        _open(path, 'placement') as placement,
        _open(path, 'nova_cell1') as nova,
    ):
        (server,) = _read(nova, 'instances', uuid=of_one)
        (extra,) = _read(nova, 'instance_extra', instance_uuid=of_one)
        (consumer,) = _read(placement, 'consumers', uuid=of_one)
        (allocation,) = _read(placement, 'allocations', consumer_id=of_one)
        for gpu in gpus:
            for _ in range(number):
                made = str(uuid.uuid4())
                _insert(nova, 'instances', server | {'id': None, 'uuid': made})
                new = _change(extra, id=None, instance_uuid=made)
                _insert(nova, 'instance_extra', new)
                new = _change(consumer, id=None, uuid=made)
                _insert(placement, 'consumers', new)
                new = _change(
                    allocation,
                    id=None,
                    consumer_id=made,
                    resource_provider_id=gpu,
                )
                _insert(placement, 'allocations', new)


@contextlib.contextmanager
def _open(
    path: pathlib.Path, name: str
) -> typing.Iterator[sqlite3.Connection]:
    with contextlib.closing(
        sqlite3.connect(path / f'{name}.sqlite')
    ) as database:
        database.row_factory = sqlite3.Row
        yield database
        database.commit()


def _read(
    database: sqlite3.Connection, table: str, **where: object
) -> list[Row]:
    ((column, value),) = where.items()
    found = database.execute(
        f'SELECT * FROM {table} WHERE {column} = ?',  # noqa: S608 - our own
        (value,),
    )
    return [dict(row) for row in found]


def _change(row: Row, **values: object) -> Row:
    """The row with other values in those of the columns that it has."""
    return row | {k: v for k, v in values.items() if k in row}


def _insert(database: sqlite3.Connection, table: str, row: Row) -> int:
    columns, places = ', '.join(row), ', '.join('?' * len(row))
    made = database.execute(
        f'INSERT INTO {table} ({columns}) VALUES ({places})',  # noqa: S608 - our own
        tuple(row.values()),
    )
    assert made.lastrowid is not None  # noqa: S101 - sqlite3 says so
    return made.lastrowid
