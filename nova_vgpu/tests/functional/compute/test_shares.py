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

"""Servers on GPUs that are divided among several types."""

import collections
import dataclasses
import typing

import nova.conf

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import test_servers

CONF = nova.conf.CONF
FIRST, SECOND = 'pci_0000_21_00_0', 'pci_0000_81_00_0'
LARGE, SMALL = 'A100D-2-20C', 'A100D-1-10C'
LARGE_CLASS, SMALL_CLASS = 'CUSTOM_NVIDIA_700', 'CUSTOM_NVIDIA_699'


def a100d(address: str) -> simulation.GPU:
    return dataclasses.replace(
        hosts.gpu(address, boards.A100D, vfs=16), mixed=True, instances=True
    )


def a10(address: str, vendor_vfio: bool = False) -> simulation.GPU:
    return dataclasses.replace(
        hosts.gpu(address, boards.A10, vfs=16, vendor_vfio=vendor_vfio),
        mixed=True,
    )


class SharesTestBase(test_servers.OurTestBase):
    def declare_shares(
        self, shares: dict[str, list[str]], classes: dict[str, str]
    ) -> None:
        """Types with their entries, and with a class if it has one."""
        self.declare(*shares, unlisted_gpus='ignore')
        for name, entries in shares.items():
            self.list_addresses(name, *entries)
            self.flags(
                mdev_class=classes.get(name, 'VGPU'), group=f'mdev_{name}'
            )

    def flavor_of(self, **specs: str) -> typing.Any:
        return self._create_flavor(
            vcpu=1,
            memory_mb=256,
            disk=1,
            ephemeral=1,
            extra_spec={
                name.replace('__', ':'): value for name, value in specs.items()
            },
        )

    def of_class(self, name: str) -> typing.Any:
        return self.flavor_of(**{f'resources__{name}': '1'})

    def of_type(self, name: str, resource_class: str = 'VGPU') -> typing.Any:
        trait = 'CUSTOM_VGPU_TYPE_' + name.upper().replace('-', '_')
        return self.flavor_of(
            **{
                f'resources__{resource_class}': '1',
                f'trait__{trait}': 'required',
            }
        )

    def totals(self, *devices: str) -> list[tuple[str, int] | None]:
        """The class and the total of each provider."""
        found: list[tuple[str, int] | None] = []
        for device in devices:
            uuid = self.provider(device)
            inventories = self._get_provider_inventory(uuid) if uuid else {}
            found.extend(
                [(name, i['total']) for name, i in inventories.items()]
                or [None]
            )
        return found

    def types_in_use(self, host: str = 'host1') -> dict[str, int]:
        """How many vGPUs of each type the hardware has."""
        return collections.Counter(
            str(of_type.name).rpartition(' ')[2]
            for gpu in self.simulated[host].gpus
            for created in gpu.created
            for of_type in gpu.board.types
            if of_type.id == created.type_id
        )


class ProductionTest(SharesTestBase):
    """Two cards in MIG mode: three large vGPUs and a small one of each."""

    #: How the two types are declared: by numbers, and by functions.
    DECLARED: typing.ClassVar[dict[str, list[str]]] = {
        LARGE: ['0000:21:00.0=3', '0000:81:00.0=3'],
        SMALL: ['0000:21:00.0=1', '0000:81:00.0=1'],
    }

    def setUp(self) -> None:
        super().setUp()
        self.flags(instances=20, group='quota')
        self.classes = {LARGE: LARGE_CLASS, SMALL: SMALL_CLASS}
        self.declare_shares(self.DECLARED, self.classes)
        self.start_host('host1', a100d('21:00.0'), a100d('81:00.0'))
        self.devices = [
            f'{gpu}_{name}'
            for gpu in (FIRST, SECOND)
            for name in (LARGE, SMALL)
        ]

    def test_each_card_serves_three_and_one_to_the_last(self) -> None:
        self.assertEqual(
            [(LARGE_CLASS, 3), (SMALL_CLASS, 1)] * 2,
            self.totals(*self.devices),
        )
        self.assertIsNone(self.provider(FIRST))
        large, small = self.of_class(LARGE_CLASS), self.of_class(SMALL_CLASS)
        large_type = self.of_type(LARGE, LARGE_CLASS)
        small_type = self.of_type(SMALL, SMALL_CLASS)
        order = [*[large, large_type] * 3, small, small_type]
        servers = [self.boot(flavor_id=flavor) for flavor in order]
        self.assertEqual({LARGE: 6, SMALL: 2}, self.types_in_use())
        vgpus = [vgpu for server in servers for vgpu in self.vgpus_of(server)]
        self.assertEqual(8, len(set(vgpus)))
        for flavor in (large, large_type, small, small_type):
            self.boot(flavor_id=flavor, expected_state='ERROR')
        # What becomes free can be had again, by that type only.
        self._delete_server(servers[0])
        self.boot(flavor_id=small, expected_state='ERROR')
        self.boot(flavor_id=large)
        self.assertEqual({LARGE: 6, SMALL: 2}, self.types_in_use())

    def test_servers_keep_their_types_over_reboots_and_resizes(self) -> None:
        large, small = self.of_class(LARGE_CLASS), self.of_class(SMALL_CLASS)
        first = self.boot(flavor_id=large)
        second = self.boot(flavor_id=small)
        before = self.totals(*self.devices)
        self._reboot_server(first, hard=True)
        self.reboot_machine('host1', autostart=False)
        self._run_periodics(raise_on_error=True)
        self.assertEqual(before, self.totals(*self.devices))
        for server in (first, second):
            self._reboot_server(server, hard=True)
        self.assertEqual({LARGE: 1, SMALL: 1}, self.types_in_use())
        self.flags(allow_resize_to_same_host=True)
        self._resize_server(second, large)
        self._confirm_resize(second)
        self.assertEqual(1, len(self.vgpus_of(second)))
        self._delete_server(first)
        self._delete_server(second)
        self._run_periodics(raise_on_error=True)
        self.assertEqual(before, self.totals(*self.devices))

    def test_it_becomes_whole_and_is_divided_again(self) -> None:
        """Servers keep their vGPUs, and Placement what they hold."""
        server = self.boot(flavor_id=self.of_class(LARGE_CLASS))
        vgpus = self.vgpus_of(server)
        self.declare_shares({LARGE: ['21:00.0', '81:00.0']}, self.classes)
        self.restart_host('host1')
        self._run_periodics(raise_on_error=True)
        self.assertEqual([(LARGE_CLASS, 3)] * 2, self.totals(FIRST, SECOND))
        self.assertEqual([None] * 4, self.totals(*self.devices))
        self.declare_shares(self.DECLARED, self.classes)
        self.restart_host('host1')
        self._run_periodics(raise_on_error=True)
        self.assertEqual([None] * 2, self.totals(FIRST, SECOND))
        self.assertEqual(
            [(LARGE_CLASS, 3), (SMALL_CLASS, 1)] * 2,
            self.totals(*self.devices),
        )
        self.assertEqual(vgpus, self.vgpus_of(server))
        self.assertEqual(
            {'total': 1, LARGE: 1},
            {
                'total': sum(self.types_in_use().values()),
                **self.types_in_use(),
            },
        )
        for _ in range(5):
            self.boot(flavor_id=self.of_class(LARGE_CLASS))
        self.boot(flavor_id=self.of_class(LARGE_CLASS), expected_state='ERROR')


class FunctionsTest(ProductionTest):
    """The same by lists of functions, as Nova's own driver takes it."""

    DECLARED: typing.ClassVar[dict[str, list[str]]] = {
        LARGE: [
            f'0000:{bus}:00.{function}'
            for bus in ('21', '81')
            for function in (4, 5, 6)
        ],
        SMALL: ['0000:21:00.7', '0000:81:00.7'],
    }


class MixedSizesTest(SharesTestBase):
    """Three vGPUs of 4 GB and two of 6 GB on a card of 24 GB."""

    SHARES: typing.ClassVar[dict[str, list[str]]] = {
        'A10-4Q': ['21:00.0=3'],
        'A10-6Q': ['21:00.0=2'],
    }

    def setUp(self) -> None:
        super().setUp()
        self.declare_shares(self.SHARES, {})
        self.devices = [f'{FIRST}_A10-4Q', f'{FIRST}_A10-6Q']

    def test_each_type_to_the_last_one_by_its_trait(self) -> None:
        self.start_host('host1', a10('21:00.0'))
        self.assertEqual(
            [('VGPU', 3), ('VGPU', 2)], self.totals(*self.devices)
        )
        four, six = self.of_type('A10-4Q'), self.of_type('A10-6Q')
        order = [six, four, four, six, four]
        servers = [self.boot(flavor_id=flavor) for flavor in order]
        self.assertEqual({'A10-4Q': 3, 'A10-6Q': 2}, self.types_in_use())
        for flavor in (four, six):
            self.boot(flavor_id=flavor, expected_state='ERROR')
        self._delete_server(servers[0])
        self.boot(flavor_id=four, expected_state='ERROR')
        self.boot(flavor_id=six)
        self.assertEqual({'A10-4Q': 3, 'A10-6Q': 2}, self.types_in_use())

    def test_servers_keep_theirs_over_reboots_resizes_and_shares(self) -> None:
        self.start_host('host1', a10('21:00.0'))
        four, six = self.of_type('A10-4Q'), self.of_type('A10-6Q')
        first, second = self.boot(flavor_id=four), self.boot(flavor_id=six)
        self.reboot_machine('host1', autostart=False)
        self._run_periodics(raise_on_error=True)
        for server in (first, second):
            self._reboot_server(server, hard=True)
        self.assertEqual({'A10-4Q': 1, 'A10-6Q': 1}, self.types_in_use())
        self.flags(allow_resize_to_same_host=True)
        self._resize_server(second, four)
        self._confirm_resize(second)
        before = [self.vgpus_of(server) for server in (first, second)]
        self.assertEqual(2, len({vgpu for of in before for vgpu in of}))
        for shares, devices, totals in (
            ({'A10-4Q': ['21:00.0']}, [FIRST], [('VGPU', 4)]),
            (self.SHARES, self.devices, [('VGPU', 3), ('VGPU', 2)]),
        ):
            self.declare_shares(shares, {})
            self.restart_host('host1')
            self._run_periodics(raise_on_error=True)
            self.assertEqual(totals, self.totals(*devices))
            self.assertEqual(
                before, [self.vgpus_of(server) for server in (first, second)]
            )
        self.assertIsNone(self.provider(FIRST))
        for flavor in (six, four, six):
            self.boot(flavor_id=flavor)
        for flavor in (six, four):
            self.boot(flavor_id=flavor, expected_state='ERROR')

    def test_a_type_that_is_declared_again(self) -> None:
        """Its vGPU counted in the share of another type meanwhile."""
        self.start_host('host1', a10('21:00.0'))
        six = self.of_type('A10-6Q')
        server = self.boot(flavor_id=six)
        vgpus = self.vgpus_of(server)
        for other in (
            {'A10-4Q': ['21:00.0=3'], 'A10-2Q': ['21:00.0=1']},
            {
                'A10-4Q': ['21:00.0=3'],
                'A10-2Q': ['21:00.0=1'],
                'A10-6Q': ['21:00.0=1'],
            },
        ):
            self.declare_shares(other, {})
            self.restart_host('host1')
            self._run_periodics(raise_on_error=True)
        self.assertEqual(
            [('VGPU', 3), ('VGPU', 1)], self.totals(*self.devices)
        )
        self.assertEqual(
            [{'VGPU': 0}, {'VGPU': 1}],
            [
                self._get_provider_usages(self.provider(device))
                for device in self.devices
            ],
        )
        self._reboot_server(server, hard=True)
        self.assertEqual(vgpus, self.vgpus_of(server))
        self._delete_server(server)
        self.boot(flavor_id=six)

    def test_what_servers_left_is_not_in_the_way(self) -> None:
        """Their mdevs stay for the next ones; a share has no more than its."""
        self.declare_shares({'A10-4Q': ['21:00.0']}, {})
        self.start_host('host1', a10('21:00.0'))
        four, six = self.of_type('A10-4Q'), self.of_type('A10-6Q')
        servers = [self.boot(flavor_id=four) for _ in range(6)]
        kept = self.vgpus_of(servers[5])
        for server in servers[:5]:
            self._delete_server(server)
        self.assertEqual({'A10-4Q': 6}, self.types_in_use())
        self.declare_shares(self.SHARES, {})
        self.restart_host('host1')
        self._run_periodics(raise_on_error=True)
        self.assertEqual(
            [('VGPU', 3), ('VGPU', 2)], self.totals(*self.devices)
        )
        self.assertEqual(kept, self.vgpus_of(servers[5]))
        for flavor in (four, six, four, six):
            self.boot(flavor_id=flavor)
        self.assertEqual({'A10-4Q': 3, 'A10-6Q': 2}, self.types_in_use())

    def test_while_a_resize_is_not_confirmed(self) -> None:
        """What cannot move yet is not given out with another type."""
        four = self.of_type('A10-4Q')
        self.declare_shares({'A10-4Q': ['21:00.0']}, {})
        self.start_host('host1', a10('21:00.0'))
        server = self.boot(flavor_id=four)
        self.flags(allow_resize_to_same_host=True)
        self._resize_server(server, self._create_flavor())
        self.declare_shares(
            {**self.SHARES, 'A10-8Q': ['81:00.0']}, {'A10-8Q': 'CUSTOM_LARGE'}
        )
        self.restart_host('host1', a10('21:00.0'), a10('81:00.0'))
        self.require_fence(FIRST)
        self.assertEqual([None, None], self.totals(*self.devices))
        self.boot(flavor_id=four, expected_state='ERROR')
        # The other card serves, and what happens to it is noticed.
        self.assertEqual([('CUSTOM_LARGE', 3)], self.totals(SECOND))
        self.simulated['host1'].gpus.pop()
        self._run_periodics()
        other = self.inventory(SECOND, 'CUSTOM_LARGE')
        assert other is not None
        self.assertEqual(3, other['reserved'])
        self._confirm_resize(server)
        self._run_periodics()
        self.assertIsNone(self.provider(FIRST))
        self.assertEqual(
            [('VGPU', 3), ('VGPU', 2)], self.totals(*self.devices)
        )
        self.boot(flavor_id=four)

    def test_a_server_with_one_of_each(self) -> None:
        self.start_host('host1', a10('21:00.0'))
        flavor = self.flavor_of(
            resources1__VGPU='1',
            trait1__CUSTOM_VGPU_TYPE_A10_4Q='required',
            resources2__VGPU='1',
            trait2__CUSTOM_VGPU_TYPE_A10_6Q='required',
            group_policy='isolate',
        )
        server = self.boot(flavor_id=flavor)
        self.assertEqual({'A10-4Q': 1, 'A10-6Q': 1}, self.types_in_use())
        self.assertEqual(2, len(self.vgpus_of(server)))

    def test_functions_get_the_type_of_the_share(self) -> None:
        """Without mdevs: vendor-specific VFIO."""
        self.start_host('host1', a10('21:00.0', vendor_vfio=True))
        self.assertEqual(
            [('VGPU', 3), ('VGPU', 2)], self.totals(*self.devices)
        )
        four, six = self.of_type('A10-4Q'), self.of_type('A10-6Q')
        order = [six, four, four, six, four]
        servers = [self.boot(flavor_id=flavor) for flavor in order]
        self.assertEqual({'A10-4Q': 3, 'A10-6Q': 2}, self.types_in_use())
        for flavor in (four, six):
            self.boot(flavor_id=flavor, expected_state='ERROR')
        self._reboot_server(servers[1], hard=True)
        self._delete_server(servers[0])
        self.boot(flavor_id=six)
