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

"""``openstack vgpu flavor`` and ``image`` as users run them, in a real cloud.

What the commands print is in the documentation: it is kept in
``doc/source/examples`` and compared here.
"""

import contextlib
import dataclasses
import json
import sqlite3
import typing
import uuid

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.orders import flavor_change
from nova_vgpu.cloud.orders import flavor_creation
from nova_vgpu.cloud.orders import flavor_listing
from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.cloud.orders import flavor_query
from nova_vgpu.cloud.orders import flavor_store
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import image_store
from nova_vgpu.tests import placements
from nova_vgpu.tests import proxy
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import scene

REQUEST = flavor_creation.FlavorRequest(
    'render', 'A40-8Q', flavors.Size(4, 16384, 40)
)
SPECS = {
    'resources:VGPU': '1',
    'trait:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
}
WHOLE: dict[str, typing.Any] = {'type': None, 'passthrough': 'A40'}
CREATED, UPDATED, UNCHANGED = flavor_change.Result
SIZE = ('--vcpus', '4', '--ram', '16384', '--disk', '40')
IMAGE = scene.uuid_of('image')
ALICE = {'user': accounts.USER, 'project': accounts.USER_PROJECT}


class FlavorsTest(base.CloudTest):
    def setUp(self) -> None:
        super().setUp()
        self.nova = self.cloud.proxies['compute']
        self.store = flavor_store.FlavorStore(self.connection)

    def ensure(
        self, is_dry_run: bool = False, **changes: typing.Any
    ) -> flavor_creation.Outcome:
        request = dataclasses.replace(REQUEST, **changes)
        self.addCleanup(self.delete, request.name)
        return flavor_creation.ensure_flavor(
            self.reader, self.store, request, is_dry_run
        )

    def refuse(self, family: type[Exception], **changes: typing.Any) -> str:
        """The error's text; nothing is written."""
        self.nova.reset(self.nova.faults)
        error = self.assertRaises(family, self.ensure, **changes)
        self.assertEqual([], self.nova.writes)
        return str(error)

    def find(self, name: str = REQUEST.name) -> flavors.Flavor | None:
        for each in self.cloud.proxies.values():
            each.reset()
        found = [f for f in self.reader.list_flavors() if f.name == name]
        return found[0] if found else None

    def delete(self, name: str) -> None:
        found = self.find(name)
        if found is not None:
            self.connection.compute.delete_flavor(found.id)

    # -- the commands -------------------------------------------------------

    def test_the_page_has_real_output(self) -> None:
        self.make_image('ubuntu-24.04', IMAGE)
        self.compare('openstack-flavor-list.txt', 'flavor', 'list')
        self.compare(
            'openstack-flavor-create.txt',
            *('flavor', 'create', 'desktop-2', '--type', 'T4-2Q', '--count'),
            *('2', '--policy', 'different-gpus', '--vcpus', '8', '--ram'),
            *('32768', '--disk', '100', '--dry-run'),
        )
        self.compare(
            'openstack-flavor-create-json.txt',
            *('flavor', 'create', 'train-8', '--type', 'L40S-24Q', *SIZE),
            *('--page-size', 'large', '--dry-run', '-f', 'json'),
        )
        self.compare(
            'openstack-flavor-passthrough.txt',
            *('flavor', 'create', 'whole-2', '--passthrough', 'A40'),
            *('--count', '2', *SIZE, '--dry-run'),
        )
        self.compare('openstack-image-set.txt', 'image', 'set', 'ubuntu-24.04')

    def test_a_flavor_is_created_once(self) -> None:
        words = ('flavor', 'create', '<b>GPU</b>', '--type', 'nvidia a40-8q')
        self.addCleanup(self.delete, '<b>GPU</b>')
        results = []
        for _ in range(2):
            code, stdout, stderr = self.run_command(
                *words, *SIZE, '--private', '-f', 'json'
            )
            self.assertEqual((0, ''), (code, stderr))
            results.append(json.loads(stdout))
        made = self.find('<b>GPU</b>')
        assert made is not None
        self.assertEqual('created', results[0]['result'])
        self.assertEqual(results[0] | {'result': 'unchanged'}, results[1])
        self.assertEqual(SPECS, results[0]['extra_specs'])
        self.assertEqual(made.id, results[0]['id'])
        self.assertEqual(SPECS, dict(made.extra_specs))
        self.assertEqual(flavors.Size(4, 16384, 40), made.size)
        self.assertFalse(made.is_public)

    def test_bad_words_are_refused_at_once(self) -> None:
        code, stdout, stderr = self.run_command(
            *('flavor', 'create', 'a\x1b[2J', '--type', 'x', *SIZE),
            *('--count', '0'),
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn(r'The name "a\x1b[2J" is not valid', stderr)
        self.assertIn('--count 0 is too small: at least 1.', stderr)
        self.assertNotIn('\x1b', stderr)

    def test_an_unknown_type_is_refused(self) -> None:
        code, stdout, stderr = self.run_command(
            *('flavor', 'create', 'x', '--type', 'A40-9Q', *SIZE)
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('Did you mean A40-8Q?', stderr)
        self.assertIn('Types with GPUs: A40-8Q, L40S-24Q, T4-2Q.', stderr)

    def test_an_ordinary_user_is_told_what_role_is_required(self) -> None:
        code, stdout, stderr = self.run_command(
            *('flavor', 'create', 'x', '--type', 'A40-8Q', *SIZE), **ALICE
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('requires the role "admin"', stderr)
        self.assertEqual(1, len(stderr.strip().splitlines()), stderr)

    # -- create -------------------------------------------------------------

    def test_a_dry_run_changes_nothing(self) -> None:
        outcome = self.ensure(is_dry_run=True)
        self.assertEqual(CREATED, outcome.change.result)
        self.assertEqual([], self.nova.writes)
        self.assertIsNone(self.find())

    def test_nova_accepts_all_that_is_made(self) -> None:
        for changes in (
            {'page_size': 'large'},
            {'page_size': '2MiB', 'count': 2},
            {'type': 'T4-2Q', 'count': 2},
            {
                'type': 'T4-2Q',
                'count': 2,
                'policy': flavor_order.Policy.DIFFERENT_GPUS,
            },
            {'count': 3, 'policy': flavor_order.Policy.ANY},
            {'type': 'L40S-24Q'},
        ):
            outcome = self.ensure(**changes)
            self.assertEqual(CREATED, outcome.change.result)
            found = self.find()
            assert found is not None
            self.assertEqual(outcome.flavor, found)
            self.assertEqual(
                UNCHANGED, self.ensure(**changes).change.result, str(changes)
            )
            self.delete(REQUEST.name)

    def test_nova_has_no_extra_spec_for_the_firmware(self) -> None:
        """It refuses what would be one, so there is no option for it."""
        made = self.ensure().flavor
        for key in ('hw:firmware_type', 'hw:machine_type', 'hw:hugepages'):
            wrong = flavor_change.Change(UPDATED, ((key, 'uefi'),))
            error = self.assertRaises(
                exception.CloudError, self.store.update, made, wrong
            )
            self.assertIn('Validation failed', str(error))

    def break_nova(self, *numbers: int, fault: proxy.Fault) -> None:
        """Let requests to Nova fail, as counted from the first write."""
        self.ensure(is_dry_run=True)
        reads = len(self.nova.seen)
        failing = {reads + number for number in numbers}
        self.nova.reset(lambda n: fault if n in failing else None)

    def test_a_flavor_without_extra_specs_is_deleted_again(self) -> None:
        self.break_nova(1, fault=proxy.Fault.UNAVAILABLE)
        error = self.assertRaises(exception.CloudError, self.ensure)
        self.assertIn('Nova did not set the extra specs', str(error))
        self.assertEqual(
            ['POST', 'POST', 'DELETE'], [s.method for s in self.nova.writes]
        )
        self.assertIsNone(self.find())

    def test_a_flavor_without_extra_specs_is_completed(self) -> None:
        self.break_nova(1, 2, fault=proxy.Fault.CUT_BEFORE)
        error = self.assertRaises(exception.CloudError, self.ensure)
        self.assertIn('exists without extra specs', str(error))
        self.assertIn('Do the same again', str(error))
        found = self.find()
        assert found is not None
        self.assertEqual((), found.extra_specs)
        self.assertEqual(UPDATED, self.ensure().change.result)
        found = self.find()
        assert found is not None
        self.assertEqual(SPECS, dict(found.extra_specs))

    def test_an_answer_that_is_lost_is_no_harm(self) -> None:
        self.break_nova(0, fault=proxy.Fault.CUT_AFTER)
        self.assertRaises(exception.CloudError, self.ensure)
        self.assertEqual(UPDATED, self.ensure().change.result)
        self.assertEqual(UNCHANGED, self.ensure().change.result)

    def test_nothing_is_written_while_placement_fails(self) -> None:
        self.cloud.proxies['placement'].reset(
            lambda _number: proxy.Fault.UNAVAILABLE
        )
        self.reader = reader.Cloud(
            self.connection,
            dataclasses.replace(placements.PATIENT, deadline=0.05),
        )
        self.assertIn(
            'Placement does not answer', self.refuse(exception.PlacementError)
        )

    def test_another_size_is_refused(self) -> None:
        self.ensure()
        self.assertIn(
            '16384 MiB of RAM instead of 8192',
            self.refuse(
                exception.FlavorConflict, size=flavors.Size(4, 8192, 40)
            ),
        )

    def test_a_flavor_that_no_server_uses_is_changed(self) -> None:
        made = self.ensure(type='T4-2Q', count=2, page_size='large').flavor
        own = {'quota:cpu_shares': '10'}
        self.connection.compute.create_flavor_extra_specs(made.id, own)
        self.nova.reset()
        self.assertEqual(UPDATED, self.ensure().change.result)
        # Never without a request for a vGPU.
        methods = [seen.method for seen in self.nova.writes]
        self.assertEqual(['POST', 'DELETE', 'DELETE', 'DELETE'], methods)
        found = self.find()
        assert found is not None
        self.assertEqual(SPECS | own, dict(found.extra_specs))
        self.assertEqual(made.id, found.id)

    def test_a_flavor_in_use_is_refused(self) -> None:
        made = self.ensure().flavor
        with self.server_of(made) as server:
            self.assertEqual(UNCHANGED, self.ensure().change.result)
            text = self.refuse(exception.FlavorConflict, type='T4-2Q')
            asked = [s for s in self.nova.seen if '/servers' in s.path]
            code, stdout, stderr = self.run_command(
                *('flavor', 'create', 'render', '--type', 'T4-2Q', *SIZE)
            )
        self.assertIn(f'in use, for example by server {server}', text)
        self.assertIn('limit=1', asked[0].path)
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn(text, ' '.join(stderr.split()))

    @contextlib.contextmanager
    def server_of(self, flavor: flavors.Flavor) -> typing.Iterator[str]:
        """A server of another project, as Nova's databases have it."""
        server = scene.SERVERS[0]
        with contextlib.closing(
            sqlite3.connect(self.cloud.path / 'nova_api.sqlite')
        ) as database:
            (number,) = database.execute(
                'SELECT id FROM flavors WHERE flavorid = ?', (flavor.id,)
            ).fetchone()
        self.set_flavor(server.uuid, number)
        yield f'{server.name} ({server.uuid})'
        self.set_flavor(server.uuid, None)

    def set_flavor(self, server: str, number: int | None) -> None:
        with contextlib.closing(
            sqlite3.connect(self.cloud.path / 'nova_cell1.sqlite')
        ) as database:
            database.execute(
                'UPDATE instances SET instance_type_id = ? WHERE uuid = ?',
                (number, server),
            )
            database.commit()

    def test_a_type_whose_gpus_are_fenced_is_refused(self) -> None:
        self.ensure()
        gpu = scene.GPUS[2]
        stock = {'total': 6, 'max_unit': 6}
        fence = {'VGPU': stock | {'reserved': 6}}
        self.placement.set(gpu.uuid, 'inventories', fence)
        try:
            self.assertEqual(UNCHANGED, self.ensure().change.result)
            text = self.refuse(exception.NotInCloud, name='other')
        finally:
            self.placement.set(gpu.uuid, 'inventories', {'VGPU': stock})
        self.assertIn('No GPU can serve a new vGPU of type A40-8Q', text)
        self.assertIn('0000:41:00.0 on compute2', text)

    def test_too_many_vgpus_are_refused(self) -> None:
        self.assertIn(
            'No GPU has 1000000000 vGPUs of type A40-8Q: the most is 6',
            self.refuse(exception.NotInCloud, count=10**9),
        )

    # -- whole GPUs ---------------------------------------------------------

    def test_whole_gpus_are_ordered_once(self) -> None:
        name = '<i>whole</i>'
        self.addCleanup(self.delete, name)
        code, stdout, stderr = self.run_command(
            *('flavor', 'create', name, '--passthrough', 'nvidia a40'),
            *('--count', '2', *SIZE, '-f', 'json'),
        )
        self.assertEqual((0, ''), (code, stderr))
        shown = json.loads(stdout)
        specs = {'pci_passthrough:alias': 'gpu-A40:2'}
        self.assertEqual(
            ('created', None, 0, 'A40', 2, specs),
            tuple(shown[key] for key in ('result', 'type', 'vgpus'))
            + tuple(shown[key] for key in ('passthrough', 'gpus'))
            + (shown['extra_specs'],),
        )
        found = self.find(name)
        assert found is not None
        self.assertEqual(specs, dict(found.extra_specs))
        again = self.ensure(name=name, **WHOLE | {'count': 2})
        self.assertEqual(UNCHANGED, again.change.result)

    def test_whole_gpus_that_cannot_be_ordered(self) -> None:
        for model, changes, words in (
            ('T4', {}, 'serve vGPUs: T4-2Q. For these, use --type.'),
            ('A40', {'count': 4}, 'the most is 3'),
            ('A04', {}, 'Did you mean A40?'),
            ('10de:1e30', {}, 'are ambiguous: RTX6000, RTX8000.'),
        ):
            changes = WHOLE | {'passthrough': model} | changes
            text = self.refuse(exception.NotInCloud, **changes)
            self.assertIn(words, text)
        for options, expected in (
            (('--passthrough', 'a\x1b[2J'), r'Model a\x1b[2J is not known.'),
            (
                ('--passthrough', 'A40', '--type', 'A40-8Q'),
                'not allowed with argument',
            ),
        ):
            code, stdout, stderr = self.run_command(
                'flavor', 'create', 'x', *options, *SIZE
            )
            self.assertNotEqual(0, code)
            self.assertEqual('', stdout)
            self.assertIn(expected, ' '.join(stderr.split()))
            self.assertNotIn('\x1b', stderr)

    def test_an_ordinary_user_cannot_order_whole_gpus(self) -> None:
        code, stdout, stderr = self.run_command(
            *('flavor', 'create', 'x', '--passthrough', 'A40', *SIZE), **ALICE
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('requires the role "admin"', stderr)

    def test_a_flavor_of_whole_gpus_in_use_is_refused(self) -> None:
        made = self.ensure(**WHOLE).flavor
        with self.server_of(made) as server:
            self.assertEqual(UNCHANGED, self.ensure(**WHOLE).change.result)
            for changes in (WHOLE | {'count': 2}, {}):
                text = self.refuse(exception.FlavorConflict, **changes)
                self.assertIn(f'example by server {server}', text)
        self.assertEqual(UPDATED, self.ensure().change.result)
        found = self.find()
        assert found is not None
        self.assertEqual(SPECS, dict(found.extra_specs))

    def test_whole_gpus_that_are_reserved_are_refused(self) -> None:
        self.ensure(**WHOLE)
        for gpu in scene.WHOLE_GPUS:
            stock = {gpu.resource_class: {'total': 1, 'max_unit': 1}}
            self.addCleanup(self.placement.set, gpu.uuid, 'inventories', stock)
            fence = {gpu.resource_class: {'total': 1, 'reserved': 1}}
            self.placement.set(gpu.uuid, 'inventories', fence)
        self.assertEqual(UNCHANGED, self.ensure(**WHOLE).change.result)
        text = self.refuse(exception.NotInCloud, name='other', **WHOLE)
        self.assertIn('No new server can get a whole GPU of model A40', text)
        self.assertIn('0000:c1:00.0 on compute1', text)

    def test_so_many_servers_with_whole_gpus_fit_as_are_said(self) -> None:
        big = flavors.Size(1, scene.MEMORY * 2 // 3, 1)
        for expected, changes in (
            (1 + 2, {}),
            (1 + 1, {'size': big}),
            (0 + 1, {'count': 2}),
            (0, {'count': 3}),
        ):
            flavor = self.ensure(is_dry_run=True, **WHOLE | changes).flavor
            room = flavor_listing.count_room(self.reader, flavor)
            self.assertEqual(flavor_listing.Room(expected), room, str(changes))
            # Nova makes a group for each GPU.
            query = flavor_query.make_query(flavor) | {
                f'resources_pci{number}': 'CUSTOM_GPU_A40:1'
                for number in range(int(str(changes.get('count', 1))))
            }
            query['group_policy'] = 'none'
            self.assertEqual(expected, self.fill(query), str(changes))

    # -- list ---------------------------------------------------------------

    def fill(self, query: dict[str, str]) -> int:
        """Place servers until Placement finds no room for another one."""
        made = []
        path = '/allocation_candidates?' + '&'.join(
            f'{key}={value}' for key, value in query.items()
        )
        while found := self.placement.call('GET', path)['allocation_requests']:
            made.append(str(uuid.uuid4()))
            body = found[0] | {
                'consumer_generation': None,
                'consumer_type': 'INSTANCE',
                'project_id': 'project',
                'user_id': 'user',
            }
            self.placement.call('PUT', f'/allocations/{made[-1]}', body)
        for consumer in made:
            self.placement.call('DELETE', f'/allocations/{consumer}')
        return len(made)

    def test_so_many_servers_fit_as_are_said(self) -> None:
        half = flavors.Size(1, scene.MEMORY // 2, 1)
        different = flavor_order.Policy.DIFFERENT_GPUS
        for expected, changes in (
            (13, {'type': 'T4-2Q'}),
            (3 + 3, {'type': 'T4-2Q', 'count': 2}),
            (6, {'type': 'T4-2Q', 'count': 2, 'policy': different}),
            (2, {'type': 'T4-2Q', 'size': half}),
            (0, {'type': 'L40S-24Q'}),
        ):
            flavor = self.ensure(is_dry_run=True, **changes).flavor
            room = flavor_listing.count_room(self.reader, flavor)
            self.assertEqual(flavor_listing.Room(expected), room, str(changes))
            query = flavor_query.make_query(flavor)
            self.assertEqual(expected, self.fill(query), str(changes))

    def test_a_disabled_host_has_no_room(self) -> None:
        traits = ['COMPUTE_STATUS_DISABLED']
        host = scene.uuid_of('compute2')
        self.placement.set(host, 'traits', traits)
        room = flavor_listing.count_room(
            self.reader, self.ensure(is_dry_run=True).flavor
        )
        self.placement.set(host, 'traits', [])
        self.assertEqual(0, room.servers)

    def test_one_request_for_each_flavor(self) -> None:
        gpus = self.reader.list_gpus()
        listed = flavor_listing.list_vgpu_flavors(
            self.reader.list_flavors(), gpus
        )
        before = self.count_requests(listed)
        consumer = str(uuid.uuid4())
        self.placement.allocate(consumer, scene.GPUS[0].uuid, 'VGPU', 5)
        after = self.count_requests(listed)
        self.placement.call('DELETE', f'/allocations/{consumer}')
        self.assertEqual((len(listed), len(listed)), (before, after))

    def count_requests(
        self, listed: tuple[flavor_listing.VGPUFlavor, ...]
    ) -> int:
        self.cloud.proxies['placement'].reset()
        for each in listed:
            flavor_listing.count_room(self.reader, each.flavor)
        return len(self.cloud.proxies['placement'].seen)

    def test_what_placement_does_not_know_has_no_room(self) -> None:
        for extra_specs, reason in (
            ({'resources:CUSTOM_GONE': '1'}, 'CUSTOM_GONE'),
            (
                {'resources:VGPU': '1', 'trait:CUSTOM_NO': 'required'},
                'CUSTOM_NO',
            ),
            ({'resources1:VGPU': '1', 'resources2:VGPU': '1'}, 'group_policy'),
        ):
            flavor = flavors.parse('x', extra_specs)
            room = flavor_listing.count_room(self.reader, flavor)
            self.assertEqual(0, room.servers)
            self.assertIn(reason, str(room.refusal))

    # -- images -------------------------------------------------------------

    def make_image(self, name: str, identity: str | None = None) -> str:
        body = {
            'id': identity or str(uuid.uuid4()),
            'name': name,
            'disk_format': 'raw',
            'container_format': 'bare',
            'visibility': 'public',
            'os_distro': 'ubuntu',
            'mine': 'stays',
        }
        self.connection.image.post('/images', json=body).raise_for_status()
        self.addCleanup(self.connection.image.delete_image, body['id'])
        return body['id']

    def read_image(self, identity: str) -> dict[str, typing.Any]:
        found: dict[str, typing.Any] = self.connection.image.get(
            f'/images/{identity}'
        ).json()
        return found

    def test_properties_are_set_and_others_stay(self) -> None:
        identity = self.make_image('windows')
        store = image_store.ImageStore(self.connection)
        before = self.read_image(identity)
        for name in ('windows', identity):
            image = store.find(name)
            store.set(image, {'hw_firmware_type': 'uefi'})
            store.set(image, {'hw_machine_type': 'q35'})
            after = self.read_image(identity)
            self.assertEqual(
                before
                | {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'},
                after | {'updated_at': before['updated_at']},
            )
            self.assertEqual(
                image_store.Image(identity, 'windows', 'uefi', 'q35'),
                store.find(name),
            )

    def test_nothing_is_written_without_need(self) -> None:
        identity = self.make_image('once')
        glance = self.cloud.proxies['image']
        results = []
        for options in (('--dry-run',), ()):
            glance.reset()
            code, stdout, stderr = self.run_command(
                *('image', 'set', 'once', *options, '--machine', 'q35'),
                *('-f', 'json'),
            )
            self.assertEqual((0, ''), (code, stderr))
            results.append(json.loads(stdout))
            self.assertEqual([], glance.writes)
            store = image_store.ImageStore(self.connection)
            store.set(store.find(identity), {'hw_machine_type': 'q35'})
        shown = {
            'name': 'once',
            'id': identity,
            'result': 'updated',
            'dry_run': True,
            'hw_firmware_type': None,
            'hw_machine_type': 'q35',
        }
        unchanged = {'result': 'unchanged', 'dry_run': False}
        self.assertEqual([shown, shown | unchanged], results)

    def test_images_that_cannot_be_changed(self) -> None:
        first, second = self.make_image('twice'), self.make_image('twice')
        store = image_store.ImageStore(self.connection)
        error = self.assertRaises(exception.NotInCloud, store.find, 'twice')
        for identity in (first, second):
            self.assertIn(identity, str(error))
        for name in ('no\x1bne', str(uuid.uuid4()), 'in:twice', '../flavors'):
            error = self.assertRaises(exception.NotInCloud, store.find, name)
            self.assertIn('Glance has no image', str(error))
            self.assertTrue(str(error).isprintable())
        code, stdout, stderr = self.run_command(
            *('image', 'set', first), **ALICE
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn(
            f'Glance does not permit you to change image twice ({first})',
            stderr,
        )
        self.assertNotIn('hw_firmware_type', self.read_image(first))
