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

"""What is in Placement for the node and not about vGPUs stays as it is."""

import pathlib

import fixtures

from nova_vgpu.compute import planner
from nova_vgpu.tests.functional.compute import memory_encryption
from nova_vgpu.tests.functional.compute import test_servers

CYBORGS = '0000:af:00.0'

PROVIDER_YAML = f"""
meta:
  schema_version: "1.0"
providers:
  - identification:
      name: host1_{test_servers.T4}
    inventories:
      additional:
        - CUSTOM_LICENCE: {{total: 9}}
"""


class NeighboursTest(test_servers.OurTestBase):
    """A host with AMD SEV, and with a GPU that Cyborg has."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(memory_encryption.HostWithSEV())

    def create_cyborgs(self) -> None:
        parent = self._get_provider_uuid_by_host('host1')
        uuid = '7b1e0c3a-50a9-4a77-8b5e-9f2d6c1e4a08'
        self.placement.post(
            '/resource_providers',
            {
                'name': f'host1_{CYBORGS}',
                'uuid': uuid,
                'parent_provider_uuid': parent,
            },
            version='1.20',
        )
        self._update_inventory(
            uuid,
            {
                'resource_provider_generation': 0,
                'inventories': {'VGPU': {'total': 4}},
            },
        )
        self._set_provider_traits(uuid, ['OWNER_CYBORG'])

    def check_untouched(self) -> None:
        self.create_cyborgs()
        self.restart_host('host1')
        self._run_periodics(raise_on_error=True)
        context = self._get_provider_inventory(
            self._get_provider_uuid_by_name(
                memory_encryption.provider_name('host1')
            )
        )['MEM_ENCRYPTION_CONTEXT']
        self.assertEqual(
            (memory_encryption.TOTAL, 0),
            (context['total'], context['reserved']),
        )
        cyborgs = self.inventory(CYBORGS) or {}
        self.assertEqual((4, 0), (cyborgs['total'], cyborgs['reserved']))
        self.boot(flavor_id=self._create_flavor())

    def test_with_types_declared(self) -> None:
        self.declare('T4-2Q')
        self.start_host('host1', test_servers.t4())
        self.assertEqual(8, self.total(test_servers.T4))
        self.check_untouched()
        self.assertEqual(8, self.total(test_servers.T4))

    def test_with_nothing_declared(self) -> None:
        self.declare('T4-2Q')
        self.start_host('host1', test_servers.t4())
        self.declare()
        with fixtures.MockPatchObject(
            planner.Planner, '_read_host', side_effect=AssertionError
        ):
            self.check_untouched()
        self.assertEqual(8, self.total(test_servers.T4))


class ProviderYamlTest(test_servers.OurTestBase):
    def write(self, text: str = PROVIDER_YAML) -> pathlib.Path:
        directory = self.useFixture(fixtures.TempDir()).path
        file = pathlib.Path(directory, 'gpus.yaml')
        file.write_text(text)
        self.flags(provider_config_location=directory, group='compute')
        return file

    def require_licence(self) -> None:
        found = self.inventory(test_servers.T4, 'CUSTOM_LICENCE') or {}
        self.assertEqual(9, found.get('total'))

    def test_plain_servers_are_built_while_gpus_fail(self) -> None:
        self.write()
        self.declare('T4-2Q')
        self.start_host('host1', test_servers.t4())
        self.restart_host('host1')
        self._run_periodics(raise_on_error=True)
        self.require_licence()
        with fixtures.MockPatchObject(
            planner.Planner, '_read_host', side_effect=OSError('no sysfs')
        ):
            self._run_periodics()
            self.boot(flavor_id=self._create_flavor())
        self.assertNotIn('attempts to define', self.stdlog.logger.output)
        self.require_licence()

    def test_a_gpu_that_is_taken_out_and_keeps_a_trait(self) -> None:
        self.write(f'{PROVIDER_YAML}    traits: {{additional: [CUSTOM_BIG]}}')
        self.declare('T4-2Q', unlisted_gpus='ignore')
        self.list_addresses('T4-2Q', '84:00.0')
        self.start_host('host1', test_servers.t4())
        self.restart_host('host1')
        self.list_addresses('T4-2Q')
        self.restart_host('host1')
        for _ in range(2):
            self._run_periodics(raise_on_error=True)
        self.boot(flavor_id=self._create_flavor())
        self.assertIsNone(self.inventory(test_servers.T4))
        self.require_licence()

    def test_a_mistake_in_it_waits_for_the_next_start(self) -> None:
        file = self.write()
        self.declare('T4-2Q')
        with fixtures.MockPatchObject(
            planner.Planner, '_read_host', side_effect=OSError('no sysfs')
        ):
            self.start_host('host1', test_servers.t4())
            file.write_text('providers: [')
            self.boot(flavor_id=self._create_flavor())
        self._run_periodics()
        self.assertEqual(8, self.total(test_servers.T4))

    def test_its_classes_stay_on_a_gpu_that_is_taken_out(self) -> None:
        self.write()
        self.declare('T4-2Q', unlisted_gpus='ignore')
        self.list_addresses('T4-2Q', '84:00.0')
        # The first time the provider is not there yet.
        self.start_host('host1', test_servers.t4())
        self.restart_host('host1')
        flavor = self._create_flavor(
            extra_spec={'resources:VGPU': '1', 'resources:CUSTOM_LICENCE': '1'}
        )
        server = self.boot(flavor_id=flavor)
        self._reboot_server(server, hard=True)
        self.assertEqual(1, len(self.mdevs_of(server)))
        self.list_addresses('T4-2Q')
        self.restart_host('host1')
        self._run_periodics(raise_on_error=True)
        for name, expected in (('VGPU', (8, 7)), ('CUSTOM_LICENCE', (9, 0))):
            found = self.inventory(test_servers.T4, name) or {}
            self.assertEqual(expected, (found['total'], found['reserved']))
