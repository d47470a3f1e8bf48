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

"""What the commands show of an Intel GPU, and do to it."""

from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.unit.cmd import test_changes

B60 = '0000:03:00.0'


class TestVFProfiles(test_changes.ChangeTestCase):
    gpus = (
        hosts.gpu(B60, boards.ARC_PRO_B60),
        hosts.gpu('00:02.0', boards.UHD_770, vfs=2),
    )

    def setUp(self) -> None:
        super().setUp()
        self.config.write_text(
            '[devices]\nenabled_vgpu_types = B60-6G\n'
            f'[vgpu_B60-6G]\ndevice_addresses = {B60}=3\n'
        )

    def show(self) -> tuple[str, str, int]:
        (row,) = (
            row
            for row in self.run_it('gpu', 'list', '-f', 'json').json
            if row['GPU'] == B60
        )
        found = self.run_it('gpu', 'show', B60, '-f', 'json').json
        self.assertEqual(row['State'], found['state'])
        return row['Framework'], row['State'], row['vGPUs']

    def test_the_list_of_gpus(self) -> None:
        self.assertEqual(('-', 'not-provisioned', 0), self.show())
        self.assertEqual(0, self.run_it('apply').code)
        self.assertEqual(('VF profiles', 'ready', 3), self.show())
        self.assertEqual(0, self.run_it('check').code)

    def test_functions_are_enabled_without_waiting_for_types(self) -> None:
        answer = self.run_it('sriov', 'enable', B60)
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertEqual(12, self.host.describe()[f'{B60} VFs'])
        answer = self.run_it('apply')
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertIn('disable the 12 VFs', answer.stderr)
        self.assertEqual(3, self.host.describe()[f'{B60} VFs'])

    def test_one_that_nothing_is_declared_for(self) -> None:
        rows = self.run_it('gpu', 'list', '-f', 'json').json
        (state,) = (r['State'] for r in rows if r['GPU'] == '0000:00:02.0')
        self.assertEqual('no-types-ever', state)
