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

"""From a bare host to the declared state, and back."""

import pathlib
import uuid

from lab.guest.tests import host
from lab.guest.tests import kept
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import incremental_reader
from nova_vgpu.host import source as host_source
from nova_vgpu.host import sysfs

_SYSFS = '/sys'
_FRAMEWORKS = {
    host.T4: values.Framework.MDEV,
    host.GVTG: values.Framework.MDEV,
    host.A10: values.Framework.MDEV_ON_VFS,
    host.L40S: values.Framework.VENDOR_VFIO,
    host.B60: None,  # nothing is declared for it
}
_TOTALS = {**kept.TOTALS, host.B60: 0}


class TestLife(host.HostTest):
    def setUp(self) -> None:
        super().setUp()
        self.monitor = incremental_reader.IncrementalReader(
            files.Files(_SYSFS)
        )

    def findings(self, code: int = 0) -> dict[str, set[str]]:
        """Errors and warnings of doctor: subjects by code."""
        found: dict[str, set[str]] = {}
        for row in self.rows('doctor', code=code):
            if row['Severity'] != 'note':
                found.setdefault(row['Code'], set()).add(row['Subject'])
        return found

    def assert_equal_models(self) -> values.Host:
        """What sysfs shows, and libvirt once it has heard of all changes.

        And what whoever keeps looking sees, who takes nothing for new that is
        not.
        """
        source = host_source.HostSource('qemu:///system', _SYSFS)
        expected = sysfs.read_host(files.Files(_SYSFS))
        self.assertEqual((), expected.faults)
        again = self.monitor.read()
        self.assertEqual(expected, again)
        self.assertIs(again, self.monitor.read())
        self.wait_until('equal', lambda: source.read_host() == expected)
        return expected

    def assert_exchanges_are_seen(self, gpu: values.PhysicalGPU) -> None:
        """An mdev of another type, with the UUID of one that was there."""
        device = pathlib.Path(_SYSFS, 'bus/pci/devices', str(gpu.address))
        name = str(uuid.uuid4())
        for vgpu_type in gpu.types[:2]:
            where = device / 'mdev_supported_types' / vgpu_type.id
            (where / 'create').write_text(name)
            (found,) = (
                vgpu
                for each in self.assert_equal_models().gpus
                for vgpu in each.all_vgpus
            )
            self.assertEqual((vgpu_type.id, name), (found.type_id, found.uuid))
            # Not looked at in between.
            (device / name / 'remove').write_text('1')

    def test_from_a_bare_host_to_the_declared_state_and_back(self) -> None:
        self.declare(host.DECLARED)
        self.assertEqual(0, host.count_vfs(host.A10))
        bare = self.assert_equal_models()
        self.assertEqual(
            sorted(_FRAMEWORKS), sorted(str(gpu.address) for gpu in bare.gpus)
        )
        (t4,) = (gpu for gpu in bare.gpus if str(gpu) == host.T4)
        self.assert_exchanges_are_seen(t4)
        self.assertEqual(bare, self.assert_equal_models())
        found = self.findings(code=2)
        self.assertEqual({host.A10, host.L40S}, found.pop('vfs-off'), found)
        self.assertIn('mdevctl-not-called', found)
        host.cure_mdevctl()

        steps = self.rows('apply', '--dry-run')
        self.assertEqual(0, host.count_vfs(host.A10))
        done = self.rows('apply')
        # GPUs take turns, in any order.
        self.assertCountEqual(
            [row['Step'] for row in steps], [row['Step'] for row in done]
        )
        for gpu in (host.A10, host.L40S):
            self.assertEqual(host.VFS, host.count_vfs(gpu))
        self.assertEqual({}, self.findings())
        self.nova_vgpu('check')
        self.assertIn('Nothing to do', self.nova_vgpu('apply', '--dry-run'))
        plan = {row['GPU']: row['Total'] for row in self.rows('plan')}
        self.assertEqual(_TOTALS, plan)
        ready = self.assert_equal_models()
        frameworks = {str(gpu.address): gpu.framework for gpu in ready.gpus}
        self.assertEqual(_FRAMEWORKS, frameworks)

        self.declare(host.AHEAD)
        self.nova_vgpu('apply')
        full = self.assert_equal_models()
        made = {str(gpu.address): len(gpu.all_vgpus) for gpu in full.gpus}
        self.assertEqual(_TOTALS, made)
        self.assertEqual({}, self.findings())

        self.nova_vgpu('restore')
        self.assertEqual(ready, self.assert_equal_models())
        self.nova_vgpu('sriov', 'disable', host.A10, host.L40S)
        self.assertEqual(bare, self.assert_equal_models())
