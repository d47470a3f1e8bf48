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

"""``openstack vgpu server list``, in a real cloud."""

import contextlib
import datetime
import functools
import sqlite3
import typing
import uuid

from nova_vgpu import exception
from nova_vgpu.cloud.usage import records
from nova_vgpu.cloud.usage import server_reader
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import scene

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
#: What the command reads; requests to Placement and Nova.
READERS: dict[base.Read, tuple[int, int]] = {
    # What "gpu list" takes; the flavors and the records.
    functools.partial(server_reader.list_by_flavor, now=NOW): (5, 2),
    # One more for each of the GPUs in use; the records.
    functools.partial(server_reader.list_by_gpu, now=NOW): (5 + 4, 1),
}


class ServersTest(base.CloudTest):
    def test_the_page_has_real_output(self) -> None:
        self.compare('openstack-server-list.txt', 'server', 'list')
        self.compare(
            'openstack-server-list-host.txt',
            *('server', 'list', '--host', 'compute1'),
        )
        self.compare(
            'openstack-server-list-json.txt',
            *('server', 'list', '--type', 'a40-8q', '--project', 'studio'),
            *('--long', '-f', 'json'),
        )

    def test_an_ordinary_user_is_told_what_role_is_required(self) -> None:
        self.refuse_ordinary_user('server', 'list')

    def test_what_the_cloud_does_not_have_is_refused(self) -> None:
        for words, status, expected in (
            (
                ('--type', 'A4\t0'),
                1,
                r'no GPU of type A4\t0. Types with GPUs: ',
            ),
            (
                ('--project', 'x\x1b[2J'),
                1,
                r'Keystone has no project x\x1b[2J.',
            ),
        ):
            code, stdout, stderr = self.run_command('server', 'list', *words)
            self.assertEqual((status, ''), (code, stdout), stderr)
            self.assertIn(expected, ' '.join(stderr.split()))

    def test_an_unknown_host_is_refused(self) -> None:
        error = self.assertRaises(
            exception.NotInCloud,
            *(
                server_reader.list_by_gpu,
                self.reader,
                NOW,
                None,
                'compute\x1b',
            ),
        )
        self.assertIn(
            r'host compute\x1b. Hosts with GPUs: compute1, comp', str(error)
        )

    def test_control_characters_and_markup_of_names(self) -> None:
        name = '<b>\x1b[2J</b>'
        with self.renamed(scene.SERVERS[0], name):
            found = server_reader.list_by_flavor(self.reader, NOW).users
        self.assertIn(r'<b>\x1b[2J</b>', [user.name for user in found])

    @contextlib.contextmanager
    def renamed(
        self, server: scene.Server, name: str
    ) -> typing.Iterator[None]:
        """In Nova's database: the API would refuse such a name."""
        with contextlib.closing(
            sqlite3.connect(self.cloud.path / 'nova_cell1.sqlite')
        ) as database:
            for each in (name, server.name):
                database.execute(
                    'UPDATE instances SET display_name = ? WHERE uuid = ?',
                    (each, server.uuid),
                )
                database.commit()
                if each == name:
                    yield

    def test_requests_do_not_grow_with_servers_or_vgpus(self) -> None:
        for read, requests in READERS.items():
            self.compare_requests(read, requests)

    def test_all_servers_are_listed(self) -> None:
        before = server_reader.list_by_flavor(self.reader, NOW).users
        made = [str(uuid.uuid4()) for _ in range(3)]
        with self.servers_in_nova(made):
            after = server_reader.list_by_flavor(self.reader, NOW).users
        self.assertEqual(
            {*made}, {u.uuid for u in after} - {u.uuid for u in before}
        )

    def test_what_fails_in_the_middle_is_named(self) -> None:
        for read, requests in READERS.items():
            self.fail_in_the_middle(read, requests)

    def test_all_pages_of_records_are_read(self) -> None:
        asked = self.reader.services
        period = scene.LAUNCHED - DAY, NOW
        whole = records.list_records(asked, *period)
        self.cloud.proxies['compute'].reset()
        in_pages = records.list_records(asked, *period, page=2)
        self.assertEqual(
            len(scene.SERVERS) + len(scene.FORMER_SERVERS), len(whole)
        )
        self.assertEqual(
            {record.uuid for record in whole},
            {record.uuid for record in in_pages},
        )
        # What is left, perhaps nothing, is the last page.
        self.assertEqual(
            len(whole) // 2 + 1, len(self.cloud.proxies['compute'].seen)
        )
