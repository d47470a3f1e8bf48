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

"""A cloud for all tests, and ``openstack`` as users run it."""

import atexit
from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import os
import pathlib
import sqlite3
import subprocess
import sys
import textwrap
import typing
import uuid

from openstack import connection as sdk_connection
import testtools

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.tests import placements
from nova_vgpu.tests import proxy
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import client_process
from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import running
from nova_vgpu.tests.cloud import scene

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = ROOT / 'doc' / 'source' / 'examples'
#: Whether what commands print is written to the examples, not compared.
WRITES_EXAMPLES = 'NOVA_VGPU_WRITE_EXAMPLES' in os.environ
Read = Callable[[reader.Cloud], object]
OPENSTACK = pathlib.Path(sys.executable).with_name('openstack')


class Started(typing.NamedTuple):
    cloud: running.RunningCloud
    connection: sdk_connection.Connection
    client: client_process.ClientProcess


@functools.cache
def _start_cloud() -> Started:
    """One for all tests of a process: it takes some seconds to start.

    The connection has been used, so that it does not ask services for their
    versions any more when requests are counted.
    """
    cloud = running.RunningCloud(has_images=True)
    cloud.setUp()
    atexit.register(cloud.cleanUp)
    connection = cloud.connect()
    filling.fill(connection)
    client = cloud.useFixture(client_process.ClientProcess(cloud.path))
    return Started(cloud, connection, client)


class CloudTest(testtools.TestCase):
    """One cloud for the tests of all classes, which leave it as it was.

    Some run commands, each time in a process of its own. The others use the
    reader of the commands, which takes less time.
    """

    cloud: typing.ClassVar[running.RunningCloud]
    connection: typing.ClassVar[sdk_connection.Connection]
    client: typing.ClassVar[client_process.ClientProcess]
    placement: typing.ClassVar[filling.Placement]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cloud, cls.connection, cls.client = _start_cloud()
        cls.placement = filling.Placement(cls.connection)

    def setUp(self) -> None:
        super().setUp()
        self.reader = reader.Cloud(self.connection, placements.PATIENT)
        for each in self.cloud.proxies.values():
            each.reset()

    def run_command(
        self,
        *words: str,
        user: str = accounts.ADMIN,
        project: str = accounts.ADMIN,
        **variables: str,
    ) -> tuple[int, str, str]:
        """The exit code, what is data, and what is said beside it."""
        return self.require_words(
            *self.client.run(
                ['vgpu', *words],
                self.make_environment(user, project) | variables,
            )
        )

    def run_program(self, words: list[str]) -> tuple[int, str, str]:
        """The same of the program as it is installed."""
        done = subprocess.run(
            [str(OPENSTACK), *words[1:]],
            env=self.make_environment(accounts.ADMIN, accounts.ADMIN),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        return self.require_words(done.returncode, done.stdout, done.stderr)

    def make_environment(self, user: str, project: str) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if not k.startswith('OS_')}
        return (
            own
            | self.cloud.environment(user, project)
            | {'COLUMNS': '80', 'PYTHONWARNINGS': 'ignore'}
        )

    def require_words(
        self, code: int, stdout: str, stderr: str
    ) -> tuple[int, str, str]:
        """Never a traceback, whatever goes wrong."""
        self.assertNotIn('Traceback', stdout + stderr)
        return code, stdout, stderr

    def refuse_ordinary_user(self, *words: str) -> None:
        """The command prints which role it requires, in one line."""
        code, stdout, stderr = self.run_command(
            *words, user=accounts.USER, project=accounts.USER_PROJECT
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('requires the role "admin"', stderr)
        self.assertEqual(1, len(stderr.strip().splitlines()), stderr)

    def requests_of(self, read: Read) -> tuple[int, int]:
        """Requests to Placement and to Nova."""
        for each in self.cloud.proxies.values():
            each.reset()
        read(self.reader)
        seen = {name: each.seen for name, each in self.cloud.proxies.items()}
        return len(seen['placement']), len(seen['compute'])

    def compare_requests(self, read: Read, requests: tuple[int, int]) -> None:
        """They are as many with servers on all vGPUs of two GPUs but one."""
        self.assertEqual(requests, self.requests_of(read))
        made = []
        for gpu in scene.GPUS[:2]:
            for _ in range(gpu.total - len(gpu.consumers) - 1):
                made.append(str(uuid.uuid4()))
                self.placement.allocate(made[-1], gpu.uuid, 'VGPU', 1)
        with self.servers_in_nova(made):
            after = self.requests_of(read)
        for consumer in made:
            self.placement.call('DELETE', f'/allocations/{consumer}')
        self.assertEqual(11, len(made))
        self.assertEqual(requests, after)

    @contextlib.contextmanager
    def servers_in_nova(self, made: list[str]) -> Iterator[None]:
        """Copies of a server, with these UUIDs, in Nova's database."""
        tables = (('instances', 'uuid'), ('instance_extra', 'instance_uuid'))
        with contextlib.closing(
            sqlite3.connect(self.cloud.path / 'nova_cell1.sqlite')
        ) as database:
            for table, key in tables:
                described = database.execute(f'PRAGMA table_info({table})')
                others = {row[1] for row in described} - {'id', key}
                copied = ', '.join(sorted(others))
                source = f'SELECT ?, {copied} FROM {table} WHERE {key} = ?'  # noqa: S608
                database.executemany(
                    f'INSERT INTO {table} ({key}, {copied}) {source}',
                    [(each, scene.SERVERS[0].uuid) for each in made],
                )
            database.commit()
            yield
            for table, key in tables:
                database.executemany(
                    f'DELETE FROM {table} WHERE {key} = ?',  # noqa: S608
                    [(each,) for each in made],
                )
            database.commit()

    def fail_in_the_middle(
        self, read: Read, requests: tuple[int, int]
    ) -> None:
        """Whatever request fails, an error names the service."""
        hasty = reader.Cloud(
            self.connection,
            dataclasses.replace(placements.PATIENT, deadline=0.05),
        )
        families = (exception.PlacementError, exception.CloudError)
        texts = ('Placement does not answer', 'Nova did not list ')
        for service, number, family, text in zip(
            ('placement', 'compute'), requests, families, texts, strict=True
        ):
            for first in range(number):
                self.cloud.proxies[service].reset(
                    functools.partial(_fail_from, first)
                )
                error = self.assertRaises(family, read, hasty)
                self.assertIn(text, str(error))
            self.cloud.proxies[service].reset()

    def compare(
        self,
        name: str,
        *words: str,
        status: int = 0,
        notes: str = '',
        **variables: str,
    ) -> None:
        """A command on the page, and what it prints here.

        :param notes: what is said beside the data.
        """
        if not EXAMPLES.is_dir():
            self.skipTest('the documentation is not part of a wheel')
        code, stdout, stderr = self.run_command(*words, **variables)
        self.assertEqual((status, notes), (code, stderr))
        lines = textwrap.wrap(
            f'$ openstack vgpu {" ".join(words)}',
            77,
            subsequent_indent='    ',
            break_on_hyphens=False,
        )
        text = ' \\\n'.join(lines) + f'\n{stdout or stderr}'
        path = EXAMPLES / name
        if WRITES_EXAMPLES:
            path.write_text(text)
        self.assertEqual(path.read_text(), text)
        if stdout and not {'json', 'render'} & {*words}:
            self.assertLessEqual(max(map(len, stdout.splitlines())), 80)


def _fail_from(first: int, number: int) -> proxy.Fault | None:
    return proxy.Fault.UNAVAILABLE if number >= first else None
