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

"""Functions of a GPU that do not become a vGPU: the others serve."""

import errno
import os
import typing

import fixtures
from nova.tests.fixtures import libvirt as fakelibvirt

from nova_vgpu.tests.functional.compute import simulated_mdevs
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio


class BadFunctionTest(test_vendor_vfio.VendorVFIOTestBase):
    def test_the_next_one_is_taken_and_the_bad_one_tried_last(self) -> None:
        self.start_host('host1', test_vendor_vfio.l40s(vfs=2))
        gpus = self.simulated['host1']
        write, tried = gpus.set_type, list[str]()

        def refuse_first(address: str, number: int) -> None:
            tried.append(address)
            if address == '0000:41:00.4' and number:
                raise OSError(errno.EIO, os.strerror(errno.EIO), address)
            write(address, number)

        with fixtures.MockPatchObject(gpus, 'set_type', refuse_first):
            server = self.boot()
            self.assertEqual('pci_0000_41_00_5', self.only_vgpu_of(server))
            self.assertIn(
                'Could not create a vGPU of nvidia-1155 (NVIDIA L40S-24Q) on '
                'pci_0000_41_00_4 of GPU 0000:41:00.0; will try again: '
                '[Errno 5] Input/output error',
                self.stdlog.logger.output,
            )
            self._delete_server(server)
            del tried[:]
            server = self.boot()
        self.assertEqual(['0000:41:00.5'], tried)
        # When no other one is left, and it works by then.
        other = self.boot()
        self.assertEqual('pci_0000_41_00_4', self.only_vgpu_of(other))

        # When the kernel hangs, a server does not wait for every function.
        for one in (server, other):
            self._delete_server(one)
        del tried[:]

        def time_out(address: str, number: int) -> None:
            tried.append(address)
            raise OSError(errno.ETIMEDOUT, 'timed out after 30 s', address)

        with fixtures.MockPatchObject(gpus, 'set_type', time_out):
            self.boot(expected_state='ERROR')
        self.assertEqual(1, len(tried))

        # Nor does a reconciliation, for which those servers wait.
        for address in ('0000:41:00.4', '0000:41:00.5'):
            gpus.set_type(address, test_vendor_vfio.L40S_24Q)
        del tried[:]
        with fixtures.MockPatchObject(gpus, 'set_type', time_out):
            self.reconcile()
        self.assertEqual(1, len(tried))
        self._run_periodics()
        self.assertEqual([], self.types())


class BadParentTest(test_servers.OurTestBase):
    def test_the_mdev_is_created_on_the_next_one(self) -> None:
        self.declare('A40-24Q')
        self.start_host('host1', test_servers.a40(vfs=4))
        connection = self.connection()
        create = connection.nodeDeviceCreateXML

        def refuse_first(xml: str, flags: int = 0) -> typing.Any:
            if test_servers.FIRST_VF in xml:
                raise simulated_mdevs.error(
                    'Unable to start mediated device',
                    fakelibvirt.VIR_ERR_INTERNAL_ERROR,
                )
            return create(xml, flags)

        with fixtures.MockPatchObject(
            connection, 'nodeDeviceCreateXML', refuse_first
        ):
            server = self.boot()
        self.assertEqual(['pci_0000_41_00_5'], self.mdevs_of(server))
        self.assertIn(
            f'on {test_servers.FIRST_VF} of GPU 0000:41:00.0; will try again: '
            'Unable to start mediated device',
            self.stdlog.logger.output,
        )

    def test_one_mdev_is_created_if_it_cannot_be_defined(self) -> None:
        self.declare('A40-24Q')
        self.start_host('host1', test_servers.a40(vfs=4))
        refused = simulated_mdevs.error(
            'mdevctl: No space left on device',
            fakelibvirt.VIR_ERR_INTERNAL_ERROR,
        )
        with fixtures.MockPatchObject(
            self.connection(), 'nodeDeviceDefineXML', side_effect=refused
        ):
            server = self.boot()
        self.assertEqual([test_servers.FIRST_VF], self.mdevs_of(server))
        host = self.computes['host1'].driver._host
        self.assertEqual(1, len(host.list_mediated_devices()))
