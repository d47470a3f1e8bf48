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

"""The commands on a host that lost a GPU which nova.conf lists."""

from nova_vgpu import values
from nova_vgpu.host import state
from nova_vgpu.host import state_files
from nova_vgpu.tests import live
from nova_vgpu.tests.unit.cmd import test_changes

GONE = f'{live.T4} was a GPU of this host, and is missing now'
#: And no other GPU has the type.
EXPECTED = [('error', 'gpu-gone'), ('error', 'type-on-no-gpu')]


class TestDeadGPU(test_changes.ChangeTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.config.write_text(live.ALL_THREE)

    def lose(self) -> None:
        """The T4 does not come back with the host."""
        self.machine.kernel.unplug(values.PciAddress.parse(live.T4))
        self.machine.kernel.reboot()

    def codes(self) -> list[tuple[str, str]]:
        found = self.run_it('check', '-f', 'json').json
        return [(row['Severity'], row['Code']) for row in found]

    def test_the_other_gpus_are_made_ready(self) -> None:
        self.assertEqual(0, self.run_it('apply').code)
        ready = self.host.describe()
        self.lose()
        for _ in range(2):
            answer = self.run_it('apply')
            self.assertEqual(2, answer.code)
            self.assertIn(GONE, answer.stderr)
            self.assertNotIn('InvalidLibvirtGPUConfig', answer.stderr)
            self.assertEqual(EXPECTED, self.codes())
        left = {key for key in ready if live.T4 not in str(key)}
        self.assertNotEqual(set(), left)
        after = self.host.describe()
        for key in left:
            self.assertEqual(ready[key], after[key], key)

    def test_what_was_never_here_is_a_mistake(self) -> None:
        self.lose()
        self.assertIn(('fatal', 'not-on-host'), self.codes())

    def test_nova_compute_has_seen_it(self) -> None:
        directory = self.host.path / 'nova'
        state_files.write_gpus(
            state.StateDirectory(str(directory / state_files.NOVA_DIRECTORY)),
            frozenset({live.T4}),
        )
        self.config.write_text(
            f'[DEFAULT]\nstate_path = {directory}\n{live.ALL_THREE}'
        )
        self.lose()
        found = self.codes()
        self.assertIn(('error', 'gpu-gone'), found)
        self.assertNotIn('fatal', dict(found))
