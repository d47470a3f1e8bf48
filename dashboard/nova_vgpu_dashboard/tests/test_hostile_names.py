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

"""Names that try to become a part of the page.

Placement accepts any text as the name of a provider, Nova as that of a flavor
or server. Horizon's pages are templates of AngularJS as well, in the browser:
what is between ``{$`` and ``$}`` would be evaluated there.
"""

import dataclasses
import urllib.parse

from django import http
from django import urls

from nova_vgpu import exception
from nova_vgpu.cloud.usage import consumers
from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds
from nova_vgpu_dashboard.tests import test_flavor_form

ATTACK = '\'"></pre></option><attack onclick=a()>{$attack()$}'
QUOTED = urllib.parse.quote(ATTACK)


class TestHostileNames(base.AdminPages):
    def require_harmless(self, response: http.HttpResponse) -> None:
        page = response.content.decode()
        self.assertEqual(200, response.status_code)
        self.assertNotIn('<attack', page)
        self.assertNotIn('{$attack', page)
        for tag, attributes in base.parse(response).elements:
            self.assertNotIn('onclick', attributes, tag)

    def require_shown(self, response: http.HttpResponse) -> None:
        """The name is on the page, as the text that it is."""
        self.require_harmless(response)
        self.assertIn('attack onclick', response.content.decode())

    def test_host(self) -> None:
        gpu = clouds.gpu(ATTACK)
        self.cloud.gpus = (gpu,)
        self.require_shown(self.open(base.GPUS))
        self.require_shown(self.open(base.GPU, args=[gpu.uuid]))

    def test_device(self) -> None:
        gpu = dataclasses.replace(clouds.gpu('compute1'), device=ATTACK)
        self.cloud.gpus = (gpu,)
        self.require_shown(self.open(base.GPUS))
        self.require_shown(self.open(base.GPU, args=[gpu.uuid]))

    def test_model(self) -> None:
        gpu = clouds.gpu(
            'compute1', traits=(f'CUSTOM_GPU_MODEL_{ATTACK}', 'X')
        )
        self.cloud.gpus = (gpu,)
        self.require_shown(self.open(base.GPUS))
        self.require_shown(self.open(base.TYPES))
        self.require_shown(self.open(base.GPU, args=[gpu.uuid]))

    def test_type_and_series(self) -> None:
        gpu = clouds.gpu(
            'compute1',
            traits=(
                f'CUSTOM_VGPU_TYPE_{ATTACK}',
                f'CUSTOM_VGPU_SERIES_{ATTACK}',
            ),
        )
        self.cloud.gpus = (gpu,)
        for name in (base.GPUS, base.TYPES, base.CREATE):
            self.require_shown(self.open(name))
        self.require_shown(self.open(base.GPU, args=[gpu.uuid]))

    def test_problems(self) -> None:
        gpu = clouds.gpu(ATTACK, capacity=1, used=1, reserved=5)
        self.cloud.gpus = (gpu,)
        self.cloud.nodes = ()
        self.cloud.flavors = (clouds.flavor(ATTACK, resources__VGPU='99'),)
        self.require_shown(self.open(base.GPUS))
        self.require_shown(self.open(base.GPU, args=[gpu.uuid]))

    def test_errors_of_nova(self) -> None:
        gpu = clouds.gpu('compute1')
        self.cloud.gpus = (gpu,)
        self.cloud.flavor_failure = exception.CloudError(ATTACK)
        self.cloud.consumer_failure = exception.CloudError(ATTACK)
        self.require_shown(self.open(base.GPUS))
        self.require_shown(self.open(base.GPU, args=[gpu.uuid]))

    def test_whole_gpu(self) -> None:
        traits = (*clouds.WHOLE, f'CUSTOM_NVLINK_ISLAND_{ATTACK}')
        gpus = (
            clouds.whole(ATTACK, 'C1', traits=traits),
            clouds.whole(ATTACK, 'C2', traits=traits),
        )
        self.cloud.gpus = gpus
        self.require_shown(self.open(base.GPUS))
        self.require_shown(self.open(base.GPU, args=[gpus[0].uuid]))

    def test_resource_class(self) -> None:
        gpu = clouds.gpu('compute1', resource_class=ATTACK)
        self.cloud.gpus = (gpu,)
        for name in (base.TYPES, base.CREATE):
            self.require_shown(self.open(name))
        self.require_shown(self.open(base.GPU, args=[gpu.uuid]))

    def test_flavor(self) -> None:
        self.cloud.gpus = (clouds.gpu('compute1'),)
        self.cloud.flavors = (
            clouds.flavor(ATTACK, resources__VGPU='1'),
            clouds.flavor(f'{ATTACK} lost', resources__CUSTOM_X='1'),
            clouds.flavor(
                f'{ATTACK} without GPU',
                resources__VGPU='1',
                trait__CUSTOM_VGPU_TYPE_X='required',
            ),
        )
        self.require_shown(self.open(base.TYPES))
        self.require_shown(self.open(base.FLAVORS))

    def test_server_and_project(self) -> None:
        gpu = clouds.gpu('compute1')
        self.cloud.gpus = (gpu,)
        self.cloud.connection.identity.names[clouds.PROJECT] = ATTACK
        self.cloud.consumers = (
            consumers.Consumer(clouds.uuid_of('s'), 1, ATTACK, clouds.PROJECT),
        )
        self.require_shown(self.open(base.GPU, args=[gpu.uuid]))

    def test_errors_of_services(self) -> None:
        self.cloud.failure = exception.PlacementError(ATTACK)
        for name in (base.GPUS, base.TYPES, base.CREATE):
            self.require_shown(self.open(name))
        uuid = clouds.uuid_of('x')
        self.require_shown(self.open(base.GPU, args=[uuid]))
        # The next page has the message.
        self.cloud.failure = exception.NotInCloud(ATTACK)
        self.open(base.GPU, args=[uuid])
        self.cloud.failure = None
        self.require_shown(self.open(base.GPUS))

    def test_query_strings(self) -> None:
        self.cloud.gpus = (clouds.gpu('compute1'),)
        for name in (
            *('host', 'model', 'role', 'type', 'state', 'health', 'free'),
            *('sort', 'page', 'x'),
        ):
            response = self.open(base.GPUS, f'{name}={QUOTED}')
            self.require_harmless(response)
        for name in (base.TYPES, base.CREATE):
            for field in ('sort', 'type'):
                response = self.open(name, f'{field}={QUOTED}')
                self.require_harmless(response)

    def test_fields_of_the_form(self) -> None:
        self.cloud.gpus = (clouds.gpu('compute1'),)
        for field in test_flavor_form.FORM:
            response = self.client.post(
                urls.reverse(base.CREATE),
                test_flavor_form.FORM | {field: ATTACK},
            )
            self.require_harmless(response)

    def test_the_message_about_a_new_flavor(self) -> None:
        self.cloud.gpus = (clouds.gpu('compute1'),)
        self.client.post(
            f'{urls.reverse(base.CREATE)}?create=1',
            test_flavor_form.FORM | {'name': ATTACK},
        )
        self.assertEqual(1, len(self.cloud.connection.compute.created))
        self.require_harmless(self.open(base.TYPES))

    def test_names_on_the_usage_page(self) -> None:
        self.cloud.gpus = (clouds.gpu('compute1'),)
        self.cloud.flavors = (clouds.flavor('any', resources__VGPU='1'),)
        services = self.cloud.services
        services.names[clouds.PROJECT] = ATTACK
        services.records = [
            clouds.record('a', 'any', 1.0),
            clouds.record('b', ATTACK, 1.0),
            clouds.record('c', 'any', 1.0, ATTACK),
        ]
        self.require_shown(self.open(base.USAGE))

    def test_query_strings_of_the_usage_page(self) -> None:
        for name in ('period', 'start', 'end', 'project', 'type', 'sort'):
            response = self.open(base.USAGE, f'{name}={QUOTED}')
            self.require_harmless(response)
        response = self.open(base.TYPES, f'name={QUOTED}&model={QUOTED}')
        self.require_harmless(response)

    def test_problems_of_flavors(self) -> None:
        self.cloud.gpus = (clouds.gpu('compute1'),)
        self.cloud.flavors = (
            clouds.flavor(
                ATTACK,
                resources__VGPU='9',
                **{f'trait:{ATTACK}': ATTACK},
            ),
        )
        self.require_shown(self.open(base.TYPES))

    def test_models_of_whole_gpus(self) -> None:
        self.cloud.whole = (clouds.whole(ATTACK),)
        self.cloud.flavors = (
            clouds.flavor(ATTACK, pci_passthrough__alias='gpu-A40:1'),
        )
        self.require_shown(self.open(base.TYPES))
        self.require_harmless(self.open(base.CREATE))
