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

"""The client against a real Placement, over HTTP."""

import pathlib
import socket

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.placement import client
from nova_vgpu.simulation import placement

NODE = 'compute1'
TYPE_TRAIT = 'CUSTOM_VGPU_TYPE_T4_2Q'


def provider(
    name: str = 'compute1_pci_0000_84_00_0',
    resource_class: str = 'VGPU',
    total: int = 8,
    traits: tuple[str, ...] = ('OWNER_NOVA', TYPE_TRAIT),
) -> values.Provider:
    return values.Provider(name, NODE, resource_class, total, traits)


class PlacementTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        running = placement.run_placement(directory)
        self.url = running.__enter__()
        self.addCleanup(running.__exit__, None, None, None)
        self.client = client.connect_without_keystone(
            self.url, placement.TOKEN
        )

    def traits_of(self, name: str) -> set[str]:
        found = self.client._call(
            'get', '/resource_providers', params={'name': name}
        )
        uuid = found['resource_providers'][0]['uuid']
        path = f'/resource_providers/{uuid}/traits'
        return set(self.client._call('get', path)['traits'])

    def set_traits(self, name: str, traits: set[str]) -> None:
        found = self.client._call(
            'get', '/resource_providers', params={'name': name}
        )
        uuid = found['resource_providers'][0]['uuid']
        path = f'/resource_providers/{uuid}/traits'
        body = self.client._call('get', path)
        body['traits'] = sorted(traits)
        self.client._call('put', path, json=body)

    def test_publishing_twice_writes_nothing_the_second_time(self) -> None:
        wanted = [provider(), provider('compute1_pci_0000_85_00_0')]
        self.assertGreater(self.client.ensure_tree(NODE, wanted), 0)
        self.assertEqual(0, self.client.ensure_tree(NODE, wanted))

    def test_a_provider_is_found_by_its_traits(self) -> None:
        other = provider(
            'compute1_pci_0000_85_00_0',
            traits=('OWNER_NOVA', 'CUSTOM_VGPU_TYPE_T4_8Q'),
        )
        self.client.ensure_tree(NODE, [provider(), other])
        found = self.client.list_candidates('VGPU', 1, [TYPE_TRAIT])
        self.assertEqual(
            [client.Candidate(provider().name, (('VGPU', 1),))], list(found)
        )
        self.assertEqual(
            (), self.client.list_candidates('VGPU', 1, ['HW_GPU_API_DXVA'])
        )

    def test_more_than_the_total_is_not_to_be_had(self) -> None:
        self.client.ensure_tree(NODE, [provider(total=2)])
        self.assertEqual(1, len(self.client.list_candidates('VGPU', 2)))
        self.assertEqual((), self.client.list_candidates('VGPU', 3))

    def test_a_changed_total_is_published(self) -> None:
        self.client.ensure_tree(NODE, [provider(total=2)])
        self.client.ensure_tree(NODE, [provider(total=4)])
        self.assertEqual(1, len(self.client.list_candidates('VGPU', 4)))

    def test_a_custom_resource_class_is_created(self) -> None:
        custom = provider(resource_class='CUSTOM_VGPU_BIG')
        self.client.ensure_tree(NODE, [custom])
        found = self.client.list_candidates('CUSTOM_VGPU_BIG', 1)
        self.assertEqual(1, len(found))
        self.assertEqual(0, self.client.ensure_tree(NODE, [custom]))

    def test_foreign_traits_stay_and_our_stale_ones_go(self) -> None:
        self.client.ensure_tree(NODE, [provider()])
        self.client._call('put', '/traits/CUSTOM_RACK_7')
        self.client._call('put', '/traits/CUSTOM_VGPU_TYPE_OLD')
        self.set_traits(
            provider().name,
            {'CUSTOM_RACK_7', 'CUSTOM_VGPU_TYPE_OLD', 'OWNER_NOVA'},
        )
        self.client.ensure_tree(NODE, [provider()])
        self.assertEqual(
            {'CUSTOM_RACK_7', 'OWNER_NOVA', TYPE_TRAIT},
            self.traits_of(provider().name),
        )

    def test_what_placement_refuses_is_said_in_its_words(self) -> None:
        error = self.assertRaises(
            exception.PlacementError,
            self.client.list_candidates,
            'VGPU',
            1,
            ['CUSTOM_NOBODY_HAS_THIS'],
        )
        self.assertIn('400', str(error))
        self.assertIn('CUSTOM_NOBODY_HAS_THIS', str(error))


class NoPlacementTest(testtools.TestCase):
    def test_a_placement_that_is_not_there_is_an_error_in_words(self) -> None:
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        error = self.assertRaises(
            exception.PlacementError,
            client.connect_without_keystone,
            f'http://127.0.0.1:{port}',
            placement.TOKEN,
        )
        self.assertIn('does not answer', str(error))

    def test_a_placement_that_went_away_is_an_error_in_words(self) -> None:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        with placement.run_placement(directory) as url:
            left = client.connect_without_keystone(url, placement.TOKEN)
        error = self.assertRaises(
            exception.PlacementError, left.list_candidates, 'VGPU', 1
        )
        self.assertIn('does not answer', str(error))
