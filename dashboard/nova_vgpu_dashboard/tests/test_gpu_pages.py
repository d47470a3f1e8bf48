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
from nova_vgpu_dashboard import picture
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
            'compute10 0000:42:00.0 A40 vGPU A40-8Q 1 of 6, 5 fenced 0 Fenced '
            'Warning',
            page.text,
        )
        self.assertIn(
            '0000:43:00.0 T4 vGPU T4-2Q 4 of 16 12 Free Good', page.text
        )
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
                *('Host', 'GPU', 'Model', 'Role', 'vGPU Types', 'Used'),
                *('Free', 'State', 'Health'),
            ],
            labels[:9],
        )

    def test_the_picture_tells_in_words_what_it_shows(self) -> None:
        page = self.read(base.GPUS)
        self.assertIn(
            'GPUs: 3, hosts: 3, vGPUs used: 11 of 28, fenced: 1', page.text
        )
        self.assertIn(
            'A40, GPUs: 2, used: 7 of 12 (58 %), fenced: 1', page.text
        )
        self.assertIn('?model=A40&type=A40-8Q', page.links())

    def test_the_picture_leads_to_what_it_shows(self) -> None:
        several = (*clouds.A40, 'CUSTOM_VGPU_TYPE_A40_4Q')
        self.cloud.gpus = (
            clouds.gpu('known'),
            clouds.gpu('unknown', traits=()),
            clouds.gpu('several', traits=several),
            clouds.gpu('no-type', traits=('CUSTOM_GPU_MODEL_A40',)),
            clouds.whole('whole'),
        )
        found = [
            self.list_hosts(group.query)
            for group in picture.make_fleet(self.cloud.gpus).groups
        ]
        self.assertEqual(
            [
                *(['whole'], ['no-type'], ['several']),
                *(['known', 'several'], ['unknown']),
            ],
            found,
        )

    def test_unknown_models_and_types_can_be_chosen(self) -> None:
        self.cloud.gpus = (FREE, clouds.gpu('unknown', traits=()))
        self.assertEqual(['unknown'], self.list_hosts('type=unknown'))
        page = self.read(base.GPUS, 'model=unknown')
        self.assertEqual(3, len(page.find('option', value='unknown')))
        self.cloud.gpus = (FREE,)
        page = self.read(base.GPUS)
        self.assertEqual(1, len(page.find('option', value='unknown')))

    def test_a_whole_gpu_has_a_row(self) -> None:
        self.cloud.gpus = (BUSY, clouds.whole('compute4', used=1))
        page = self.read(base.GPUS)
        self.assertIn(
            'compute4 0000:c1:00.0 A40 Passthrough - 1 of 1 0 Full Good',
            page.text,
        )
        self.assertIn(
            'GPUs: 2, hosts: 2, vGPUs used: 6 of 6, whole GPUs used: 1 of 1',
            page.text,
        )
        self.assertIn('Passthrough A40, GPUs: 1, used: 1 of 1', page.text)
        self.assertIn('?model=A40&role=passthrough', page.links())
        self.assertEqual(['compute4'], self.list_hosts('role=passthrough'))
        self.assertEqual(['compute2'], self.list_hosts('role=vGPU'))

    def test_problems_are_those_of_the_doctor(self) -> None:
        self.cloud.nodes = ('compute2', 'compute9')
        self.cloud.flavors = (clouds.flavor('lost', resources__VGPU='99'),)
        page = self.read(base.GPUS)
        for text in (
            'Error flavor-too-large Flavor lost asks for 99 VGPU',
            'Warning host-unknown Nova does not list a compute node compute10',
            'Warning gpu-fenced GPU 0000:42:00.0 of host compute10 is fenced',
            'compute10_pci_0000_42_00_0: reserved: 5, used: 1',
            'Cure: If it is to serve, see "nova-vgpu doctor" on the host.',
        ):
            self.assertIn(text, page.text)

    def test_problems_of_one_kind_are_one(self) -> None:
        self.cloud.gpus = tuple(
            clouds.gpu(f'compute{number}', '42', 1, 1, 5)
            for number in range(1000)
        )
        page = self.read(base.GPUS)
        self.assertIn('And 999 more of this kind.', page.text)
        self.assertEqual(1, len(page.find('details')))

    def test_no_problem(self) -> None:
        self.cloud.gpus = (FREE,)
        self.cloud.flavors = (clouds.flavor('any', resources__VGPU='1'),)
        text = self.read(base.GPUS).text
        self.assertIn('Problems Placement and Nova know of none.', text)

    def test_gpus_are_shown_without_nova(self) -> None:
        self.cloud.flavor_failure = exception.CloudError('Nova is down.')
        page = self.read(base.GPUS)
        self.assertIn('Problems are unknown. Nova is down.', page.text)
        self.assertIn('4 of 16 12 Free Unknown', page.text)
        self.assertEqual(3, len(self.list_hosts('health=unknown')))

    def test_gpus_that_serve_nothing_are_elsewhere(self) -> None:
        text = self.read(base.GPUS).text
        self.assertIn('"nova-vgpu gpu list" on a host shows them.', text)

    def test_the_picture_of_many_gpus_is_small(self) -> None:
        self.cloud.gpus = tuple(
            clouds.gpu(f'compute{number}', used=3) for number in range(1000)
        )
        response = self.open(base.GPUS)
        page = base.parse(response)
        self.assertIn('A tile stands for up to 5 GPUs', page.text)
        (frames,) = page.find('path', **{'class': 'nova-vgpu-frame'})
        self.assertEqual(200, (frames['d'] or '').count('M'))

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
            ('role=vGPU', ['compute2', 'compute9', 'compute10']),
            ('role=passthrough', []),
            ('health=good', ['compute2', 'compute9']),
            ('health=warning', ['compute10']),
            ('health=error', []),
            ('free=1', ['compute9']),
            ('free=12', ['compute9']),
            ('free=13', []),
            ('free=0', ['compute2', 'compute9', 'compute10']),
            ('free=many', ['compute2', 'compute9', 'compute10']),
            ('model=nothing', []),
        ):
            self.assertEqual(hosts, self.list_hosts(query), query)

    def test_a_filter_without_a_match_says_so(self) -> None:
        page = self.read(base.GPUS, 'model=nothing')
        self.assertIn('No GPU matches the filters.', page.text)
        self.assertNotIn('0 to 0 of 0', page.text)

    def test_a_filter_stays_in_its_field(self) -> None:
        page = self.read(base.GPUS, 'host=e1&state=fenced&free=0')
        self.assertEqual('0', page.find('input', name='free')[0]['value'])
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
            ('-health', ['compute10', 'compute2', 'compute9']),
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
            consumers.Consumer(
                *(server, 2, 'desktop-1', clouds.PROJECT, 'SHUTOFF'),
                classes=('CUSTOM_X', 'VGPU'),
            ),
            consumers.Consumer(clouds.uuid_of('gone'), 1, None, 'f00d'),
            consumers.Consumer(clouds.uuid_of('odd'), 1, 'odd', None),
        )
        page = self.read_gpu()
        self.assertIn('desktop-1 SHUTOFF 2 CUSTOM_X, VGPU research', page.text)
        self.assertIn(f'/admin/instances/{server}/detail', page.links())
        self.assertIn(f'/identity/{clouds.PROJECT}/detail/', page.links())
        self.assertIn('Not a server on this host', page.text)
        self.assertIn('f00d', page.text, 'the id of a project without a name')

    def test_projects_have_ids_without_keystone(self) -> None:
        self.cloud.connection.identity.failure = ksa_exceptions.Forbidden()
        self.cloud.consumers = (
            consumers.Consumer(clouds.uuid_of('s'), 1, 's', clouds.PROJECT),
        )
        self.assertIn(f's unknown 1 {clouds.PROJECT}', self.read_gpu().text)

    def test_the_page_is_shown_without_the_names_of_servers(self) -> None:
        self.cloud.consumer_failure = exception.CloudError(
            'Nova does not permit you to list servers'
        )
        page = self.read_gpu()
        self.assertIn(
            'The servers that use this GPU are unknown. Nova does not permit '
            'you to list servers',
            page.text,
        )
        self.assertNotIn('No server uses this GPU.', page.text)
        self.assertIn('VGPU 6 of 6 used', page.text)

    def test_a_whole_gpu(self) -> None:
        gpu = clouds.whole('compute2', used=1)
        self.cloud.gpus = (BUSY, gpu)
        self.cloud.consumers = (
            consumers.Consumer(
                *(clouds.uuid_of('s'), 1, 's', clouds.PROJECT, 'ACTIVE'),
                classes=('CUSTOM_GPU_A40',),
            ),
        )
        page = self.read(base.GPU, args=[gpu.uuid])
        for text in (
            'Role Passthrough',
            'GPUs Resource Class Project s ACTIVE 1 CUSTOM_GPU_A40 research',
            '[pci] report_in_placement = true',
        ):
            self.assertIn(text, page.text)
        self.assertNotIn('Frame buffer', page.text)

    def test_neighbours(self) -> None:
        traits = (*clouds.WHOLE, 'CUSTOM_NVLINK_ISLAND_0')
        gpu = clouds.whole('compute2', 'C1', traits=traits)
        near = clouds.whole('compute2', 'C2', traits=traits)
        self.cloud.gpus = (BUSY, gpu, near, FREE)
        page = self.read(base.GPU, args=[gpu.uuid])
        self.assertIn(
            'Other GPUs of compute2 0000:c2:00.0 A40, same island: NVLink 0 '
            '0000:41:00.0 A40 GPUs reach each other',
            page.text,
        )
        self.assertIn(f'/admin/gpus/{near.uuid}/', page.links())
        self.assertIn(f'/admin/gpus/{BUSY.uuid}/', page.links())
        self.assertNotIn(f'/admin/gpus/{FREE.uuid}/', page.links())

    def test_problems_of_a_gpu(self) -> None:
        bare = clouds.gpu('compute2', '44', traits=())
        self.cloud.gpus = (BUSY, FENCED, bare)
        page = self.read(base.GPU, args=[FENCED.uuid])
        self.assertIn('Warning gpu-fenced GPU 0000:42:00.0', page.text)
        page = self.read(base.GPU, args=[bare.uuid])
        self.assertIn('traits-missing', page.text)
        text = self.read_gpu().text
        self.assertIn('Problems Placement and Nova know of none.', text)

    def test_problems_of_a_gpu_are_unknown_without_nova(self) -> None:
        self.cloud.flavor_failure = exception.CloudError('Nova is down.')
        text = self.read_gpu().text
        self.assertIn('Health Unknown', text)
        self.assertIn('Problems are unknown. Nova is down.', text)

    def test_a_gpu_is_unknown_without_placement(self) -> None:
        self.cloud.failure = exception.PlacementError('It does not answer.')
        page = self.read_gpu()
        self.assertIn('The GPUs of the cloud are unknown.', page.text)
        self.assertIn('It does not answer.', page.text)

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
