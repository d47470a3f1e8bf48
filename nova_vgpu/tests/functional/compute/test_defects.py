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

"""What Nova's own driver gets wrong, and this one does not.

Each test is run with both: the class of Nova's driver says what goes wrong,
the class of this project's what is right.
"""

import threading
import typing

import fixtures
from nova import context
from nova import objects
import nova.conf

from nova_vgpu import exception
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import base
from nova_vgpu.tests.functional.compute import simulated

CONF = nova.conf.CONF
T4 = 'pci_0000_84_00_0'
OTHER_T4 = 'pci_0000_c5_00_0'
#: An A40, or an L40S.
A40 = 'pci_0000_41_00_0'
VF = 'pci_0000_41_00_4'

SPAWN = 'nova.virt.libvirt.driver.LibvirtDriver.spawn'

#: T4-2Q and T4-4Q, by the ids that both drivers take.
T4_2Q, T4_4Q = 'nvidia-231', 'nvidia-232'
A40_8Q = 'nvidia-562'


class Scenarios(simulated.SimulatedTestBase):
    """What is done; what comes of it is for the classes below to say."""

    def declare(
        self,
        types: dict[str, list[str]],
        **options: typing.Any,
    ) -> None:
        """Types and their addresses; options go to the first one."""
        self.flags(enabled_mdev_types=list(types), group='devices')
        nova.conf.devices.register_dynamic_opts(CONF)
        for name, addresses in types.items():
            self.flags(device_addresses=addresses, group=f'mdev_{name}')
        for option, value in options.items():
            self.flags(group=f'mdev_{next(iter(types))}', **{option: value})

    def two_t4(self) -> typing.Any:
        return (
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('c5:00.0', boards.T4),
        )

    def start_with_an_absent_address(self) -> None:
        self.declare({T4_2Q: ['0000:99:00.0']})
        self.start_host('host1', *self.two_t4())

    def start_with_capitals(self) -> None:
        self.declare({T4_2Q: ['0000:84:00.0'], T4_4Q: ['0000:C5:00.0']})
        self.start_host('host1', *self.two_t4())

    def start_with_a_slip_in_the_type(self) -> None:
        self.declare({'nvidia-2311': []})
        self.start_host('host1', *self.two_t4())

    def start_with_a_class_and_no_addresses(self) -> None:
        self.declare({T4_2Q: []}, mdev_class='CUSTOM_BIG')
        self.start_host('host1', *self.two_t4())

    def take_an_address_out(self) -> None:
        self.declare({T4_2Q: ['0000:84:00.0', '0000:c5:00.0']})
        self.start_host('host1', *self.two_t4())
        self.assertIsNotNone(self.provider(OTHER_T4))
        self.flags(device_addresses=['0000:84:00.0'], group=f'mdev_{T4_2Q}')
        if isinstance(self, base.OurDriver):
            self.flags(unlisted_gpus='ignore', group='devices')
        self.restart_host('host1')

    def lose_the_guest_and_reboot(self) -> list[str]:
        """The vGPUs of a server whose guest was undefined, rebooted hard."""
        self.declare({T4_2Q: []})
        self.start_host('host1', *self.two_t4())
        flavor = self._create_flavor(extra_spec={'resources1:VGPU': '1'})
        server = self.boot(flavor_id=flavor)
        self.assertEqual(1, len(self.mdevs_of(server)))
        driver = self.computes['host1'].driver
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(), server['id']
        )
        driver._host.get_guest(instance).delete_configuration()
        self._reboot_server(server, hard=True)
        return self.mdevs_of(server)

    def start_with_an_idle_vgpu(self) -> typing.Any:
        """Allocations for one more, which would take the idle one."""
        self.declare({T4_2Q: ['0000:84:00.0']})
        self.start_host('host1', self.two_t4()[0])
        self._delete_server(self.boot())  # leaves its vGPU behind
        return {self.provider(T4): {'resources': {'VGPU': 1}}}

    def cap_below_capacity(self) -> typing.Any:
        self.declare({T4_2Q: ['0000:84:00.0']})
        self.start_host('host1', self.two_t4()[0])
        self.declare({T4_2Q: ['0000:84:00.0']}, max_instances=3)
        self.restart_host('host1')
        return self.inventory(T4)

    def list_a_gpu_under_a_type_that_it_lacks(self) -> None:
        self.declare({T4_2Q: ['0000:84:00.0', '0000:c5:00.0']})
        self.start_host('host1', *self.two_t4())
        self.declare({T4_2Q: ['0000:84:00.0'], A40_8Q: ['0000:c5:00.0']})
        self.restart_host('host1')

    def start_without_mediated_devices(self) -> None:
        """Also with a GPU whose virtual functions are off."""
        self.declare({'nvidia-1155': []})
        self.start_host(
            'host1',
            hosts.gpu('41:00.0', boards.L40S, vfs=4, vendor_vfio=True),
            hosts.gpu('61:00.0', boards.L40S, vfs=0, vendor_vfio=True),
        )

    def start_with_virtual_functions(self) -> None:
        self.declare({A40_8Q: []})
        self.start_host('host1', hosts.gpu('41:00.0', boards.A40, vfs=32))

    def change_the_type_with_an_idle_vgpu_around(self) -> typing.Any:
        self.declare({T4_2Q: ['0000:84:00.0']})
        self.start_host('host1', self.two_t4()[0])
        self._delete_server(self.boot())  # leaves its vGPU behind
        self.declare({T4_4Q: ['0000:84:00.0']})
        self.restart_host('host1')
        return self.inventory(T4)


class NovasDriver(Scenarios):
    def test_01_no_traits_tell_the_type(self) -> None:
        self.declare({T4_2Q: []})
        self.start_host('host1', *self.two_t4())
        traits = set(self._get_provider_traits(self.provider(T4)))
        self.assertEqual(set(), traits - {'OWNER_NOVA'})

    def test_02_an_absent_address_is_passed_over(self) -> None:
        self.start_with_an_absent_address()
        self.assertIsNone(self.provider(T4))

    def test_03_capitals_match_nothing(self) -> None:
        self.start_with_capitals()
        self.assertIsNone(self.provider(OTHER_T4))

    def test_04_a_slip_in_the_type_gives_nothing(self) -> None:
        self.start_with_a_slip_in_the_type()
        self.assertIsNone(self.provider(T4))
        self.assertNotIn('nvidia-2311', self.stdlog.logger.output)

    def test_05_the_class_is_lost(self) -> None:
        self.start_with_a_class_and_no_addresses()
        self.assertIsNotNone(self.inventory(T4, 'VGPU'))
        self.assertIsNone(self.inventory(T4, 'CUSTOM_BIG'))

    def test_06_the_provider_stays(self) -> None:
        self.take_an_address_out()
        self.assertIsNotNone(self.provider(OTHER_T4))

    def test_07_the_server_comes_back_without_its_gpu(self) -> None:
        self.assertEqual([], self.lose_the_guest_and_reboot())

    def test_08_both_get_the_same(self) -> None:
        asked = self.start_with_an_idle_vgpu()
        driver = self.computes['host1'].driver
        self.assertEqual(
            driver._allocate_mdevs(asked), driver._allocate_mdevs(asked)
        )

    def test_09_the_provider_is_gone(self) -> None:
        self.assertIsNone(self.cap_below_capacity())

    def test_10_the_driver_breaks(self) -> None:
        self.list_a_gpu_under_a_type_that_it_lacks()
        asked = {self.provider(OTHER_T4): {'resources': {'VGPU': 1}}}
        driver = self.computes['host1'].driver
        self.assertRaises(KeyError, driver._allocate_mdevs, asked)

    def test_11_a_provider_per_virtual_function(self) -> None:
        self.start_with_virtual_functions()
        self.assertIsNone(self.provider(A40))
        self.assertIsNotNone(self.provider(VF))

    def test_12_there_are_no_vgpus_and_no_word_about_it(self) -> None:
        self.start_without_mediated_devices()
        self.assertIsNone(self.provider(A40))
        self.assertNotIn('61:00.0', self.stdlog.logger.output)
        self.boot(expected_state='ERROR')

    def test_13_the_new_type_cannot_be_served(self) -> None:
        self.assertIsNone(self.change_the_type_with_an_idle_vgpu_around())


class OurDriver(base.OurDriver, Scenarios):
    def test_01_traits_tell_the_type(self) -> None:
        self.declare({T4_2Q: []})
        self.start_host('host1', *self.two_t4())
        traits = set(self._get_provider_traits(self.provider(T4)))
        self.assertLessEqual(
            {'OWNER_NOVA', 'CUSTOM_VGPU_TYPE_T4_2Q', 'CUSTOM_GPU_MODEL_T4'},
            traits,
        )

    def test_02_an_absent_address_stops_the_service(self) -> None:
        error = self.assertRaises(
            exception.InvalidLibvirtGPUConfig,
            self.start_with_an_absent_address,
        )
        self.assertIn('0000:99:00.0', str(error))

    def test_03_capitals_are_as_good(self) -> None:
        self.start_with_capitals()
        inventory = self.inventory(OTHER_T4)
        self.assertEqual(4, inventory and inventory['total'])

    def test_04_a_slip_in_the_type_is_told(self) -> None:
        self.start_with_a_slip_in_the_type()
        self.assertIsNone(self.provider(T4))
        self.assertIn(
            "no GPU of this host offers 'nvidia-2311'",
            self.stdlog.logger.output,
        )

    def test_05_the_class_is_published(self) -> None:
        self.start_with_a_class_and_no_addresses()
        self.assertIsNone(self.inventory(T4, 'VGPU'))
        self.assertIsNotNone(self.inventory(T4, 'CUSTOM_BIG'))
        flavor = self._create_flavor(extra_spec={'resources:CUSTOM_BIG': '1'})
        self.assertEqual(1, len(self.mdevs_of(self.boot(flavor_id=flavor))))

    def test_06_the_provider_goes(self) -> None:
        self.take_an_address_out()
        self.assertIsNone(self.provider(OTHER_T4))
        self.assertIsNotNone(self.provider(T4))

    def test_07_the_server_gets_a_gpu_again(self) -> None:
        self.assertEqual(1, len(self.lose_the_guest_and_reboot()))

    def test_08_each_gets_its_own(self) -> None:
        asked = self.start_with_an_idle_vgpu()
        driver = self.computes['host1'].driver
        chosen: list[str] = []
        second_chose = threading.Event()

        def boot_second(*_arguments: object) -> None:
            chosen.extend(driver._allocate_mdevs(asked))
            second_chose.set()

        def boot_first(*_arguments: object) -> None:
            chosen.extend(driver._allocate_mdevs(asked))
            with fixtures.MonkeyPatch(SPAWN, boot_second):
                other = threading.Thread(target=driver.spawn)
                other.start()
                self.assertTrue(second_chose.wait(60))
                other.join()

        with fixtures.MonkeyPatch(SPAWN, boot_first):
            driver.spawn()
        self.assertEqual(2, len(set(chosen)), chosen)
        self.assertEqual(frozenset(), driver.vgpus.usage.pending.list())

    def test_09_the_inventory_is_capped(self) -> None:
        inventory = self.cap_below_capacity()
        self.assertEqual(3, inventory and inventory['total'])

    def test_10_the_others_serve(self) -> None:
        self.list_a_gpu_under_a_type_that_it_lacks()
        self.require_fence(OTHER_T4)
        self.assertIn(f"does not offer '{A40_8Q}'", self.stdlog.logger.output)
        self.assertEqual([T4], self.mdevs_of(self.boot()))

    def test_11_a_provider_per_gpu_with_its_real_capacity(self) -> None:
        self.start_with_virtual_functions()
        inventory = self.inventory(A40)
        self.assertEqual(6, inventory and inventory['total'])
        self.assertIsNone(self.provider(VF))

    def test_12_types_are_set_and_what_is_missing_is_told(self) -> None:
        self.start_without_mediated_devices()
        inventory = self.inventory(A40)
        self.assertEqual(2, inventory and inventory['total'])
        self.assertIn(
            'nova-vgpu sriov enable 0000:61:00.0', self.stdlog.logger.output
        )
        self.assertEqual([VF], self.vgpus_of(self.boot()))

    def test_13_the_idle_vgpu_makes_way(self) -> None:
        inventory = self.change_the_type_with_an_idle_vgpu_around()
        self.assertEqual(4, inventory and inventory['total'])
        self.assertEqual(1, len(self.mdevs_of(self.boot())))
