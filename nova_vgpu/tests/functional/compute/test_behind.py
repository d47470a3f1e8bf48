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

"""What happens to vGPUs behind the driver's back, and who gets them then."""

import re
import typing
import uuid

from nova import exception as nova_exception

from nova_vgpu.host import guests
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

_UUID = re.compile('<uuid>.*?</uuid>')
_NAME = re.compile('<name>.*?</name>')
_HOSTDEV = re.compile('<hostdev.*</hostdev>', re.DOTALL)
_FUNCTION = """<hostdev mode='subsystem' type='pci' managed='yes'><source>
  <address domain='0x0000' bus='0x41' slot='0x00' function='0x4'/>
</source></hostdev>"""


def rename(xml: str) -> str:
    """Another guest of the same kind."""
    xml = _UUID.sub(f'<uuid>{uuid.uuid4()}</uuid>', xml, count=1)
    return _NAME.sub('<name>by-hand</name>', xml, count=1)


class BehindItsBackTest(test_servers.OurTestBase):
    """A T4 that has room for two vGPUs."""

    def setUp(self) -> None:
        super().setUp()
        self.declare('T4-8Q')
        self.start_host('host1', test_servers.t4())

    @property
    def driver(self) -> typing.Any:
        return self.computes['host1'].driver

    def leave_one(self) -> tuple[str, str]:
        """The name of a vGPU that a server left, and what its guest was."""
        server = self.boot()
        (name,) = self.names_of(server)
        xml = self.guest_of(server).XMLDesc(0)
        self._delete_server(server)
        return name, xml

    def read_guests_of(self, body: typing.Callable[[], object]) -> int:
        """How often guests are asked for what they have."""
        asked = []
        connection = type(self.connection())
        list_all = connection.listAllDomains

        def note(*args: typing.Any) -> typing.Any:
            asked.append(args)
            return list_all(*args)

        self.patch(connection, 'listAllDomains', note)
        body()
        self.patch(connection, 'listAllDomains', list_all)
        return len(asked)

    def test_what_a_server_left_is_given_to_the_next(self) -> None:
        name, _ = self.leave_one()
        self.assertEqual([name], self.names_of(self.boot()))

    def test_what_a_guest_was_given_by_hand_is_not_given_away(self) -> None:
        name, xml = self.leave_one()
        self.connection().defineXML(rename(xml))
        self.assertIn(
            name, guests.find_mdevs(self.connection(), (name,)), 'nobody'
        )
        self.assertNotEqual([name], self.names_of(self.boot()))

    def test_what_was_taken_from_a_guest_is_the_last_resort(self) -> None:
        other = self.names_of(self.boot())
        name, _ = self.leave_one()
        # As with a server that left without the driver's doing.
        self.driver.vgpus.usage.attached.add([name])
        server = self.boot()
        self.assertEqual([name], self.names_of(server))
        self.assertNotEqual(other, [name])

    def test_a_new_one_is_chosen_without_asking_guests(self) -> None:
        self.boot()
        gpu = self.provider(test_servers.T4)

        def choose() -> None:
            self.driver._allocate_mdevs({gpu: {'resources': {'VGPU': 1}}})

        self.assertEqual(0, self.read_guests_of(choose))

    def test_after_a_restart_all_guests_are_asked_once(self) -> None:
        (own,) = self.names_of(self.boot())
        self.restart_host('host1')
        (other,) = self.names_of(self.boot())
        self.assertNotEqual(own, other)


class TwoOfOneTest(test_servers.OurTestBase):
    """A server that has two vGPUs of one GPU."""

    def test_both_were_taken_from_guests(self) -> None:
        self.declare('T4-8Q')
        self.start_host('host1', test_servers.t4())
        flavor = self._create_flavor(extra_spec={'resources:VGPU': '2'})
        first = self.boot(flavor_id=flavor)
        own = self.names_of(first)
        self._delete_server(first)
        attached = self.computes['host1'].driver.vgpus.usage.attached
        for wrong in (own, own[:1], []):
            attached.add(wrong)
            server = self.boot(flavor_id=flavor)
            self.assertEqual(own, self.names_of(server))
            self._delete_server(server)


class ChangedTypeTest(test_servers.OurTestBase):
    """Another release of the vendor's driver, below nova-compute."""

    def require_nothing(self, device: str) -> None:
        driver = self.computes['host1'].driver
        gpu = self.provider(device)
        self.simulated['host1'].kernel.upgrade_driver()
        for _ in range(3):
            self.assertRaises(
                nova_exception.ComputeResourcesUnavailable,
                driver._allocate_mdevs,
                {gpu: {'resources': {'VGPU': 1}}},
            )
        self.assertEqual(
            [()], [gpu.created for gpu in self.simulated['host1'].gpus]
        )

    def test_an_mdev_is_not_made_of_another_type(self) -> None:
        self.declare('nvidia-233')
        self.start_host('host1', test_servers.t4())
        self.require_nothing(test_servers.T4)

    def test_a_function_does_not_become_another_type(self) -> None:
        self.declare('nvidia-1155')
        self.start_host('host1', test_vendor_vfio.l40s())
        self.require_nothing('pci_0000_41_00_0')


class PassedThroughTest(test_servers.OurTestBase):
    def test_a_function_that_a_guest_has_is_not_used(self) -> None:
        """Whoever gave it to that guest did so without Nova."""
        self.declare('A40-24Q')
        self.start_host('host1', hosts.gpu('41:00.0', boards.A40, vfs=2))
        server = self.boot()
        xml = self.guest_of(server).XMLDesc(0)
        self._delete_server(server)
        self.simulated['host1'].gpus[:] = [
            hosts.gpu('41:00.0', boards.A40, vfs=2)
        ]
        self.connection().defineXML(
            _HOSTDEV.sub(_FUNCTION, rename(xml), count=1)
        )
        self.restart_host('host1')
        server = self.boot()
        self.assertEqual(['pci_0000_41_00_5'], self.mdevs_of(server))


class InventoryTest(test_servers.OurTestBase):
    """What Placement has follows what happens to the GPU."""

    def capacity(self) -> int | None:
        """What servers can have of the GPU; None without a provider."""
        self._run_periodics()
        found = self.inventory('pci_0000_41_00_0')
        return found['total'] - found['reserved'] if found else None

    def replace(self, gpu: simulation.GPU) -> None:
        self.simulated['host1'].gpus[:] = [gpu]

    def test_whatever_it_is_the_next_update_has_it(self) -> None:
        self.declare('A40-12Q')
        self.start_host('host1', hosts.gpu('41:00.0', boards.A40, vfs=8))
        self.assertEqual(4, self.capacity())
        # A vGPU of another size: the type is exhausted.
        self.replace(hosts.gpu('41:00.0', boards.A40, 'nvidia-558', vfs=8))
        self.assertEqual(0, self.capacity())
        # A vGPU of the same type takes no more than its place.
        self.replace(hosts.gpu('41:00.0', boards.A40, 'nvidia-563', vfs=8))
        self.assertEqual(4, self.capacity())
        # Virtual functions come and go.
        self.replace(hosts.gpu('41:00.0', boards.A40, vfs=3))
        self.assertEqual(3, self.capacity())
        self.replace(hosts.gpu('41:00.0', boards.A40, vfs=0))
        self.assertEqual(0, self.capacity())
        self.replace(hosts.gpu('41:00.0', boards.A40, vfs=32))
        self.assertEqual(4, self.capacity())
        # The GPU is lost.
        self.simulated['host1'].gpus[:] = []
        self.assertIsNone(self.capacity())
