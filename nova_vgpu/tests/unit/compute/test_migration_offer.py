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

"""What a destination tells the source, in a field of Nova's."""

import typing

import testtools

from nova_vgpu import values
from nova_vgpu.compute import migration_offer

OFFER = migration_offer.Offer(
    'compute2',
    (
        migration_offer.Served(
            *('0000:41:00.0', 'vfio:nvidia-1155', 'L40S-24Q'),
            *(values.Framework.VENDOR_VFIO, True),
        ),
        migration_offer.Served('mtty', 'mtty-1'),
    ),
)


class Data:
    """A field is in it if it is set, as in Nova's objects."""

    def __contains__(self, field: str) -> bool:
        return field in vars(self)


class OfferTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.data: typing.Any = Data()

    def test_what_is_told_is_understood(self) -> None:
        migration_offer.add(self.data, OFFER)
        # Nova's field takes texts by texts.
        for key, text in self.data.target_mdevs.items():
            self.assertIsInstance(key, str)
            self.assertIsInstance(text, str)
        self.assertEqual(OFFER, migration_offer.find(self.data))

    def test_nothing_is_left_of_it(self) -> None:
        migration_offer.add(self.data, OFFER)
        migration_offer.remove(self.data)
        self.assertNotIn('target_mdevs', self.data)
        migration_offer.remove(self.data)

    def test_what_nova_has_there_stays(self) -> None:
        self.data.target_mdevs = {'a': 'b'}
        self.assertIsNone(migration_offer.find(self.data))
        migration_offer.remove(self.data)
        self.assertEqual({'a': 'b'}, self.data.target_mdevs)

    def test_what_is_not_understood_counts_as_nothing(self) -> None:
        for text in (
            '',
            '[]',
            '{"version": 2}',
            '{"version": 1}',
            '{"version": 1, "host": "h", "served": [["x"]]}',
            '{"version": 1, "host": "h", "served": '
            '[["a", "b", "c", "another framework", null]]}',
        ):
            self.data.target_mdevs = {'nova-vgpu': text}
            self.assertIsNone(migration_offer.find(self.data), text)
