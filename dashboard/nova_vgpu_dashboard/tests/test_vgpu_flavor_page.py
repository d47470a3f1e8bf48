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

import typing

from nova_vgpu import exception
from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds
from nova_vgpu_dashboard.tests import test_instance_tab

#: The id of Nova in the catalog.
NOVA = clouds.uuid_of('nova')
DESKTOP = clouds.flavor(
    'desktop-10',
    resources__VGPU='1',
    trait__CUSTOM_VGPU_TYPE_T4_2Q='required',
)
RENDER = clouds.flavor(
    'desktop-9',
    resources1__VGPU='1',
    trait1__CUSTOM_VGPU_TYPE_A40_8Q='required',
    resources2__VGPU='1',
    trait2__CUSTOM_VGPU_TYPE_A40_8Q='required',
    group_policy='none',
)
PAIR = clouds.flavor('pair', resources__VGPU='2')
ANY = clouds.flavor('any', resources__VGPU='1')
WHOLE = clouds.flavor('whole', pci_passthrough__alias='gpu-A40:2')
PLAIN = clouds.flavor('plain')


def answer(
    used: int = 0, default: int | None = None, own: int | None = None
) -> dict[str, typing.Any]:
    """What Placement and Keystone tell about vGPUs and the project."""
    scope = {
        'resource_name': 'class:VGPU',
        'service_id': NOVA,
        'region_id': 'RegionOne',
    }
    registered = [scope | {'default_limit': default}]
    limits = [scope | {'resource_limit': own, 'project_id': '1'}]
    return {
        '/usages': {'usages': {'INSTANCE': {'VGPU': used, 'VCPU': 2}}},
        '/registered_limits': {
            'registered_limits': [] if default is None else registered
        },
        '/limits': {'limits': [] if own is None else limits},
    }


class TestFlavorsOfAProject(base.UserPages):
    """An ordinary user may open this page."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud.failure = exception.PlacementForbidden('no')
        self.cloud.services.answers = answer()
        self.cloud.flavors = (DESKTOP, RENDER, ANY, PLAIN)

    def test_flavors_with_vgpus(self) -> None:
        page = self.read(base.FLAVORS)
        self.assertIn(
            'any 1 vGPU of any type Unknown 1 0 0 desktop-9 '
            '2 vGPUs of A40-8Q, 8 GiB each, on up to 2 GPUs Unknown 1 0 0 '
            'desktop-10 1 vGPU of T4-2Q, 2 GiB Unknown 1 0 0',
            page.text,
        )
        self.assertNotIn('plain', page.text)

    def test_orders(self) -> None:
        page = self.read(base.FLAVORS, 'sort=-words')
        self.assertIn('Root Disk (GiB) desktop-9 2', page.text)

    def test_flavors_with_whole_gpus(self) -> None:
        self.cloud.flavors = (WHOLE,)
        page = self.read(base.FLAVORS)
        self.assertIn('whole 2 whole GPUs of model A40', page.text)

    def test_no_flavor_with_vgpus(self) -> None:
        self.cloud.flavors = (PLAIN,)
        page = self.read(base.FLAVORS)
        self.assertIn('No flavor that this project can use', page.text)

    def test_the_panel_is_in_the_navigation(self) -> None:
        links = self.read(base.FLAVORS).links()
        self.assertIn('/project/vgpu_flavors/', links)
        self.assertNotIn('/admin/gpus/', links)

    def test_nova_does_not_answer(self) -> None:
        self.cloud.flavor_failure = exception.CloudError('It does not answer.')
        page = self.read(base.FLAVORS)
        self.assertIn('The flavors are unknown.', page.text)
        self.assertIn('It does not answer.', page.text)


class TestAvailabilityForAUser(base.UserPages):
    """Placement tells a user nothing but what the project uses."""

    def _setup_test_data(self) -> None:
        super()._setup_test_data()
        for service in self.service_catalog:
            if service['type'] == 'compute':
                service['id'] = NOVA

    def setUp(self) -> None:
        super().setUp()
        self.cloud.flavors = (DESKTOP, PAIR)
        self.cloud.failure = exception.PlacementForbidden('no')

    def test_how_many_are_free_is_not_told(self) -> None:
        self.cloud.services.answers = answer()
        text = self.read(base.FLAVORS).text
        self.assertIn('Placement does not tell projects', text)
        self.assertIn('desktop-10 1 vGPU of T4-2Q, 2 GiB Unknown', text)

    def test_the_project_learns_what_it_uses(self) -> None:
        self.cloud.services.answers = answer(3)
        text = self.read(base.FLAVORS).text
        self.assertIn('VGPU: this project uses 3. No limit is known.', text)
        self.assertNotIn('VCPU:', text)

    def test_the_default_limit_is_reached(self) -> None:
        self.cloud.services.answers = answer(3, default=4)
        text = self.read(base.FLAVORS).text
        self.assertIn('VGPU: this project uses 3. Its limit is 4.', text)
        self.assertIn('T4-2Q, 2 GiB Unknown', text)
        self.assertIn('on one GPU Limit of the project reached', text)

    def test_the_limit_of_the_project(self) -> None:
        self.cloud.services.answers = answer(3, default=4, own=9)
        text = self.read(base.FLAVORS).text
        self.assertIn('Its limit is 9.', text)
        self.assertNotIn('Limit of the project reached', text)

    def test_keystone_does_not_tell_limits(self) -> None:
        self.cloud.services.answers = answer(3) | {
            '/limits': exception.CloudError('no')
        }
        text = self.read(base.FLAVORS).text
        self.assertIn('desktop-10', text)
        self.assertNotIn('this project uses', text)

    def test_placement_does_not_answer(self) -> None:
        self.cloud.failure = exception.PlacementError('It is down.')
        self.cloud.services.answers['/usages'] = self.cloud.failure
        text = self.read(base.FLAVORS).text
        self.assertIn('How many are free is unknown. It is down.', text)
        self.assertNotIn('Placement does not tell projects', text)
        self.assertIn('desktop-10', text)

    def test_the_number_of_requests_is_the_same_for_any_flavors(self) -> None:
        self.cloud.services.answers = answer()
        self.read(base.FLAVORS)
        self.assertEqual(
            ['/usages', '/registered_limits', '/limits'],
            self.cloud.services.paths,
        )

    def test_without_flavors_with_vgpus_nothing_is_asked(self) -> None:
        self.cloud.flavors = (PLAIN,)
        self.read(base.FLAVORS)
        self.assertEqual([], self.cloud.services.paths)


class TestAvailabilityForAnAdministrator(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.services.answers = answer()
        self.cloud.flavors = (ANY, DESKTOP, RENDER, WHOLE)
        self.cloud.gpus = (
            clouds.gpu('compute1', used=2),
            clouds.gpu('compute2', capacity=8, traits=clouds.T4),
        )
        self.cloud.whole = (test_instance_tab.whole_gpu('compute3'),)

    def test_free_vgpus_and_gpus(self) -> None:
        text = self.read(base.FLAVORS).text
        self.assertIn('1 vGPU of any type 12 free', text)
        self.assertIn('1 vGPU of T4-2Q, 2 GiB 8 free', text)
        self.assertIn('on up to 2 GPUs 4 free', text)
        self.assertIn('2 whole GPUs of model A40 0 free', text)
        self.assertNotIn('Only administrators', text)

    def test_in_the_order_of_what_is_free(self) -> None:
        text = self.read(base.FLAVORS, 'sort=-available').text
        order = [text.index(f'{n} free') for n in (12, 8, 4, 0)]
        self.assertEqual(sorted(order), order)


class TestWordsForTheLaunchForm(base.UserPages):
    """The script of the form asks for them."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud.flavors = (DESKTOP, WHOLE, PLAIN)

    def test_words_by_the_ids_of_flavors(self) -> None:
        self.assertEqual(
            {
                'title': 'vGPUs and GPUs',
                'none': 'None',
                'flavors': {
                    DESKTOP.id: '1 vGPU of T4-2Q, 2 GiB',
                    WHOLE.id: '2 whole GPUs of model A40',
                },
            },
            self.open(base.WORDS).json(),
        )

    def test_nova_does_not_answer(self) -> None:
        self.cloud.flavor_failure = exception.CloudError('It does not answer.')
        response = self.open(base.WORDS)
        self.assertEqual(503, response.status_code)
        self.assertEqual({'failure': 'It does not answer.'}, response.json())

    def test_every_page_has_the_script_once(self) -> None:
        scripts = self.read(base.FLAVORS).find('script')
        sources = [script.get('src') or '' for script in scripts]
        found = [name for name in sources if 'launch-form.js' in name]
        self.assertEqual(1, len(found))
