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

"""Servers whose vGPUs are gone, or not what they were, when they start."""

import pathlib
import typing

import fixtures
import nova.conf
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt.libvirt import driver as libvirt_driver
from oslo_utils import uuidutils as uuids

from nova_vgpu.tests.functional.compute import test_recovery
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

CONF = nova.conf.CONF
L40S_24Q = test_vendor_vfio.L40S_24Q
L40S_48Q = test_vendor_vfio.L40S_48Q

#: Before any other in the order of names.
CYBORGS = '00000000-0b3c-4bd5-8d6d-3a0f8c0a0001'
MDEV = """<device>
  <parent>pci_0000_85_00_0</parent>
  <capability type='mdev'>
    <type id='nvidia-231'/><uuid>%s</uuid>
  </capability>
</device>"""
HOSTDEV = """<hostdev mode='subsystem' type='mdev' model='vfio-pci'>
  <source><address uuid='%s'/></source>
</hostdev>"""


def make_directory(server: typing.Any) -> None:
    """Nova's fake of the disks makes none for a server; rescuing needs it."""
    pathlib.Path(CONF.instances_path, server['id']).mkdir()


class LostFunctionTest(test_vendor_vfio.VendorVFIOTestBase):
    def setUp(self) -> None:
        super().setUp()
        self.start_host('host1', test_vendor_vfio.l40s())
        self.server = self.boot()
        self.function = self.only_vgpu_of(self.server)
        self._stop_server(self.server)

    def test_another_type_was_set_meanwhile(self) -> None:
        self.connection().reboot()
        # A GPU that is full does not name its type, but another one does.
        self.simulated['host1'].gpus.append(test_vendor_vfio.l40s('61:00.0'))
        address = '0000:41:00.' + self.function[-1]
        self.simulated['host1'].set_type(address, L40S_48Q)
        self._start_server(self.server)
        self.assertEqual([L40S_24Q], self.types())
        self.assertEqual(self.function, self.only_vgpu_of(self.server))

    def test_a_rescue_finds_it_again_or_says_that_it_cannot(self) -> None:
        make_directory(self.server)
        self.connection().reboot()
        self.restart_host('host1', test_vendor_vfio.l40s(vfs=0))
        self.attempt(self.server, 'rescue')
        server = self._wait_for_state_change(self.server, 'ERROR')
        missing = f'on {self.function} does not exist and cannot be created'
        self.assertIn(missing, server['fault']['message'])
        self.assertEqual([self.function], self.names_of(self.server))

        self.simulated['host1'].gpus[:] = [test_vendor_vfio.l40s()]
        server = self._rescue_server(self.server)
        self.assertEqual(self.function, self.only_vgpu_of(server))
        self._unrescue_server(server)
        self.assertEqual(self.function, self.only_vgpu_of(server))
        self.assertEqual([L40S_24Q], self.types())


class LostMdevTest(test_servers.OurTestBase):
    """Not even their definitions are left."""

    def setUp(self) -> None:
        super().setUp()
        self.declare('A40-24Q')
        self.start_host('host1', test_recovery.a40())
        self.server = self.boot()
        self.own = self.names_of(self.server)
        self._stop_server(self.server)
        self.connection().mdev_info.devices.clear()

    def test_a_rescue_finds_it_again(self) -> None:
        self.reboot_machine('host1')
        make_directory(self.server)
        server = self._rescue_server(self.server)
        self.assertEqual(self.own, self.names_of(server))
        self.assertEqual(1, len(self.vgpus_of(server)))
        self._unrescue_server(server)
        self.assertEqual(self.own, self.names_of(server))

    def test_it_is_not_made_of_another_type(self) -> None:
        self.declare('A40-8Q')
        self.reboot_machine('host1')
        self.attempt(self.server, 'os-start')
        self.assertIn(
            f'vGPU {self.own[0]} of {self.server["id"]} is gone: it was of '
            'type NVIDIA A40-24Q, but GPU 0000:41:00.0 serves nvidia-562 '
            '(NVIDIA A40-8Q) now.',
            self.stdlog.logger.output,
        )
        # The guest is as it was, and starts once its type is served again.
        self.assertEqual(self.own, self.names_of(self.server))
        self.assertEqual({}, self.connection().mdev_info.devices)
        self.declare('A40-24Q')
        self.restart_host('host1')
        self._reboot_server(self.server, hard=True)
        self.assertEqual(1, len(self.vgpus_of(self.server)))


class LostMdevsOfTwoTypesTest(test_servers.OurTestBase):
    def test_each_is_made_again_by_its_type(self) -> None:
        """Whichever of the two comes first in the order of their UUIDs."""
        self.declare('T4-8Q', 'A40-24Q')
        self.list_addresses('A40-24Q', '41:00.0')
        self.flags(mdev_class='CUSTOM_BIG', group='mdev_A40-24Q')
        self.start_host('host1', test_servers.t4(), test_recovery.a40())
        flavor = self._create_flavor(
            extra_spec={'resources:VGPU': '1', 'resources:CUSTOM_BIG': '1'}
        )
        driver = self.computes['host1'].driver
        create, starts = driver._create_mdev, iter('0ff0')

        def create_by_turns(*args: typing.Any) -> typing.Any:
            uuid = next(starts) + uuids.generate_uuid()[1:]
            return create(*args[:2], uuid)

        with fixtures.MockPatchObject(driver, '_create_mdev', create_by_turns):
            servers = [self.boot(flavor_id=flavor) for _ in range(2)]
        own = [self.names_of(server) for server in servers]
        self.assertNotEqual(*(self.parents()[names[0]] for names in own))
        before = self.parents()
        for server in servers:
            self._stop_server(server)
        self.connection().mdev_info.devices.clear()
        self.reboot_machine('host1')
        for server, names in zip(servers, own, strict=True):
            self._start_server(server)
            self.assertEqual(names, self.names_of(server))
        self.assertEqual(before, self.parents())

    def parents(self) -> dict[str, str]:
        """The GPUs of all mdevs, as far as their buses tell them."""
        return {
            mdev.uuid: mdev.parent()[: len('pci_0000_41')]
            for mdev in self.connection().mdev_info.devices.values()
        }


# Nova 33 takes no mdevs of Cyborg.
if hasattr(libvirt_driver.LibvirtDriver, '_allocate_cyborg_mdevs'):

    class CyborgTest(test_servers.OurTestBase):
        """A server with a vGPU of ours and an mdev of Cyborg's."""

        def setUp(self) -> None:
            super().setUp()
            self.declare('T4-8Q', unlisted_gpus='ignore')
            self.list_addresses('T4-8Q', '84:00.0')
            self.request: dict[str, typing.Any] = {
                'attach_handle_type': 'MDEV',
                'attach_handle_uuid': CYBORGS,
                'attach_handle_info': {
                    'domain': '0000',
                    'bus': '85',
                    'device': '00',
                    'function': '0',
                    'asked_type': 'nvidia-231',
                },
            }
            self.useFixture(
                fixtures.MockPatch(
                    'nova.compute.manager.ComputeManager._get_accel_info',
                    return_value=[self.request],
                )
            )

        def test_what_is_cyborgs_is_known_without_asking_it(self) -> None:
            """Nova does not say so to each operation that finds it lost."""
            self.flags(resume_guests_state_on_host_boot=True)
            self.request['attach_handle_info']['asked_type'] = 'nvidia-233'
            self.start_host(
                'host1', test_servers.t4(), test_servers.t4('85:00.0')
            )
            server = self.boot()
            own = self.names_of(server)
            self._stop_server(server)
            self._start_server(server)  # which is told of it, and creates it
            self.assertEqual(sorted([*own, CYBORGS]), self.names_of(server))
            self.connection().mdev_info.devices.clear()
            self.reboot_machine('host1')  # which resumes the server
            self.assertEqual({own[0]: test_servers.T4}, self.parents())
            self._reboot_server(server, hard=True)
            self.assertEqual(sorted([*own, CYBORGS]), self.names_of(server))
            self.assertEqual(
                {own[0]: test_servers.T4, CYBORGS: test_servers.OTHER_T4},
                self.parents(),
            )

        def parents(self) -> dict[str, str]:
            return {
                mdev.uuid: mdev.parent()
                for mdev in self.connection().mdev_info.devices.values()
            }

        def test_what_is_cyborgs_is_not_made_on_a_gpu_of_ours(self) -> None:
            self.start_host(
                'host1', test_servers.t4(), test_servers.t4('85:00.0')
            )
            server = self.boot()
            own = self.names_of(server)
            self._stop_server(server)
            connection = self.connection()
            connection.nodeDeviceCreateXML(MDEV % CYBORGS)
            self.guest_of(server).attachDeviceFlags(
                HOSTDEV % CYBORGS, fakelibvirt.VIR_DOMAIN_AFFECT_CONFIG
            )
            connection.mdev_info.devices.clear()
            self.reboot_machine('host1')
            self._start_server(server)
            self.assertEqual(sorted([*own, CYBORGS]), self.names_of(server))
            self.assertEqual(
                {own[0]: test_servers.T4, CYBORGS: test_servers.OTHER_T4},
                {
                    mdev.uuid: mdev.parent()
                    for mdev in connection.mdev_info.devices.values()
                },
            )
