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

"""The flavors of ``openstack vgpu flavor create``, with Nova's own code."""

import typing
import urllib.parse

from nova import exception
from nova import objects
from nova import test
from nova.scheduler import utils
from nova.virt import hardware

from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.cloud.orders import flavor_query
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import test_servers

T4_2Q = 'CUSTOM_VGPU_TYPE_T4_2Q'
A40_8Q = 'CUSTOM_VGPU_TYPE_A40_8Q'
L40S_24Q = 'CUSTOM_VGPU_TYPE_L40S_24Q'
SAME, DIFFERENT, ANY = flavor_order.Policy
SIZE = flavors.Size(2, 2048, 20, 1, 512)


class ServersTest(test_servers.OurTestBase):
    def test_servers_get_the_type_that_was_ordered(self) -> None:
        self.declare('T4-2Q', 'A40-8Q', 'L40S-24Q')
        self.list_addresses('A40-8Q', '41:00.0', 'c1:00.0')
        self.list_addresses('L40S-24Q', 'c8:00.0')
        self.flags(mdev_class='CUSTOM_TRAIN', group='mdev_L40S-24Q')
        self.start_host(
            'host1',
            hosts.gpu('41:00.0', boards.A40, vfs=8),
            hosts.gpu('c1:00.0', boards.A40, vfs=8),
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('c8:00.0', boards.L40S, vfs=4),
        )
        a40s = {'pci_0000_41', 'pci_0000_c1'}
        for order, gpus, number in (
            (flavor_order.Order(T4_2Q), {'pci_0000_84'}, 1),
            (flavor_order.Order(A40_8Q), a40s, 1),
            (flavor_order.Order(A40_8Q, count=2), a40s, 1),
            (
                flavor_order.Order(A40_8Q, count=2, policy=DIFFERENT),
                *(a40s, 2),
            ),
            (flavor_order.Order(A40_8Q, count=2, policy=ANY), a40s, None),
            (
                flavor_order.Order(L40S_24Q, 'CUSTOM_TRAIN'),
                *({'pci_0000_c8'}, 1),
            ),
        ):
            functions = self.order(order)
            self.assertEqual(order.count, len(functions), str(order))
            found = {function[:11] for function in functions}
            self.assertLessEqual(found, gpus, str(order))
            if number is not None:
                self.assertEqual(number, len(found), str(order))

    def order(self, order: flavor_order.Order) -> list[str]:
        """The functions that hold the vGPUs of a server of a new flavor."""
        flavor = self._create_flavor(
            extra_spec=flavor_order.make_extra_specs(order)
        )
        return self.vgpus_of(self.boot(flavor_id=flavor))


class TranslationTest(test.NoDBTestCase):
    def make_flavor(self, extra_specs: dict[str, str]) -> typing.Any:
        return objects.Flavor(
            vcpus=SIZE.vcpus,
            memory_mb=SIZE.ram_mib,
            root_gb=SIZE.disk_gib,
            ephemeral_gb=SIZE.ephemeral_gib,
            swap=SIZE.swap_mib,
            extra_specs=extra_specs,
        )

    def test_placement_is_asked_what_nova_asks(self) -> None:
        for extra_specs in (
            {},
            *(
                flavor_order.make_extra_specs(
                    flavor_order.Order(A40_8Q, count=count, policy=policy)
                )
                for count in (1, 3)
                for policy in flavor_order.Policy
            ),
            {'resources:VGPU': '1', 'trait:CUSTOM_B': 'forbidden'},
            {'resources_A:VGPU': '1', 'resourcesB:CUSTOM_X': '2'},
            {'resources:DISK_GB': '0', 'resources:MEMORY_MB': '1'},
            {'resources:VCPU': '1', 'group_policy': 'wrong'},
            {'resources:PCPU': '2'},
            {'hw:cpu_policy': 'dedicated'},
            {
                'hw:cpu_policy': 'dedicated',
                'hw:emulator_threads_policy': 'isolate',
            },
        ):
            spec = objects.RequestSpec(
                flavor=self.make_flavor(extra_specs), is_bfv=False
            )
            asked = utils.ResourceRequest.from_request_spec(spec)
            theirs = dict(urllib.parse.parse_qsl(asked.to_querystring()))
            del theirs['limit']
            ours = flavor_query.make_query(
                flavors.parse('x', extra_specs, SIZE)
            )
            # Nova's filters add it.
            self.assertEqual(
                '!COMPUTE_STATUS_DISABLED', ours.pop('root_required')
            )
            self.assertEqual(_parts(theirs), _parts(ours), str(extra_specs))

    def test_memory_is_locked_only_with_a_page_size(self) -> None:
        image = objects.ImageMeta(properties=objects.ImageMetaProps())
        for page_size, expected in ((None, None), ('large', True)):
            specs = flavor_order.make_extra_specs(
                flavor_order.Order(A40_8Q, page_size=page_size)
            )
            self.assertEqual(
                expected,
                hardware.get_locked_memory_constraint(
                    self.make_flavor(specs), image
                ),
            )
        self.assertRaises(
            exception.LockMemoryForbidden,
            hardware.get_locked_memory_constraint,
            self.make_flavor({flavor_order.LOCKED_MEMORY: 'true'}),
            image,
        )


def _parts(query: dict[str, str]) -> dict[str, set[str]]:
    """The order of what is in a parameter does not matter."""
    return {key: set(value.split(',')) for key, value in query.items()}
