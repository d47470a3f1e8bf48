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

import types
import typing
from unittest import mock

from django.conf import settings
from horizon import tabs as horizon_tabs
from openstack_dashboard.dashboards.admin.instances import tabs as admin_tabs
from openstack_dashboard.dashboards.project.instances import tabs

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds
from nova_vgpu_dashboard.tests import test_hostile_names

SERVER = clouds.uuid_of('server')
PATH = f'/allocations/{SERVER}'
VGPU = {
    'resources:VGPU': '1',
    'trait:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
}


def whole_gpu(host: str) -> fleet.GPU:
    return fleet.GPU(
        clouds.uuid_of(f'whole {host}'),
        host,
        '0000:C1:00.0',
        (fleet.Stock('CUSTOM_GPU_A40', 1, 1, 0),),
        frozenset(
            {
                'COMPUTE_MANAGED_PCI_DEVICE',
                'CUSTOM_GPU_MODEL_A40',
                'CUSTOM_GPU_VENDOR_NVIDIA',
            }
        ),
    )


class _Tab:
    """To be mixed with pages: the tab of an instance."""

    cloud: clouds.Cloud
    factory: typing.Any
    request: typing.Any
    group: type[horizon_tabs.TabGroup] = tabs.InstanceDetailTabs

    def find(
        self,
        specs: dict[str, str] | None = VGPU,
        flavor: str = 'render',
    ) -> typing.Any:
        """The tab, as Horizon finds it; None if there is none."""
        embedded: dict[str, typing.Any] = {'original_name': flavor}
        if specs is not None:
            embedded['extra_specs'] = specs
        instance = types.SimpleNamespace(
            id=SERVER, name='server', flavor=embedded, tenant_id='p'
        )
        request = self.factory.get('/', {'tab': 'instance_details__vgpus'})
        request.user = self.request.user
        # Horizon's own tabs would ask services.
        with mock.patch.object(self.group, 'tabs', ()):
            return self.group(request, instance=instance).get_tab('vgpus')

    def render(self, **instance: typing.Any) -> base.Parser:
        parser = base.Parser()
        parser.feed(
            f'<p id="content_body">{self.find(**instance).render()}</p>'
        )
        return parser


class TestTabOfAUser(_Tab, base.UserPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.services.answers[PATH] = exception.PlacementForbidden('no')

    def test_the_flavor_in_words(self) -> None:
        self.assertIn(
            'Flavor render vGPUs and GPUs 1 vGPU of A40-8Q, 8 GiB',
            self.render().text,
        )

    def test_placement_is_asked_once_and_refuses(self) -> None:
        text = self.render().text
        self.assertIn('Only administrators can see which GPUs', text)
        self.assertEqual([PATH], self.cloud.services.paths)

    def test_an_instance_without_vgpus_has_no_tab(self) -> None:
        self.assertIsNone(self.find({}))
        self.assertIsNone(self.find({'hw:cpu_policy': 'dedicated'}))
        self.assertEqual([], self.cloud.services.paths)

    def test_nova_does_not_tell_the_extra_specs(self) -> None:
        self.assertIsNone(self.find(None))

    def test_the_tab_costs_no_request_until_it_is_opened(self) -> None:
        self.assertIsNotNone(self.find())
        self.assertFalse(self.find().preload)
        self.assertEqual([], self.cloud.services.paths)

    def test_a_hostile_flavor(self) -> None:
        html = self.find(flavor=test_hostile_names.ATTACK).render()
        self.assertIn('attack onclick', html)
        self.assertNotIn('<attack', html)
        self.assertNotIn('{$attack', html)

    def test_placement_does_not_answer(self) -> None:
        self.cloud.services.answers[PATH] = exception.PlacementError(
            test_hostile_names.ATTACK
        )
        html = self.find().render()
        self.assertIn('The GPUs of this server are unknown.', html)
        self.assertIn('attack onclick', html)
        self.assertNotIn('<attack', html)

    def test_another_policy_lets_a_user_see_gpus_without_links(self) -> None:
        gpu = clouds.gpu('compute1')
        self.cloud.gpus = (gpu,)
        self.cloud.services.answers[PATH] = {
            'allocations': {gpu.uuid: {'resources': {'VGPU': 1}}}
        }
        page = self.render()
        self.assertIn('0000:41:00.0 compute1', page.text)
        self.assertEqual([], page.links())


class TestTabOfAnAdministrator(_Tab, base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.gpu = clouds.gpu('compute1')
        self.whole = whole_gpu('compute1')
        self.cloud.gpus = (self.gpu, clouds.gpu('compute2'))
        self.cloud.whole = (self.whole,)
        self.cloud.services.answers[PATH] = {
            'allocations': {
                clouds.uuid_of('compute1'): {'resources': {'VCPU': 8}},
                self.gpu.uuid: {'resources': {'VGPU': 2}},
                self.whole.uuid: {'resources': {'CUSTOM_GPU_A40': 1}},
            }
        }

    def test_gpus_with_resource_classes(self) -> None:
        page = self.render()
        self.assertIn('0000:41:00.0 compute1 A40-8Q VGPU 2', page.text)
        self.assertIn('0000:c1:00.0 compute1 A40 CUSTOM_GPU_A40 1', page.text)
        self.assertNotIn('compute2', page.text)
        self.assertNotIn('VCPU', page.text)

    def test_gpus_are_linked(self) -> None:
        self.assertEqual(
            [
                f'/admin/gpus/{self.gpu.uuid}/',
                f'/admin/gpus/{self.whole.uuid}/',
            ],
            self.render().links(),
        )

    def test_a_server_without_a_host(self) -> None:
        self.cloud.services.answers[PATH] = {'allocations': {}}
        text = self.render().text
        self.assertIn('The server has no GPU at the moment', text)

    def test_a_hostile_host(self) -> None:
        gpu = clouds.gpu(test_hostile_names.ATTACK, traits=('X',))
        self.cloud.gpus = (gpu,)
        self.cloud.services.answers[PATH] = {
            'allocations': {gpu.uuid: {'resources': {'VGPU': 1}}}
        }
        html = self.find().render()
        self.assertIn('attack onclick', html)
        self.assertNotIn('<attack', html)
        self.assertNotIn('{$attack', html)


class TestTabOfAdminPages(TestTabOfAnAdministrator):
    """The page of an instance below Admin has the same tab."""

    group = admin_tabs.AdminInstanceDetailTabs

    def test_horizon_knows_both_groups_of_tabs(self) -> None:
        self.assertEqual(2, len(settings.HORIZON_CONFIG['extra_tabs']))
