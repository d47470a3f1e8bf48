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

"""Nova's own tests of vGPUs, with this project's driver in its place."""

import importlib.metadata

from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_reshape
from nova.tests.functional.libvirt import test_vgpu
from nova.tests.functional.regressions import test_bug_2074219
from nova.tests.functional.regressions import test_bug_2098892

from nova_vgpu.tests.functional.compute import base
from nova_vgpu.tests.functional.compute import simulated

NOVA = int(importlib.metadata.version('nova').split('.')[0])


class VGPUTests(base.OurDriver, test_vgpu.VGPUTests):
    def test_create_server_with_two_vgpus_isolated(self) -> None:
        """The server gets both; Nova's driver gave it one before Nova 33."""
        if NOVA >= 33:
            super().test_create_server_with_two_vgpus_isolated()
            return
        flavor = self._create_flavor(
            extra_spec={
                'resources1:VGPU': '1',
                'resources2:VGPU': '1',
                'group_policy': 'isolate',
            }
        )
        self._create_server(
            image_uuid=simulated.IMAGE,
            flavor_id=flavor,
            networks='auto',
            host=self.compute1.host,
        )
        self.assert_mdev_usage(self.compute1, expected_amount=2)


class VGPUMultipleTypesTests(base.OurDriver, test_vgpu.VGPUMultipleTypesTests):
    pass


class VGPULiveMigrationTests(base.OurDriver, test_vgpu.VGPULiveMigrationTests):
    pass


class VGPULiveMigrationTestsLMFailed(
    base.OurDriver, test_vgpu.VGPULiveMigrationTestsLMFailed
):
    pass


class DifferentMdevClassesTests(
    base.OurDriver, test_vgpu.DifferentMdevClassesTests
):
    pass


class VGPUReshapeTests(base.OurDriver, test_reshape.VGPUReshapeTests):
    pass


class VGPUTestsListDevices(
    base.OurDriver, test_bug_2098892.VGPUTestsListDevices
):
    pass


class VGPUTestVolumeOPs(base.OurDriver, test_bug_2074219.VGPUTestVolumeOPs):
    pass


class VGPULimitMultipleTypesTests(
    base.OurDriver, test_vgpu.VGPULimitMultipleTypesTests
):
    """The one test that asserts what this driver does differently.

    Nova removes the provider of a GPU that could serve more than
    ``max_instances``; here the GPU serves just that many.
    """

    def test_create_servers_with_vgpu(self) -> None:
        name = f'host1_{fakelibvirt.MDEVCAP_DEV1_PCI_ADDR}'
        uuid = self._get_provider_uuid_by_name(name)
        self.assertEqual(
            16, self._get_provider_inventory(uuid)['VGPU']['total']
        )
        self.flags(max_instances=2, group='mdev_nvidia-11')
        self.restart_compute_service('host1')
        self.assertEqual(
            2, self._get_provider_inventory(uuid)['VGPU']['total']
        )
