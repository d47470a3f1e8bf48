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

"""Ids that mean another type after an upgrade of the driver."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.decisions import type_changes
from nova_vgpu.simulation import boards
from nova_vgpu.tests import hosts

HOST = hosts.make_host(hosts.gpu('84:00.0', boards.T4))
NOW = {t.id: t.name for t in boards.T4.types}
OLD = 'GRID RTXA5500-1B'


def declare(*names: str) -> values.Declaration:
    return values.Declaration(
        tuple(values.DeclaredType(name, f'vgpu_{name}') for name in names)
    )


class TestChanges(testtools.TestCase):
    def find(
        self, remembered: dict[str, str], *declared: str
    ) -> tuple[type_changes.Change, ...]:
        return type_changes.find_changes(
            tuple(sorted(remembered.items())), HOST, declare(*declared)
        )

    def test_a_host_that_is_as_it_was(self) -> None:
        remembered = {t.id: t.name or '' for t in boards.T4.types}
        self.assertEqual((), self.find(remembered, 'nvidia-231'))

    def test_the_first_run_has_nothing_to_compare_with(self) -> None:
        self.assertEqual((), self.find({}, 'nvidia-231'))

    def test_an_id_that_the_configuration_uses(self) -> None:
        for written in ('nvidia-231', 'NVIDIA-231', ' nvidia-231 '):
            (change,) = self.find({'nvidia-231': OLD}, 'T4-4Q', written)
            self.assertEqual(
                type_changes.Change(
                    'nvidia-231',
                    OLD,
                    'GRID T4-2Q',
                    '[devices]enabled_vgpu_types',
                ),
                change,
            )

    def test_a_type_that_is_configured_by_name(self) -> None:
        (change,) = self.find({'nvidia-231': OLD}, 'T4-2Q', 'RTXA5500-1B')
        self.assertIsNone(change.option)

    def test_another_brand_is_no_other_meaning(self) -> None:
        for name in ('NVIDIA T4-2Q', 'T4-2Q', 'grid  t4-2q'):
            self.assertEqual((), self.find({'nvidia-231': name}), name)

    def test_an_id_that_nobody_names_now(self) -> None:
        self.assertEqual((), self.find({'nvidia-9': OLD}, 'nvidia-9'))


class TestRemembering(testtools.TestCase):
    def remember(
        self, remembered: dict[str, str], *declared: str
    ) -> dict[str, str]:
        return dict(
            type_changes.list_names(
                tuple(sorted(remembered.items())), HOST, declare(*declared)
            )
        )

    def test_everything_that_has_a_name(self) -> None:
        self.assertEqual(NOW, self.remember({}))

    def test_an_id_in_use_keeps_its_old_meaning(self) -> None:
        remembered = {'nvidia-231': OLD}
        for _ in range(3):
            remembered = self.remember(remembered, 'nvidia-231')
            self.assertEqual(OLD, remembered['nvidia-231'])

    def test_it_is_forgotten_once_the_type_is_named(self) -> None:
        remembered = self.remember({'nvidia-231': OLD}, 'T4-2Q')
        self.assertEqual('GRID T4-2Q', remembered['nvidia-231'])

    def test_without_a_configuration_nothing_is_forgotten(self) -> None:
        remembered = self.remember({'nvidia-231': OLD})
        self.assertEqual(OLD, remembered['nvidia-231'])
        self.assertEqual('GRID T4-4Q', remembered['nvidia-232'])

    def test_a_type_that_does_not_show_now_is_not_forgotten(self) -> None:
        self.assertEqual(
            {**NOW, 'nvidia-9': OLD}, self.remember({'nvidia-9': OLD}, 'T4-2Q')
        )

    def test_types_without_a_name_are_left_out(self) -> None:
        host = hosts.make_host(hosts.gpu('00:02.0', boards.HD_530))
        nameless = dataclasses.replace(
            host.gpus[0],
            offers=(values.Offer(values.VGPUType('i915-GVTg_V5_4'), 1),),
        )
        self.assertEqual(
            (),
            type_changes.list_names(
                (), values.Host((nameless,)), values.Declaration()
            ),
        )
