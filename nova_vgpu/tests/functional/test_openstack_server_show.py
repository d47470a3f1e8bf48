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

"""``openstack vgpu server show``, in a real cloud."""

from collections.abc import Iterator
import contextlib
import functools
import json
import sqlite3
import typing

from nova_vgpu import exception
from nova_vgpu.cloud.usage import reasons
from nova_vgpu.cloud.usage import server_details
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import scene

DESKTOP, *_, RENDER, SIMULATE = scene.SERVERS
#: What "gpu list" takes and the allocation; the server.
REQUESTS = (5 + 1, 1)
FAULT = 'No valid host was found. \x1b[2J'


class ServerShowTest(base.CloudTest):
    def test_the_page_has_real_output(self) -> None:
        self.compare(
            'openstack-server-show.txt', *('server', 'show', DESKTOP.name)
        )
        self.compare(
            'openstack-server-show-fenced.txt',
            *('server', 'show', RENDER.name, '-c', 'gpus', '-c', 'state'),
            *('-c', 'reasons'),
        )
        self.compare(
            'openstack-server-show-json.txt',
            *('server', 'show', SIMULATE.uuid, '-f', 'json'),
        )

    def codes_of(self, server: scene.Server) -> list[str]:
        found = server_details.read(self.reader, server.uuid).judgement
        return [found.state.value, *(each.code.value for each in found.why)]

    def run_as_user(self, server: scene.Server) -> tuple[int, str, str]:
        return self.run_command(
            *('server', 'show', server.name, '-f', 'json'),
            user=accounts.USER,
            project=accounts.USER_PROJECT,
        )

    def test_an_ordinary_user_is_told_what_nova_tells(self) -> None:
        code, stdout, stderr = self.run_as_user(DESKTOP)
        self.assertEqual((0, ''), (code, stderr))
        found: dict[str, typing.Any] = json.loads(stdout)
        self.assertEqual(DESKTOP.uuid, found['id'])
        self.assertEqual({'VGPU': 1}, found['asks_for'])
        self.assertEqual((None, None), (found['gpus'], found['host']))
        (reason,) = found['reasons']
        self.assertEqual('not-permitted', reason['code'])
        self.assertIn('requires the role "admin"', reason['text'])

    def test_an_ordinary_user_finds_no_server_of_others(self) -> None:
        code, stdout, stderr = self.run_as_user(RENDER)
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('no server render-1, or you may not see', stderr)

    def test_an_unknown_server_is_refused(self) -> None:
        code, stdout, stderr = self.run_command('server', 'show', 'no\x1b[2J')
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn(r'Nova has no server no\x1b[2J, or', stderr)
        for wanted in (scene.uuid_of('nobody'), ''):
            self.assertRaises(
                exception.NotInCloud,
                *(server_details.read, self.reader, wanted),
            )

    def test_a_name_of_two_servers_is_refused(self) -> None:
        with self.servers_in_nova([scene.uuid_of('copy')]):
            error = self.assertRaises(
                exception.NotInCloud,
                *(server_details.read, self.reader, scene.SERVERS[0].name),
            )
        for each in (DESKTOP.uuid, scene.uuid_of('copy')):
            self.assertIn(each, str(error))

    def test_special_characters_of_names_are_not_an_expression(self) -> None:
        for wanted in ('desktop.1', '.*', 'desktop-1|train-1', '('):
            self.assertRaises(
                exception.NotInCloud,
                *(server_details.read, self.reader, wanted),
            )

    @contextlib.contextmanager
    def state_in_nova(
        self, server: scene.Server, state: str
    ) -> Iterator[None]:
        """In Nova's database: no compute service runs."""
        with contextlib.closing(
            sqlite3.connect(self.cloud.path / 'nova_cell1.sqlite')
        ) as database:
            for each in (state, 'active'):
                database.execute(
                    'UPDATE instances SET vm_state = ? WHERE uuid = ?',
                    (each, server.uuid),
                )
                database.execute(
                    'INSERT INTO instance_faults (instance_uuid, code, '
                    'message, deleted) VALUES (?, 500, ?, 0)',
                    (server.uuid, FAULT),
                )
                if each == 'active':
                    database.execute('DELETE FROM instance_faults')
                database.commit()
                if each == state:
                    yield

    def test_a_server_in_error_is_shown_with_its_fault(self) -> None:
        with self.state_in_nova(DESKTOP, 'error'):
            found = server_details.read(self.reader, DESKTOP.uuid)
        self.assertEqual('ERROR', found.server.status)
        (reason,) = found.judgement.why
        self.assertEqual(reasons.Code.SERVER_ERROR, reason.code)
        self.assertIn(r'No valid host was found. \x1b[2J', reason.text)
        self.assertEqual(['ready', 'ready'], self.codes_of(DESKTOP))

    def test_states_of_nova(self) -> None:
        for state, expected in (
            ('building', ['changing', 'building']),
            ('stopped', ['stopped', 'stopped']),
            ('resized', ['changing', 'to-confirm']),
            ('shelved', ['stopped', 'stopped']),
            # Its GPU should not be allocated any more.
            ('shelved_offloaded', ['attention', 'other-host', 'stopped']),
        ):
            with self.state_in_nova(DESKTOP, state):
                self.assertEqual(expected, self.codes_of(DESKTOP), state)

    @contextlib.contextmanager
    def allocated(self, *gpus: scene.GPU) -> Iterator[None]:
        """A vGPU of each of these to the desktop, in place of its own."""
        path = f'/allocations/{DESKTOP.uuid}'
        before = self.placement.call('GET', path)
        for allocations in (
            {gpu.uuid: {'resources': {gpu.resource_class: 1}} for gpu in gpus},
            before['allocations'],
        ):
            generation = self.placement.call('GET', path).get(
                'consumer_generation'
            )
            body = {**before, 'allocations': allocations}
            self.placement.call(
                'PUT', path, {**body, 'consumer_generation': generation}
            )
            if allocations is not before['allocations']:
                yield

    def test_allocations_that_are_not_as_asked(self) -> None:
        t4, other_t4, a40, *_ = scene.GPUS
        for gpus, expected in (
            ((), ['failed', 'no-allocation']),
            ((t4, other_t4), ['attention', 'too-many']),
            ((t4, a40), ['attention', 'other-host']),
            ((a40,), ['failed', 'no-allocation', 'other-host']),
        ):
            with self.allocated(*gpus):
                self.assertEqual(expected, self.codes_of(DESKTOP), f'{gpus}')
        self.assertEqual(['ready', 'ready'], self.codes_of(DESKTOP))

    def test_requests_do_not_grow_with_servers_or_vgpus(self) -> None:
        for wanted in (DESKTOP.name, DESKTOP.uuid, SIMULATE.uuid):
            read = functools.partial(server_details.read, wanted=wanted)
            if wanted is DESKTOP.name:
                # Copies of the server would have its name.
                self.assertEqual(REQUESTS, self.requests_of(read))
            else:
                self.compare_requests(read, REQUESTS)

    def test_what_fails_in_the_middle_is_named(self) -> None:
        self.fail_in_the_middle(
            functools.partial(server_details.read, wanted=DESKTOP.name),
            REQUESTS,
        )
