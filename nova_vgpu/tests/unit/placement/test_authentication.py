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

"""Who we are to Placement, from wherever it is written."""

import json
import pathlib
import typing

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.placement import client
from nova_vgpu.placement import synchronisation

URL = 'http://192.0.2.1/placement'
SECRET = 's3cret'
PASSWORD = f"""
[placement]
auth_type = password
auth_url = http://192.0.2.1/identity
username = placement
password = {SECRET}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = North
"""
CLOUDS = {
    'clouds': {
        'north': {
            'auth_type': 'admin_token',
            'auth': {'endpoint': URL, 'token': SECRET},
            'region_name': 'North',
        }
    }
}


class AuthenticationTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.config_dir = self.directory / 'conf.d'
        self.config_dir.mkdir()
        self.log = self.useFixture(fixtures.FakeLogger(level=0))
        # Not what there may be on this machine.
        self.useFixture(fixtures.NestedTempfile())
        self.useFixture(fixtures.EnvironmentVariable('HOME', '/nonexistent'))
        clouds = self.directory / 'clouds.yaml'
        clouds.write_text(json.dumps(CLOUDS))
        self.clouds = str(clouds)
        for name in ('OS_CLOUD', 'OS_AUTH_URL', 'OS_CLIENT_CONFIG_FILE'):
            self.useFixture(fixtures.EnvironmentVariable(name))

    def connect(self, text: str, cloud: str | None = None) -> typing.Any:
        """The adapter of the client that the configuration leads to."""
        bound: typing.Any = self.make_client(text, cloud)._call
        return bound.__self__._adapter

    def make_client(
        self, text: str, cloud: str | None = None
    ) -> client.PlacementClient:
        config = self.directory / 'nova.conf'
        config.write_text(text)
        return synchronisation.connect(
            [str(config)], [str(self.config_dir)], cloud
        )

    def refuse(self, text: str, cloud: str | None = None) -> str:
        error = self.assertRaises(
            exception.PlacementError, self.connect, text, cloud
        )
        message = str(error)
        self.assertNotIn(SECRET, message)
        return message

    def test_novas_section(self) -> None:
        adapter = self.connect(PASSWORD)
        self.assertEqual('placement', adapter.service_type)
        self.assertEqual('North', adapter.region_name)
        self.assertEqual(['internal', 'public'], adapter.interface)
        self.assertEqual(
            'http://192.0.2.1/identity', adapter.session.auth.auth_url
        )

    def test_a_section_that_names_another(self) -> None:
        adapter = self.connect(
            PASSWORD.replace('[placement]', '[keystone]')
            + f'[placement]\nauth_section = keystone\n'
            f'endpoint_override = {URL}\n'
        )
        self.assertEqual(URL, adapter.endpoint_override)
        self.assertEqual(
            'http://192.0.2.1/identity', adapter.session.auth.auth_url
        )

    def test_without_keystone(self) -> None:
        for auth in ('none', 'admin_token\ntoken = admin'):
            adapter = self.connect(
                f'[placement]\nauth_type = {auth}\nendpoint_override = {URL}\n'
            )
            self.assertEqual(URL, adapter.get_endpoint(), auth)
            self.assertEqual('admin', adapter.get_token(), auth)

    def test_a_cloud_by_name_comes_first(self) -> None:
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', self.clouds)
        )
        adapter = self.connect(PASSWORD, 'north')
        self.assertEqual(URL, adapter.get_endpoint())
        self.assertEqual(SECRET, adapter.get_token())

    def test_the_environment(self) -> None:
        for name, value in (
            ('OS_AUTH_TYPE', 'admin_token'),
            ('OS_ENDPOINT', URL),
            ('OS_TOKEN', SECRET),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        adapter = self.connect('')
        self.assertEqual(URL, adapter.get_endpoint())
        self.assertEqual(SECRET, adapter.get_token())

    def test_novas_timeout_counts(self) -> None:
        default = self.make_client(PASSWORD).patience.timeout
        asked = self.make_client(f'{PASSWORD}timeout = 7\n').patience.timeout
        self.assertEqual((30, 7), (default, asked))

    def test_nothing_at_all(self) -> None:
        message = self.refuse('')
        self.assertIn('--os-cloud', message)
        self.assertIn('[placement]', message)

    def test_the_only_cloud_of_a_file_has_to_be_named(self) -> None:
        for name, value in (
            ('OS_CLIENT_CONFIG_FILE', self.clouds),
            ('OS_CLOUD', None),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        self.assertIn('--os-cloud', self.refuse(''))
        self.useFixture(fixtures.EnvironmentVariable('OS_CLOUD', 'north'))
        self.assertEqual(URL, self.connect('').get_endpoint())

    def test_a_cloud_that_is_not_there(self) -> None:
        self.assertIn('south', self.refuse(PASSWORD, 'south'))

    def test_what_does_not_go_together(self) -> None:
        for text, word in (
            (PASSWORD.replace('password\na', 'nonsense\na'), 'nonsense'),
            (PASSWORD.replace('auth_url', 'auth_uri'), 'auth'),
            (f'{PASSWORD}valid_interfaces = inner\n', 'inner'),
            (f'{PASSWORD}timeout = soon\n', 'timeout'),
        ):
            self.assertIn(word, self.refuse(text))

    def test_secrets_are_not_logged(self) -> None:
        self.connect(PASSWORD)
        self.refuse(PASSWORD.replace('password\na', 'nonsense\na'))
        self.assertNotIn(SECRET, self.log.output)
