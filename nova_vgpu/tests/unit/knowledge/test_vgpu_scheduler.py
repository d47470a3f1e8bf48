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

"""How GPUs share their time, by the parameters of NVIDIA's driver."""

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import vgpu_scheduler

BEST, EQUAL, FIXED = values.SchedulerPolicy


class TestPolicies(testtools.TestCase):
    def test_what_the_driver_was_loaded_with(self) -> None:
        for case, dwords, expected in (
            ('nothing', '', BEST),
            ('another key', 'RmFoo=0x1', BEST),
            ('best effort', 'RmPVMRL=0x00', BEST),
            ('a policy that is not turned on', 'RmPVMRL=0x10', BEST),
            ('equal share', 'RmPVMRL=0x01', EQUAL),
            ('in decimal', 'RmPVMRL=17', FIXED),
            ('fixed share', 'RmPVMRL=0x11', FIXED),
            ('a slice of 3 ms', 'RmPVMRL=0x00030001', EQUAL),
            ('no strict round-robin', 'RmPVMRL=0x00030003', EQUAL),
            ('a slice of 24 ms', 'RmPVMRL=0x00180011', FIXED),
            ('a frequency', 'RmPVMRL=0x3c3c0001', EQUAL),
            ('among others', 'RmFoo=1; RmPVMRL=0x11 ;RmBar=2', FIXED),
            ('the last one counts', 'RmPVMRL=0x01;RmPVMRL=0x11', FIXED),
            ('upper case', 'RMPVMRL=0X11', FIXED),
            ('a policy of tomorrow', 'RmPVMRL=0x21', None),
            ('no number', 'RmPVMRL=much', None),
            ('no value', 'RmPVMRL=', None),
            ('not even a key', 'RmPVMRL', BEST),
            ('digits of Unicode', 'RmPVMRL=٣', None),
        ):
            self.assertEqual(
                expected, vgpu_scheduler.find_policy(dwords), case
            )

    def test_gpus_with_a_policy_of_their_own(self) -> None:
        found = vgpu_scheduler.find_policies_per_gpu(
            'RmPVMRL=0x1;pci=0000:84:00.0;RmPVMRL=0x11;pci=nonsense;'
            'RmPVMRL=0x1;pci=0000:85:00.0;RmFoo=1;pci=00000001:C8:00.0;'
            'RmPVMRL=0x1'
        )
        self.assertEqual(
            {
                values.PciAddress.parse('84:00.0'): FIXED,
                values.PciAddress.parse('0001:c8:00.0'): EQUAL,
            },
            found,
        )


class TestModprobe(testtools.TestCase):
    def test_the_file_sets_what_was_asked_for(self) -> None:
        for policy in values.SchedulerPolicy:
            text = vgpu_scheduler.render_modprobe(policy)
            *comments, line = text.splitlines()
            self.assertTrue(all(c.startswith('# ') for c in comments), text)
            self.assertEqual(
                'options nvidia NVreg_RegistryDwords="RmPVMRL='
                f'{vgpu_scheduler.VALUES[policy]}"',
                line,
            )
            dwords = line.partition('"')[2].strip('"')
            self.assertEqual(policy, vgpu_scheduler.find_policy(dwords))

    def test_other_keys_are_taken_along(self) -> None:
        text = vgpu_scheduler.render_modprobe(
            EQUAL, ('RmFoo=0x1;RmPVMRL=0x11', 'RmBar=2')
        )
        self.assertIn('"RmFoo=0x1;RmBar=2;RmPVMRL=0x01"', text)
