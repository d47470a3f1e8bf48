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

import dataclasses
import typing
from unittest import mock

from django import http
from django import urls
from django.conf import settings
from horizon import exceptions
from openstack import exceptions as sdk_exceptions

from nova_vgpu import exception
from nova_vgpu.cloud.orders import flavors
from nova_vgpu_dashboard import connection
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
WHOLE = '/CUSTOM_GPU_A40'
MADE = dataclasses.replace(
    clouds.flavor(
        'render',
        **{key.replace(':', '__'): text for key, text in SPECS.items()},
    ),
    size=flavors.Size(4, 16384, 40),
)
CONFLICT = sdk_exceptions.ConflictException('It already exists.')


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
            'Use a smaller "vGPUs or GPUs per server" or another "GPUs of '
            'several vGPUs".',
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

    def test_nothing_that_was_typed_is_lost(self) -> None:
        """Whoever refuses: the form, the cloud, or a service that is down."""
        typed = {'name': 'my-flavor', 'vcpus': '7', 'page_size': '1GB'}
        for failure, changes in (
            (None, {'count': '7'}),
            (None, {'ram': 'x'}),
            (exception.PlacementError('It does not answer.'), {}),
        ):
            self.cloud.failure = failure
            page = base.parse(self.send(**typed, **changes))
            for name, text in (typed | changes).items():
                (field,) = page.find('input', name=name)
                self.assertEqual(text, field['value'])
            (chosen,) = page.find('option', value='A40-8Q/VGPU')
            self.assertIn('selected', chosen)
            self.assertIn(str(failure or ''), page.text)
        self.assertEqual([], self.nova.created)

    def test_a_refusal_is_next_to_its_field(self) -> None:
        for changes, field, text in (
            ({'count': '7'}, 'count', 'No GPU has 7 vGPUs'),
            ({'page_size': 'huge'}, 'page_size', 'huge is not valid'),
            ({'name': 'a\x1b'}, 'name', 'printable characters'),
            ({'type': WHOLE, 'policy': 'any'}, 'policy', 'leave it out'),
            (
                {'type': WHOLE, 'count': '3', 'policy': ''},
                'count',
                'the most is 1',
            ),
        ):
            self.cloud.whole = (clouds.whole('compute1'),)
            response = self.send(**changes)
            errors = response.context['form'].errors
            self.assertEqual([field], list(errors), changes)
            self.assertIn(text, errors[field][0])
            self.assertNotIn('--', errors[field][0])
        self.assertEqual([], self.nova.created)

    def test_several_refusals_are_next_to_several_fields(self) -> None:
        response = self.send(name='a\x1b', page_size='huge')
        errors = response.context['form'].errors
        self.assertEqual(['name', 'page_size'], sorted(errors))

    def test_a_flavor_of_whole_gpus(self) -> None:
        self.cloud.whole = (
            clouds.whole('compute1'),
            clouds.whole('compute1', 'C2', used=1),
        )
        self.assertIn(
            'Whole A40 (CUSTOM_GPU_A40): 1 of 2 free',
            self.read(base.CREATE).text,
        )
        self.send(type=WHOLE, count='2', policy='')
        self.assertEqual(
            [{'pci_passthrough:alias': 'gpu-A40:2'}], self.nova.extra_specs
        )

    def test_vgpus_of_several_gpus(self) -> None:
        self.cloud.gpus = (
            clouds.gpu('compute1', '41'),
            clouds.gpu('compute1', '42'),
        )
        for policy, specs in (
            ('different-gpus', {'group_policy': 'isolate'}),
            ('any', {'group_policy': 'none'}),
        ):
            self.send(name=policy, count='2', policy=policy)
            self.assertEqual(
                specs
                | {
                    f'{what}{group}:{name}': text
                    for group in '12'
                    for what, name, text in (
                        ('resources', 'VGPU', '1'),
                        ('trait', 'CUSTOM_VGPU_TYPE_A40_8Q', 'required'),
                    )
                },
                self.nova.extra_specs[-1],
            )

    def test_without_a_policy_all_are_of_one_gpu(self) -> None:
        self.send(count='2', policy='')
        self.assertEqual(
            [SPECS | {'resources:VGPU': '2'}], self.nova.extra_specs
        )

    def test_the_form_sent_twice_creates_one_flavor(self) -> None:
        self.send()
        self.cloud.flavors = (MADE,)
        response = self.send()
        self.assertEqual(302, response.status_code)
        self.assertEqual(1, len(self.nova.created))
        self.assertIn(
            'Flavor render exists as requested; nothing was changed.',
            self.read(base.TYPES).text,
        )

    def test_the_form_sent_twice_at_once(self) -> None:
        """Both find no flavor, and Nova refuses the second one."""
        self.nova.failures['create'] = CONFLICT
        response = self.send()
        self.assertEqual(200, response.status_code)
        self.assertIn('already exists', base.parse(response).text)

    def test_extra_specs_that_nova_refuses_leave_no_flavor(self) -> None:
        self.nova.failures['post'] = CONFLICT
        response = self.send()
        text = base.parse(response).text
        self.assertIn('Nova did not set the extra specs of flavor', text)
        self.assertEqual(1, len(self.nova.created))
        self.assertEqual([clouds.uuid_of('render')], self.nova.deleted)

    def test_a_flavor_that_cannot_be_deleted_again_is_told(self) -> None:
        self.nova.failures |= {'post': CONFLICT, 'delete': CONFLICT}
        text = base.parse(self.send()).text
        self.assertIn('Flavor render exists without extra specs', text)
        self.assertIn('Do the same again to complete it', text)

    def test_a_name_that_another_flavor_has(self) -> None:
        self.cloud.flavors = (clouds.flavor('render'),)
        response = self.send()
        errors = response.context['form'].errors
        self.assertEqual(['name'], list(errors))
        self.assertIn('use another name', errors['name'][0])

    def test_warnings_name_fields(self) -> None:
        self.cloud.gpus = tuple(
            clouds.gpu('compute1', f'{bus:02x}', 8) for bus in range(16)
        )
        text = self.preview(count='8', policy='different-gpus')
        self.assertIn('or a smaller "vGPUs or GPUs per server"', text)
        self.assertNotIn('--count', text)

    def test_an_expired_token_leads_to_the_login(self) -> None:
        for during in ('connect', 'send'):
            with mock.patch.object(
                connection if during == 'connect' else self.cloud,
                'connect' if during == 'connect' else 'list_flavors',
                side_effect=exceptions.NotAuthenticated,
            ):
                response = self.send()
            self.assertEqual(302, response.status_code, during)
            self.assertIn(settings.LOGIN_URL, response['Location'])

    def test_a_forged_request_creates_nothing(self) -> None:
        """Another site can send the form, but does not know its token."""
        self.client.handler.enforce_csrf_checks = True
        response = self.send()
        self.assertEqual(403, response.status_code)
        self.assertEqual([], self.nova.created)
