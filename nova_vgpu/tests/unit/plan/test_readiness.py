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

"""Why a GPU makes no vGPUs, and what to do about it."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.plan import readiness
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

XE_SRIOV = values.PhysicalGPU(
    'pci_0000_03_00_0',
    values.PciAddress.parse('03:00.0'),
    values.PciIds(0x8086, 0x56C0),
    driver='xe',
    sriov=values.Sriov(31),
)
A_VF = values.VirtualFunction(values.PciAddress.parse('03:00.1'))


class TestObstacles(testtools.TestCase):
    def test_a_gpu_that_offers_types_has_none(self) -> None:
        full = values.PhysicalGPU(
            'x', driver='nvidia', vgpus=(values.VGPU('x', 'nvidia-1', 'u'),)
        )
        for case, gpu in (
            ('mdev', hosts.make_gpu(hosts.gpu('84:00.0', boards.T4))),
            (
                'mdev on VFs',
                hosts.make_gpu(hosts.gpu('41:00.0', boards.A40, vfs=1)),
            ),
            (
                'vendor VFIO',
                hosts.make_gpu(
                    hosts.gpu('c8:00.0', boards.L40S, vfs=1, vendor_vfio=True)
                ),
            ),
            ('Intel', hosts.make_gpu(hosts.gpu('00:02.0', boards.HD_530))),
            ('full', full),
            ('a sample parent', hosts.make_host(mtty=True).gpus[0]),
        ):
            self.assertIsNone(readiness.find_obstacle(gpu), case)

    def test_functions_that_libvirt_took_away(self) -> None:
        vf = values.VirtualFunction(
            values.PciAddress.parse('c1:00.4'), driver='vfio-pci'
        )
        gpu = values.PhysicalGPU(
            'pci_0000_c1_00_0',
            values.PciAddress.parse('c1:00.0'),
            values.PciIds(0x10DE, 0x26B9),
            driver='nvidia',
            vfs=(vf,),
        )
        obstacle = readiness.find_obstacle(gpu)
        self.assertIsNotNone(obstacle)
        self.assertEqual(
            'vfs-passed-through', obstacle.code if obstacle else None
        )

    def test_every_obstacle(self) -> None:
        def a40(driver: str | None, vfs: int = 0) -> values.PhysicalGPU:
            return hosts.make_gpu(
                hosts.gpu(
                    'c1:00.0',
                    boards.A40,
                    vfs=vfs,
                    driver=driver,
                    types_ready=False,
                )
            )

        for case, gpu, code, finding, cure in (
            (
                'no driver',
                a40(None),
                'no-driver',
                'no driver is bound to it',
                'vGPU host driver',
            ),
            (
                'sriov-manage was interrupted',
                a40('pci-pf-stub'),
                'on-stub-driver',
                'bound to pci-pf-stub',
                'nova-vgpu sriov enable 0000:c1:00.0',
            ),
            (
                'kept for passthrough',
                a40('vfio-pci'),
                'passed-through',
                'bound to vfio-pci',
                'Bind 0000:c1:00.0 to the vGPU host driver',
            ),
            (
                'the desktop driver',
                a40('nouveau'),
                'plain-driver',
                'its driver is nouveau',
                'prevent nouveau from loading',
            ),
            (
                'virtual functions off',
                a40('nvidia'),
                'vfs-off',
                'its VFs are not enabled (0 of 32)',
                'nova-vgpu sriov enable 0000:c1:00.0',
            ),
            (
                'the vGPU manager is late',
                a40('nvidia', vfs=32),
                'no-types-yet',
                '32 VFs are enabled, but none shows a vGPU type',
                'nvidia-vgpu-mgr',
            ),
            (
                'functions without a type to choose',
                values.PhysicalGPU(
                    'x',
                    ids=values.PciIds(0x10DE, 0x26B9),
                    driver='nvidia',
                    vfs=(
                        values.VirtualFunction(A_VF.address, vendor_vfio=True),
                    ),
                ),
                'no-types-yet',
                '1 VFs are enabled, but none shows a vGPU type',
                'MIG',
            ),
            (
                'libvirt of another machine',
                dataclasses.replace(
                    a40('nvidia', vfs=32), sriov=values.Sriov(32)
                ),
                'no-types-yet',
                'libvirt shows no vGPU type of its 32 VFs, and does not show',
                'Run the command on the host itself',
            ),
            (
                'the driver for bare metal',
                hosts.make_gpu(
                    hosts.gpu('84:00.0', boards.T4, types_ready=False)
                ),
                'no-types',
                'its driver, nvidia, shows no vGPU types',
                'not the one for bare metal',
            ),
            (
                'AMD',
                hosts.make_gpu(hosts.gpu('a1:00.0', boards.INSTINCT_MI210)),
                'no-types-ever',
                'AMD GPUs are shared by SR-IOV alone',
                'PCI passthrough',
            ),
            (
                'AMD without a driver',
                hosts.make_gpu(
                    hosts.gpu('a1:00.0', boards.INSTINCT_MI210, driver=None)
                ),
                'no-types-ever',
                'AMD GPUs are shared by SR-IOV alone',
                'PCI passthrough',
            ),
            (
                'Intel, functions off',
                XE_SRIOV,
                'no-types-ever',
                'Intel GPUs with SR-IOV have no vGPU types',
                'PCI passthrough',
            ),
            (
                'Intel, functions where they belong',
                dataclasses.replace(
                    XE_SRIOV,
                    vfs=(dataclasses.replace(A_VF, driver='vfio-pci'),),
                ),
                'no-types-ever',
                'Intel GPUs with SR-IOV have no vGPU types',
                'PCI passthrough',
            ),
        ):
            found = readiness.find_obstacle(gpu)
            assert found is not None, case
            self.assertEqual(code, found.code, case)
            self.assertIn(finding, found.finding, case)
            self.assertIn(cure, found.cure, case)

    def test_nobody_tells_an_intel_gpu_to_start_nvidias_service(self) -> None:
        gpu = values.PhysicalGPU(
            'x', ids=XE_SRIOV.ids, driver='xe', vfs=(A_VF,)
        )
        for shown in (gpu, XE_SRIOV):
            found = readiness.find_obstacle(shown)
            assert found is not None
            self.assertNotIn('nvidia', found.cure)
