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

"""The same host through sysfs and through libvirt, on a real kernel."""

from lab.guest.tests import host
from nova_vgpu import application
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import sysfs

_SYSFS = '/sys'


class TestReaders(host.HostTest):
    def assert_equal_models(self) -> values.Host:
        """They are equal once libvirt has heard of what changed."""
        source = application.HostSource('qemu:///system', _SYSFS)
        tree = files.Files(_SYSFS)
        expected = sysfs.read_host(tree)
        self.assertEqual((), expected.faults)
        self.wait_until(
            'equal', lambda: application.read_host(source) == expected
        )
        return expected

    def test_every_framework_from_bare_to_used_and_back(self) -> None:
        bare = self.assert_equal_models()
        self.assertEqual(
            [host.T4, host.GVTG, host.A10, host.L40S],
            sorted(str(gpu.address) for gpu in bare.gpus),
        )
        self.nova_vgpu('sriov', 'enable', host.A10, host.L40S)
        frameworks = {
            str(gpu.address): gpu.framework
            for gpu in self.assert_equal_models().gpus
        }
        self.assertEqual(
            {
                host.T4: values.Framework.MDEV,
                host.GVTG: values.Framework.MDEV,
                host.A10: values.Framework.MDEV_ON_VFS,
                host.L40S: values.Framework.VENDOR_VFIO,
            },
            frameworks,
        )
        for gpu, of_type in (
            (host.T4, 'T4-4Q'),
            (host.GVTG, 'i915-GVTg_V5_8'),
            (host.A10, 'A10-8Q'),
            (host.L40S, 'L40S-12Q'),
        ):
            self.nova_vgpu('device', 'enable', gpu, '--type', of_type)
        self.assert_equal_models()
        made = [
            row['Device']
            for row in self.rows('device', 'list')
            if row['State'] == 'vGPU'
        ]
        self.assertEqual(4, len(made))
        for device in made:
            self.nova_vgpu('device', 'disable', device)
        self.nova_vgpu('sriov', 'disable', host.A10, host.L40S)
        self.assertEqual(bare, self.assert_equal_models())
