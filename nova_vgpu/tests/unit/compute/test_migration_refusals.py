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

"""Types are compared by their names, where those are known."""

import testtools

from nova_vgpu import values
from nova_vgpu.compute import migration_offer
from nova_vgpu.compute import migration_refusals

NAMES = {
    'nvidia-558': 'NVIDIA A40-8Q',
    'nvidia-559': 'NVIDIA A40-16Q',
    'acme-1': 'Acme 1',
    # A driver that gives two types one name.
    'nvidia-11': 'GRID M60-0B',
    'nvidia-12': 'GRID M60-0B',
}
MDEV = values.Framework.MDEV


def offer(*served: tuple[str, str | None]) -> migration_offer.Offer:
    return migration_offer.Offer(
        'compute2',
        tuple(
            migration_offer.Served('0000:41:00.0', label, name, MDEV)
            for label, name in served
        ),
    )


class RefusalsTest(testtools.TestCase):
    def find(
        self, type_id: str, given: migration_offer.Offer | None
    ) -> list[str]:
        device = values.MovingDevice(
            '0000:84:00.0',
            migration_refusals.name_of(type_id, NAMES),
            framework=MDEV,
        )
        source = values.MigrationSource(
            'compute1',
            (device,),
            settings=values.MigrationSettings(post_copy=False),
        )
        return [
            each.code for each in migration_refusals.find(source, given, NAMES)
        ]

    def test_names_decide(self) -> None:
        for description, type_id, given, expected in (
            (
                'the same id and the same name',
                'nvidia-558',
                offer(('nvidia-558', 'A40-8Q')),
                [],
            ),
            (
                'another id and the same name',
                'nvidia-558',
                offer(('nvidia-700', 'A40-8Q')),
                [],
            ),
            (
                'the same id and another name',
                'nvidia-558',
                offer(('nvidia-558', 'A40-16Q')),
                ['type-missing'],
            ),
            (
                'the same id, which the other host cannot name',
                'nvidia-558',
                offer(('nvidia-558', None)),
                [],
            ),
            (
                'a name that is not understood may be spelled otherwise',
                'acme-1',
                offer(('acme-1', None)),
                [],
            ),
            (
                'a name of two types does not tell them apart',
                'nvidia-11',
                offer(('nvidia-12', 'M60-0B')),
                [],
            ),
            ('nothing is told', 'nvidia-558', None, []),
        ):
            self.assertEqual(expected, self.find(type_id, given), description)

    def test_ids_are_those_of_the_destination(self) -> None:
        given = offer(
            ('nvidia-559', 'A40-8Q'),
            ('vfio:nvidia-560', 'A40-16Q'),
            ('acme-2', None),
            ('nvidia-12', 'M60-0B'),
        )
        for label, expected in (
            ('nvidia-558', 'nvidia-559'),
            # A function does not take the place of an mdev.
            ('nvidia-559', 'nvidia-559'),
            ('vfio:nvidia-559', 'vfio:nvidia-560'),
            ('acme-1', 'acme-1'),
            # A name of two types does not tell them apart.
            ('nvidia-11', 'nvidia-11'),
            ('unknown-1', 'unknown-1'),
        ):
            self.assertEqual(
                {'a': expected},
                migration_refusals.translate({'a': label}, given, NAMES),
                label,
            )
