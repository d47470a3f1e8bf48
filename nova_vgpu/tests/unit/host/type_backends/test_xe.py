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

"""The back-end for Intel's SR-IOV, on a kernel with the rules of xe."""

import dataclasses
import errno

import testtools

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import sysfs
from nova_vgpu.host.type_backends import xe
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import kernel as kernels
from nova_vgpu.tests import hosts

B60 = '0000:03:00.0'
QUOTA = 'vram_quota'


def b60(**changes: object) -> simulation.GPU:
    card = hosts.gpu(B60, boards.ARC_PRO_B60)
    return dataclasses.replace(card, **changes)  # type: ignore[arg-type]


class XeTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.kernel = kernels.Kernel(b60())
        self.address = values.PciAddress.parse(B60)
        self.backend = xe.XeProfiles(self.kernel.files)

    def write(self, text: str, *path: str) -> None:
        self.kernel.files.write(text, 'bus', 'pci', 'devices', B60, *path)

    def read(self) -> values.VFProfiles:
        (gpu,) = sysfs.read_host(self.kernel.files).gpus
        assert gpu.vf_profiles is not None
        return gpu.vf_profiles

    def assert_refused(self, number: int, text: str, *path: str) -> None:
        error = self.assertRaises(OSError, self.write, text, *path)
        self.assertEqual(number, error.errno)


class TestReading(XeTestCase):
    def test_what_is_read_of_every_card(self) -> None:
        for case, card in (
            ('VFs off', b60()),
            ('provisioned', b60(vfs=3, profile=((QUOTA, 1, 6 << 30),))),
            ('before Linux 7.0', b60(vfs=2, admin=('exec_quantum_ms',))),
            ('before Linux 6.19', b60(vfs=2, admin=())),
            ('for a guest as a whole', b60(driver='vfio-pci')),
            ('i915', hosts.gpu(B60, boards.UHD_770, vfs=2)),
            ('GVT-g', hosts.gpu(B60, boards.HD_530)),
            ('AMD', hosts.gpu(B60, boards.INSTINCT_MI210)),
        ):
            kernel = kernels.Kernel(card)
            expected = hosts.make_host(card)
            self.assertEqual(expected, sysfs.read_host(kernel.files), case)

    def test_a_setting_that_differs_between_tiles_is_a_fault(self) -> None:
        class Unclean(type(self.kernel.files)):  # type: ignore[misc]
            def read(self, *parts: str) -> str:
                if parts[-1] == 'exec_quantum_ms':
                    raise files.Unreadable(
                        self.path(*parts), 'structure needs cleaning'
                    )
                return str(super().read(*parts))

        host = sysfs.read_host(Unclean(self.kernel))
        (fault,) = host.faults
        self.assertIn('vf1/profile/exec_quantum_ms', fault.source)
        (gpu,) = host.gpus
        assert gpu.vf_profiles is not None
        self.assertEqual((), gpu.vf_profiles.exec_quantum_ms)
        self.assertEqual(12, len(gpu.vf_profiles.vram_mib))

    def test_what_is_not_a_number_is_a_fault(self) -> None:
        for text in ('', '-1', '9' * 16, '0x10', '٣'):
            kernel = kernels.Kernel(b60())

            class Odd(type(kernel.files)):  # type: ignore[misc]
                def read(self, *parts: str, text: str = text) -> str:
                    if parts[-1] == QUOTA:
                        return text
                    return str(super().read(*parts))

            (fault,) = sysfs.read_host(Odd(kernel)).faults
            self.assertIn('instead of a number', fault.reason, text)


class TestSetting(XeTestCase):
    def test_a_quota_is_set_and_cleared(self) -> None:
        self.backend.set_profile(self.address, 1, 'vram_mib', 6144)
        self.assertEqual((6144, 0), self.read().vram_mib[:2])
        self.backend.set_profile(self.address, 1, 'vram_mib', 0)
        self.assertEqual({0}, set(self.read().vram_mib))

    def test_the_hardware_may_give_more_and_not_less(self) -> None:
        self.backend.set_profile(self.address, 1, 'vram_mib', 6143)
        self.assertEqual(6144, self.read().vram_mib[0])

        class Less(type(self.kernel.files)):  # type: ignore[misc]
            def read(self, *parts: str) -> str:
                text = str(super().read(*parts))
                return '1' if parts[-1] == QUOTA else text

        backend = xe.XeProfiles(Less(self.kernel))
        error = self.assertRaises(
            OSError, backend.set_profile, self.address, 1, 'vram_mib', 6144
        )
        self.assertEqual(errno.EIO, error.errno)

    def test_scheduling_is_set_while_functions_are_enabled(self) -> None:
        self.write('4', 'sriov_numvfs')
        self.backend.set_profile(self.address, 4, 'exec_quantum_ms', 20)
        self.backend.set_profile(self.address, 4, 'preempt_timeout_us', 40000)
        found = self.read()
        self.assertEqual((0, 20), found.exec_quantum_ms[2:4])
        self.assertEqual((0, 40000), found.preempt_timeout_us[2:4])


class TestKernel(XeTestCase):
    """The rules of the driver xe, which the simulated kernel follows."""

    def test_the_number_of_functions_changes_through_0(self) -> None:
        self.write('4', 'sriov_numvfs')
        self.assert_refused(errno.EBUSY, '2', 'sriov_numvfs')
        self.write('0', 'sriov_numvfs')
        self.write('2', 'sriov_numvfs')
        self.assert_refused(errno.ERANGE, '13', 'sriov_numvfs')

    def test_the_driver_provisions_equally_and_releases(self) -> None:
        self.write('4', 'sriov_numvfs')
        self.assertEqual((6120,) * 4 + (0,) * 8, self.read().vram_mib)
        self.write('0', 'sriov_numvfs')
        self.assertEqual({0}, set(self.read().vram_mib))

    def test_a_quota_keeps_the_driver_from_choosing(self) -> None:
        quota = ('sriov_admin', 'vf1', 'profile', QUOTA)
        self.write(str(6 << 30), *quota)
        self.write('2', 'sriov_numvfs')
        self.assertEqual((6144, 0), self.read().vram_mib[:2])
        self.write('0', 'sriov_numvfs')
        self.assertEqual({0}, set(self.read().vram_mib))

    def test_quotas_are_limited_by_the_memory(self) -> None:
        self.write(str(20 << 30), 'sriov_admin', 'vf1', 'profile', QUOTA)
        self.assert_refused(
            errno.ENOSPC, str(6 << 30), 'sriov_admin', 'vf2', 'profile', QUOTA
        )
        self.assert_refused(
            errno.EINVAL, 'much', 'sriov_admin', 'vf2', 'profile', QUOTA
        )
