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

from django import http
from django import urls

from nova_vgpu import exception
from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds

FORM = {
    'name': 'render',
    'type': 'A40-8Q/VGPU',
    'count': '1',
    'policy': 'same-gpu',
    'vcpus': '4',
    'ram': '16384',
    'disk': '40',
    'ephemeral': '0',
    'swap': '0',
    'is_public': 'on',
}
SPECS = {
    'resources:VGPU': '1',
    'trait:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
}


class TestFlavorForm(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (clouds.gpu('compute1'), clouds.gpu('compute2'))
        self.nova = self.cloud.connection.compute

    def send(self, **changes: str) -> http.HttpResponse:
        """By the button that creates."""
        response: http.HttpResponse = self.client.post(
            f'{urls.reverse(base.CREATE)}?create=1', FORM | changes
        )
        return response

    def preview(self, **changes: str) -> str:
        """By the other button, or the key Enter; nothing is created."""
        response = self.client.post(urls.reverse(base.CREATE), FORM | changes)
        self.assertEqual(200, response.status_code)
        self.assertEqual([], self.nova.created)
        return base.parse(response).text

    def refuse(self, **changes: str) -> str:
        """The page with the form again; nothing was created."""
        response = self.send(**changes)
        self.assertEqual(200, response.status_code)
        self.assertEqual([], self.nova.created)
        return base.parse(response).text

    def test_the_form_offers_the_types_of_the_cloud(self) -> None:
        page = self.read(base.CREATE, 'type=A40-8Q%2FVGPU')
        (chosen,) = page.find('option', value='A40-8Q/VGPU')
        self.assertIn('selected', chosen)
        self.assertIn('A40-8Q (VGPU): 12 of 12 free', page.text)

    def test_a_flavor_is_created(self) -> None:
        response = self.send()
        self.assertEqual(
            (302, '/admin/vgpu_types/'),
            (response.status_code, response['Location']),
        )
        self.assertEqual(
            [
                {
                    'name': 'render',
                    'vcpus': 4,
                    'ram': 16384,
                    'disk': 40,
                    'ephemeral': 0,
                    'swap': 0,
                    'is_public': True,
                }
            ],
            self.nova.created,
        )
        self.assertEqual([SPECS], self.nova.extra_specs)
        self.assertIn('Flavor render was created.', self.read(base.TYPES).text)

    def test_a_flavor_that_is_not_public(self) -> None:
        form: dict[str, typing.Any] = dict(FORM)
        del form['is_public']
        self.client.post(f'{urls.reverse(base.CREATE)}?create=1', form)
        self.assertIs(False, self.nova.created[0]['is_public'])

    def test_the_preview_changes_nothing(self) -> None:
        text = self.preview(page_size='large')
        self.assertIn('would be created with these extra specs', text)
        self.assertIn('trait:CUSTOM_VGPU_TYPE_A40_8Q=required', text)
        self.assertIn('hw:mem_page_size=large', text)

    def test_the_preview_of_a_flavor_that_exists(self) -> None:
        self.send()
        made = clouds.flavor(
            'render',
            **{key.replace(':', '__'): text for key, text in SPECS.items()},
        )
        self.nova.created.clear()
        self.cloud.flavors = (made,)
        text = self.preview()
        self.assertIn('Nova cannot change that: use another name', text)

    def test_what_the_cloud_refuses_is_said_in_the_words_of_the_form(
        self,
    ) -> None:
        text = self.refuse(count='7')
        self.assertIn('No GPU has 7 vGPUs of type A40-8Q', text)
        self.assertIn(
            'Use a smaller "vGPUs per server" or another "GPUs of several '
            'vGPUs".',
            text,
        )
        self.assertNotIn('--count', text)

    def test_what_is_not_valid(self) -> None:
        for field, value, shown in (
            ('name', '', 'This field is required.'),
            ('name', 'a\x1b[2J', 'printable characters'),
            ('name', 'a' * 256, 'at most 255 characters'),
            ('type', 'H100-8Q/VGPU', 'Select a valid choice'),
            ('type', '', 'This field is required.'),
            ('count', '0', 'greater than or equal to 1'),
            ('count', '9' * 30, 'less than or equal to'),
            ('vcpus', 'x', 'Enter a whole number.'),
            ('disk', '-1', 'greater than or equal to 0'),
            ('policy', 'other', 'Select a valid choice'),
            ('page_size', 'huge', 'Size of memory pages" huge is not valid'),
        ):
            self.assertIn(shown, self.refuse(**{field: value}), field)

    def test_placement_does_not_answer(self) -> None:
        self.cloud.failure = exception.PlacementError('It does not answer.')
        page = self.read(base.CREATE)
        self.assertIn('It does not answer.', page.text)
        self.assertEqual([], page.find('input', name='vcpus'))
        self.refuse()

    def test_a_forged_request_creates_nothing(self) -> None:
        """Another site can send the form, but does not know its token."""
        self.client.handler.enforce_csrf_checks = True
        response = self.send()
        self.assertEqual(403, response.status_code)
        self.assertEqual([], self.nova.created)
