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

"""Flavors that ask for devices of one island, as the documentation has them.

Nova reads the lines of the page about GPUDirect, and has the devices of the
host that the page is about.
"""

import pathlib
import re
import typing

import fixtures
from nova import context
from nova import objects
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base as novas_base

from nova_vgpu.tests.functional.compute import base

EXAMPLES = (
    pathlib.Path(__file__).resolve().parents[4] / 'doc' / 'source' / 'examples'
)
FIRST = {'0000:1a:00.0', '0000:1b:00.0'}
SECOND = {'0000:9a:00.0', '0000:9b:00.0'}


def read_lines(option: str) -> list[str]:
    text = (EXAMPLES / 'gpudirect.ini').read_text()
    return re.findall(rf'^{option} = (.+)$', text, re.MULTILINE)


def make_devices() -> fakelibvirt.HostPCIDevicesInfo:
    """Two GPUs without VFs, and two VFs of a NIC, on each of two switches."""
    found = fakelibvirt.HostPCIDevicesInfo(num_pci=0, num_pfs=0, num_vfs=0)
    for node, (*gpus, nic) in enumerate(
        ((0x1A, 0x1B, 0x1C), (0x9A, 0x9B, 0x9C))
    ):
        for bus in gpus:
            found.add_device(
                dev_type='PF',
                bus=bus,
                slot=0,
                function=0,
                iommu_group=bus,
                numa_node=node,
                vf_ratio=0,
                vend_id='10de',
                prod_id='2235',
                driver_name='nvidia',
            )
        for function in range(3):
            found.add_device(
                dev_type='VF' if function else 'PF',
                bus=nic,
                slot=0,
                function=function,
                iommu_group=nic + function,
                numa_node=node,
                vf_ratio=2,
                parent=(nic, 0, 0) if function else None,
                vend_id='15b3',
                prod_id='101c' if function else '101b',
                driver_name='mlx5_core',
            )
    return found


class IslandsTest(base.OurDriver, novas_base.ServersTestBase):
    """One host with two islands."""

    api_major_version = 'v2.1'
    microversion = 'latest'
    ADMIN_API = True
    ADDITIONAL_FILTERS: typing.ClassVar = ['PciPassthroughFilter']

    def setUp(self) -> None:
        # It looks into the machine's own sysfs.
        self.useFixture(
            fixtures.MockPatch(
                'nova.pci.utils.is_physical_function', return_value=False
            )
        )
        self.flags(
            device_spec=read_lines('device_spec'),
            alias=read_lines('alias'),
            report_in_placement=True,
            group='pci',
        )
        self.flags(pci_in_placement=True, group='filter_scheduler')
        super().setUp()
        self.start_compute(hostname='host1', pci_info=make_devices())

    def boot(self, alias: str, state: str = 'ACTIVE') -> typing.Any:
        flavor = self._create_flavor(
            vcpu=1,
            memory_mb=64,
            extra_spec={'pci_passthrough:alias': alias},
        )
        return self._create_server(
            flavor_id=flavor, networks='none', expected_state=state
        )

    def list_devices(self, server: typing.Any) -> set[str]:
        """The addresses of the devices that a server has."""
        found = objects.PciDeviceList.get_by_instance_uuid(
            context.get_admin_context(), server['id']
        )
        return {device.address for device in found}

    def test_devices_are_of_the_island_that_is_asked_for(self) -> None:
        """One test, because a Nova takes longer to start than all of it."""
        self.check_two_gpus()
        self.check_gpu_and_nic()

    def check_two_gpus(self) -> None:
        second = self.boot('a40-island-1:2')
        self.assertEqual(SECOND, self.list_devices(second))
        first = self.boot('a40-island-0:2')
        self.assertEqual(FIRST, self.list_devices(first))
        self._delete_server(second)
        # Two GPUs are free, but of the other island.
        failed = self.boot('a40-island-0:2', 'ERROR')
        self.assertIn('No valid host', failed['fault']['message'])
        self._delete_server(failed)
        self._delete_server(first)

    def check_gpu_and_nic(self) -> None:
        for number, (gpus, nic) in enumerate(
            ((FIRST, '0000:1c:00.'), (SECOND, '0000:9c:00.'))
        ):
            server = self.boot(f'a40-island-{number}:1,cx6-island-{number}:1')
            found = self.list_devices(server)
            (vf,) = found - gpus
            self.assertEqual(2, len(found))
            self.assertTrue(vf.startswith(nic), vf)
