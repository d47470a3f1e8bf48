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

from unittest import mock
import urllib.parse

from django import urls
from django.conf import settings
from horizon import exceptions
from keystoneauth1 import exceptions as ksa_exceptions

from nova_vgpu import exception
from nova_vgpu.cloud.usage import consumers
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds

BUSY = clouds.gpu('compute2', used=6)
FENCED = clouds.gpu('compute10', '42', 1, 1, 5)
FREE = clouds.gpu('compute9', '43', 16, 4, traits=clouds.T4)


class TestListOfGPUs(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (BUSY, FENCED, FREE)

    def list_hosts(self, query: str = '') -> list[str]:
        """The hosts of the rows, in their order."""
        page = self.read(base.GPUS, query)
        by_uuid = {gpu.uuid: gpu.host for gpu in self.cloud.gpus}
        rows = page.find('tr')
        return [
            by_uuid[row['data-object-id'] or '']
            for row in rows
            if 'data-object-id' in row
        ]

    def test_every_gpu_has_a_row(self) -> None:
        page = self.read(base.GPUS)
        self.assertIn(
            'compute10 0000:42:00.0 A40 vGPU A40-8Q 1 of 6, 5 fenced 0 Fenced',
            page.text,
        )
        self.assertIn('0000:43:00.0 T4 vGPU T4-2Q 4 of 16 12 Free', page.text)
        self.assertIn('6 of 6 0 Full', page.text)
        self.assertIn('1 to 3 of 3', page.text)
        self.assertIn(f'/admin/gpus/{BUSY.uuid}/', page.links())

    def test_a_cell_can_be_read_without_the_head_of_the_table(self) -> None:
        """In a narrow window each row is a card."""
        labels = [
            found['data-label']
            for found in self.read(base.GPUS).find('td')
            if 'data-label' in found
        ]
        self.assertEqual(
            [
                *('Host', 'GPU', 'Model', 'Role', 'vGPU Types', 'vGPUs Used'),
                *('Free', 'State'),
            ],
            labels[:8],
        )

    def test_the_picture_tells_in_words_what_it_shows(self) -> None:
        page = self.read(base.GPUS)
        self.assertIn(
            'GPUs: 3, hosts: 3, vGPUs used: 11 of 28, fenced: 1', page.text
        )
        self.assertIn(
            'A40, GPUs: 2, vGPUs used: 7 of 12, fenced: 1', page.text
        )
        self.assertIn('?model=A40&type=A40-8Q', page.links())

    def test_hosts_are_in_their_order(self) -> None:
        self.assertEqual(
            ['compute2', 'compute9', 'compute10'], self.list_hosts()
        )

    def test_filters(self) -> None:
        for query, hosts in (
            ('host=E10', ['compute10']),
            ('model=A40', ['compute2', 'compute10']),
            ('type=T4-2Q', ['compute9']),
            ('state=free', ['compute9']),
            ('state=full', ['compute2']),
            ('state=fenced', ['compute10']),
            ('model=A40&state=free', []),
            ('model=nothing', []),
        ):
            self.assertEqual(hosts, self.list_hosts(query), query)

    def test_a_filter_without_a_match_says_so(self) -> None:
        page = self.read(base.GPUS, 'model=nothing')
        self.assertIn('No GPU matches the filters.', page.text)

    def test_a_filter_stays_in_its_field(self) -> None:
        page = self.read(base.GPUS, 'host=e1&state=fenced')
        self.assertEqual('e1', page.find('input', name='host')[0]['value'])
        (chosen,) = (
            found
            for found in page.find('option', value='fenced')
            if 'selected' in found
        )
        self.assertEqual('fenced', chosen['value'])

    def test_orders(self) -> None:
        for sort, hosts in (
            ('-host', ['compute10', 'compute9', 'compute2']),
            ('usage', ['compute10', 'compute9', 'compute2']),
            ('-free', ['compute9', 'compute2', 'compute10']),
        ):
            self.assertEqual(hosts, self.list_hosts(f'sort={sort}'), sort)

    def test_a_column_says_that_it_is_in_order(self) -> None:
        page = self.read(base.GPUS, 'sort=-free')
        orders = [found.get('aria-sort') for found in page.find('th')]
        self.assertEqual(1, orders.count('descending'))
        self.assertIn('?sort=free', page.links())

    def test_pages_keep_filter_and_order(self) -> None:
        self.cloud.gpus = tuple(
            clouds.gpu(f'compute{number}') for number in range(25)
        )
        self.client.cookies['API_RESULT_PAGE_SIZE'] = '10'
        query = 'model=A40&sort=-host&page=2'
        page = self.read(base.GPUS, query)
        self.assertIn('11 to 20 of 25', page.text)
        self.assertEqual(10, len(self.list_hosts(query)))
        self.assertIn('?model=A40&sort=-host', page.links())
        self.assertIn('?model=A40&sort=-host&page=3', page.links())
        self.assertIn(f'?{query}', page.links(), 'refresh')

    def test_a_size_of_pages_that_makes_no_sense(self) -> None:
        for size in ('0', '-3', 'x'):
            self.client.cookies['API_RESULT_PAGE_SIZE'] = size
            self.assertIn('of 3', self.read(base.GPUS).text)

    def test_no_gpu_at_all(self) -> None:
        self.cloud.gpus = ()
        page = self.read(base.GPUS)
        self.assertIn('Placement has no GPU yet.', page.text)
        self.assertEqual([], page.find('table', id='gpus'))

    def test_gpus_are_unknown_without_placement(self) -> None:
        self.cloud.failure = exception.PlacementError('It does not answer.')
        page = self.read(base.GPUS)
        self.assertIn('The GPUs of the cloud are unknown.', page.text)
        self.assertIn('It does not answer.', page.text)
        self.assertNotIn('Placement has no GPU yet.', page.text)


class TestExpiredToken(base.AdminPages):
    def test_every_page_leads_to_the_login_and_back(self) -> None:
        def refuse(_request: object) -> None:
            raise exceptions.NotAuthenticated

        with mock.patch.object(connection, 'connect', side_effect=refuse):
            for name, args in ((base.GPUS, ()), (base.GPU, (BUSY.uuid,))):
                response = self.open(name, args=args)
                self.assertEqual(302, response.status_code)
                self.assertIn(settings.LOGIN_URL, response['Location'])
                path = urls.reverse(name, args=args)
                self.assertIn(f'next={path}', response['Location'])


class TestPageOfAGPU(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (BUSY, FREE)

    def read_gpu(self) -> base.Parser:
        return self.read(base.GPU, args=[BUSY.uuid])

    def test_what_is_known_of_it(self) -> None:
        page = self.read_gpu()
        for text in (
            'GPU 0000:41:00.0 on compute2',
            'Series Q',
            '8192 MiB',
            'VGPU 6 of 6 used, 0 reserved, 0 free',
            'CUSTOM_GPU_MODEL_A40',
            'compute2_pci_0000_41_00_0',
            '[vgpu_A40-8Q] device_addresses = 0000:41:00.0',
            'No server uses this GPU.',
            'On compute2, "nova-vgpu gpu show 0000:41:00.0"',
        ):
            self.assertIn(text, page.text)

    def test_servers_lead_to_their_pages(self) -> None:
        server = clouds.uuid_of('server')
        self.cloud.consumers = (
            consumers.Consumer(server, 2, 'desktop-1', clouds.PROJECT),
            consumers.Consumer(clouds.uuid_of('gone'), 1, None, 'f00d'),
            consumers.Consumer(clouds.uuid_of('odd'), 1, 'odd', None),
        )
        page = self.read_gpu()
        self.assertIn('desktop-1 2 research', page.text)
        self.assertIn(f'/admin/instances/{server}/detail', page.links())
        self.assertIn(f'/identity/{clouds.PROJECT}/detail/', page.links())
        self.assertIn('Not a server on this host', page.text)
        self.assertIn('f00d', page.text, 'the id of a project without a name')

    def test_projects_have_ids_without_keystone(self) -> None:
        self.cloud.connection.identity.failure = ksa_exceptions.Forbidden()
        self.cloud.consumers = (
            consumers.Consumer(clouds.uuid_of('s'), 1, 's', clouds.PROJECT),
        )
        self.assertIn(f's 1 {clouds.PROJECT}', self.read_gpu().text)

    def test_a_gpu_of_novas_own_driver(self) -> None:
        unknown = clouds.gpu('compute3', traits=())
        self.cloud.gpus = (unknown,)
        page = self.read(base.GPU, args=[unknown.uuid])
        self.assertIn('Model unknown', page.text)
        self.assertIn('does not have the traits of exactly one', page.text)

    def test_a_gpu_that_is_gone_leads_back_to_the_list(self) -> None:
        response = self.open(base.GPU, args=[FENCED.uuid])
        self.assertEqual(
            (302, '/admin/gpus/'),
            (response.status_code, response['Location']),
        )
        page = self.read(base.GPUS)
        self.assertIn('Placement has no provider of a GPU', page.text)

    def test_nonsense_in_place_of_a_uuid(self) -> None:
        for text in ('x', urllib.parse.quote('<script>'), '..%2f'):
            response = self.client.get(f'/admin/gpus/{text}/')
            self.assertEqual(404, response.status_code, text)
