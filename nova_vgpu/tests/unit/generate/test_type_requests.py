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

"""Which GPUs a wish comes to, and what it is told otherwise."""

import dataclasses

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.generate import type_requests
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

READY = hosts.gpu('41:00.0', boards.A40, vfs=8)
VFS_OFF = hosts.gpu('c1:00.0', boards.A40)
HOST = hosts.make_host(
    READY,
    hosts.gpu('84:00.0', boards.T4),
    hosts.gpu('85:00.0', boards.T4, 'nvidia-231'),
    VFS_OFF,
    hosts.gpu('0001:c8:00.0', boards.L40S, vfs=4, vendor_vfio=True),
    hosts.gpu('21:00.0', boards.HD_530),
)
#: A GPU that has two types of one name.
TWO_ALIKE = values.PhysicalGPU(
    'pci_0000_31_00_0',
    values.PciAddress.parse('31:00.0'),
    offers=tuple(
        values.Offer(values.VGPUType(type_id, 'NVIDIA A40-8Q'), 1)
        for type_id in ('nvidia-1', 'nvidia-2')
    ),
)


class WishesTestCase(testtools.TestCase):
    def grant(
        self, *texts: str, host: values.Host = HOST
    ) -> dict[str, tuple[str, str | None]]:
        """GPUs with the name and the id of what they are to serve."""
        by_address = {str(gpu): gpu for gpu in host.gpus}
        wished = []
        for text in texts:
            address, _, type_ = text.rpartition('=')
            wished.append(values.TypeRequest(type_, by_address.get(address)))
        return {
            str(granted.gpu): (
                granted.name,
                granted.type.id if granted.type else None,
            )
            for granted in type_requests.grant(host, wished)
        }

    def refuse(self, *texts: str, host: values.Host = HOST) -> tuple[str, ...]:
        error = self.assertRaises(
            exception.RequestRefusedError, self.grant, *texts, host=host
        )
        return error.reasons


class TestGranted(WishesTestCase):
    def test_all_gpus_that_offer_it(self) -> None:
        both = {
            '0000:84:00.0': ('T4-2Q', 'nvidia-231'),
            '0000:85:00.0': ('T4-2Q', 'nvidia-231'),
        }
        for spelling in ('T4-2Q', 't4-2q', 'GRID T4-2Q', 'nvidia-231'):
            self.assertEqual(both, self.grant(spelling), spelling)

    def test_one_gpu(self) -> None:
        self.assertEqual(
            {'0000:85:00.0': ('T4-4Q', 'nvidia-232')},
            self.grant('0000:85:00.0=T4-4Q'),
        )

    def test_a_type_without_a_name_goes_by_its_id(self) -> None:
        self.assertEqual(
            {'0000:21:00.0': ('i915-GVTg_V5_4', 'i915-GVTg_V5_4')},
            self.grant('i915-gvtg_v5_4'),
        )

    def test_the_same_wish_twice_is_one(self) -> None:
        self.assertEqual(
            {'0000:85:00.0': ('T4-4Q', 'nvidia-232')},
            self.grant('0000:85:00.0=T4-4Q', '0000:85:00.0=nvidia-232'),
        )

    def test_a_gpu_whose_functions_are_off_counts_by_its_model(self) -> None:
        self.assertEqual(
            {
                '0000:41:00.0': ('A40-8Q', 'nvidia-562'),
                '0000:c1:00.0': ('A40-8Q', None),
            },
            self.grant('A40-8Q'),
        )
        # An id has a name as long as another GPU gives it one.
        for wish in ('a40-8q', 'nvidia-562'):
            self.assertEqual(
                {'0000:c1:00.0': ('A40-8Q', None)},
                self.grant(f'0000:c1:00.0={wish}'),
            )

    def test_a_gpu_that_is_passed_through_is_not_among_all(self) -> None:
        aside = hosts.gpu('c1:00.0', boards.A40, driver='vfio-pci')
        host = hosts.make_host(READY, aside)
        self.assertEqual(
            {'0000:41:00.0'}, set(self.grant('A40-8Q', host=host))
        )
        self.assertEqual(
            {'0000:c1:00.0'}, set(self.grant('0000:c1:00.0=A40-8Q', host=host))
        )


class TestRefused(WishesTestCase):
    def assertReason(self, reasons: tuple[str, ...], *words: str) -> None:
        self.assertEqual(1, len(reasons), str(reasons))
        for word in words:
            self.assertIn(word, reasons[0])

    def test_vf_profiles(self) -> None:
        host = hosts.make_host(hosts.gpu('03:00.0', boards.ARC_PRO_B60))
        for wish in ('B60-1of4', '0000:03:00.0=B60-1of4'):
            self.assertReason(
                self.refuse(wish, host=host),
                'B60-1of4 is a VF profile',
                'enabled_vgpu_types = B60-1of4',
                '[vgpu_B60-1of4] device_addresses = 0000:03:00.0',
            )

    def test_two_types_for_one_gpu(self) -> None:
        self.assertReason(
            self.refuse('0000:85:00.0=T4-4Q', '0000:85:00.0=T4-2Q'),
            'is requested for T4-4Q and T4-2Q',
            'device_addresses = 0000:85:00.0=N',
        )

    def test_a_type_that_no_gpu_offers(self) -> None:
        self.assertReason(
            self.refuse('T4-Q2'), "No GPU of this host offers 'T4-Q2'", 'T4-2Q'
        )
        self.assertReason(self.refuse('231'), 'Did you mean nvidia-231?')

    def test_a_type_that_this_gpu_does_not_offer(self) -> None:
        self.assertReason(
            self.refuse('0000:84:00.0=T4-Q2'),
            'GPU 0000:84:00.0',
            'It offers: ',
            'T4-8Q',
            '"nova-vgpu type list --gpu 0000:84:00.0"',
            'Did you mean T4-2Q?',
        )

    def test_a_type_without_a_name_can_be_meant(self) -> None:
        for wish in ('i915-GVTg_V54', '0000:21:00.0=i915-GVTg_V54'):
            self.assertReason(
                self.refuse(wish), 'Did you mean i915-GVTg_V5_4?'
            )

    def test_a_gpu_under_two_types(self) -> None:
        for texts in (
            ('T4-2Q', '0000:85:00.0=T4-4Q'),
            ('0000:85:00.0=T4-2Q', '0000:85:00.0=T4-4Q'),
        ):
            self.assertReason(
                self.refuse(*texts), 'GPU 0000:85:00.0', 'T4-2Q and T4-4Q'
            )

    def test_a_gpu_without_types_that_is_of_another_model(self) -> None:
        self.assertReason(
            self.refuse('0000:c1:00.0=T4-2Q'),
            'GPU 0000:c1:00.0 is of model A40 and never offers',
        )

    def test_a_gpu_without_types_where_nothing_tells(self) -> None:
        for wish in ('nvidia-9999', 'A40-96Q', 'nonsense'):
            self.assertReason(
                self.refuse(f'0000:c1:00.0={wish}'),
                'GPU 0000:c1:00.0 shows no types',
                'VFs are not enabled',
                'nova-vgpu sriov enable 0000:c1:00.0',
            )

    def test_a_name_of_two_types(self) -> None:
        host = values.Host((TWO_ALIKE,))
        self.assertReason(
            self.refuse('A40-8Q', host=host),
            'GPU 0000:31:00.0',
            'nvidia-1',
            'nvidia-2',
            'Write the id',
        )
        self.assertEqual(
            {'0000:31:00.0': ('A40-8Q', 'nvidia-2')},
            self.grant('nvidia-2', host=host),
        )

    def test_a_type_that_vgpus_of_another_size_keep_off_the_list(self) -> None:
        host = hosts.make_host(
            hosts.gpu(
                'c8:00.0', boards.L40S, 'nvidia-1155', vfs=4, vendor_vfio=True
            )
        )
        for wish in ('L40S-8Q', '0000:c8:00.0=L40S-8Q'):
            self.assertReason(
                self.refuse(wish, host=host),
                'GPU 0000:c8:00.0',
                'it has vGPUs',
            )

    def test_a_full_gpu_names_no_types(self) -> None:
        full = hosts.make_host(
            hosts.gpu(
                'c8:00.0', boards.L40S, 'nvidia-1156', vfs=4, vendor_vfio=True
            )
        )
        self.assertReason(
            self.refuse('L40S-48Q', host=full), 'To request nvidia-1156'
        )
        self.assertEqual(
            {'0000:c8:00.0': ('nvidia-1156', 'nvidia-1156')},
            self.grant('nvidia-1156', host=full),
        )
        named = dataclasses.replace(
            full, type_names=(('nvidia-1156', 'NVIDIA L40S-48Q'),)
        )
        self.assertEqual(
            {'0000:c8:00.0': ('L40S-48Q', 'nvidia-1156')},
            self.grant('L40S-48Q', host=named),
        )

    def test_every_reason_is_told_at_once(self) -> None:
        reasons = self.refuse('nonsense', '0000:84:00.0=A40-8Q', 'T4-2Q')
        self.assertEqual(2, len(reasons))
