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

"""Live migrations that fail for sure are refused before they begin.

And none is refused for what is not known.
"""

import dataclasses
import typing

import fixtures

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import driver
from nova_vgpu.compute import migration_offer
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import stores
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import test_vendor_vfio

ADDRESSES = ('0000:41:00.0', '0000:61:00.0')
L40S_24Q = test_vendor_vfio.L40S_24Q


def l40s(address: str = '61:00.0', vendor_vfio: bool = True) -> typing.Any:
    return hosts.gpu(address, boards.L40S, vfs=4, vendor_vfio=vendor_vfio)


def renumbered() -> typing.Any:
    """The same GPU with another release of its driver.

    The id of L40S-24Q is that of L40S-16Q, and its own that of L40S-48Q.
    """
    gpu = l40s()
    return dataclasses.replace(gpu, board=stores.renumber(gpu.board))


class RefusalsTest(test_vendor_vfio.LiveMigrationTestBase):
    FAKE_LIBVIRT_VERSION = 10_000_000
    FAKE_QEMU_VERSION = 8_002_002

    def set_ecc(self, host: str, is_on: bool) -> None:
        """What NVML told, some time ago."""
        mode = values.GPUModes(ecc=values.GPUMode(is_on, is_on))
        modes = tuple((values.PciAddress.parse(a), mode) for a in ADDRESSES)
        planner = self.computes[host].driver.vgpus.planner
        planner.modes.latest = values.ModesRead(modes)

    def test_a_type_has_another_id_on_the_other_host(self) -> None:
        self.dest = self.start_host('host2', renumbered())
        self._live_migrate(self.server, 'completed')
        self.only_vgpu_of(self.server, 'host2')
        self._run_periodics()
        self.assertEqual(
            [[], [L40S_24Q + 1]], [self.types(), self.types('host2')]
        )

    def test_the_id_is_that_of_another_type_on_the_other_host(self) -> None:
        self.declare('L40S-16Q')
        self.dest = self.start_host('host2', renumbered())
        self.assert_refused(
            'host2 does not serve vGPUs of type L40S-24Q: it serves L40S-16Q.'
        )

    def test_post_copy(self) -> None:
        self.flags(live_migration_permit_post_copy=True, group='libvirt')
        self.dest = self.start_host('host2', l40s())
        self.assert_refused(
            '[libvirt]live_migration_permit_post_copy is true on host1. QEMU '
            'does not migrate a guest with a VFIO device by post-copy'
        )

    def test_ecc(self) -> None:
        self.dest = self.start_host('host2', l40s())
        self.set_ecc('host1', True)
        self.set_ecc('host2', False)
        self.assert_refused(
            'ECC is enabled on GPU 0000:41:00.0 of host1, and disabled on the '
            'GPUs of host2 that serve L40S-24Q.'
        )
        self.set_ecc('host2', True)
        self._live_migrate(self.server, 'completed')

    def test_all_reasons_are_told_at_once_with_their_cures(self) -> None:
        self.flags(live_migration_permit_post_copy=True, group='libvirt')
        self.dest = self.start_host('host2', l40s(vendor_vfio=False))
        self.assert_refused(f'Unable to migrate {self.server["id"]} to host2:')
        for text in (
            'permit_post_copy is true on host1.',
            'permit_post_copy = false on host1, restart nova-compute.',
            'host2 serves L40S-24Q as mdev on VFs.',
            'use the same on both hosts.',
        ):
            self.assertIn(text, self.stdlog.logger.output)


class AcceptanceTest(test_vendor_vfio.LiveMigrationTestBase):
    """What went before goes on."""

    FAKE_LIBVIRT_VERSION = 10_000_000
    FAKE_QEMU_VERSION = 8_002_002

    def migrate(self) -> None:
        self.dest = self.start_host('host2', l40s())
        self._live_migrate(self.server, 'completed')
        self.only_vgpu_of(self.server, 'host2')

    def test_post_copy_does_not_matter_for_a_paused_server(self) -> None:
        """Nova leaves it out then."""
        self.flags(live_migration_permit_post_copy=True, group='libvirt')
        self.dest = self.start_host('host2', l40s())
        self.api.post_server_action(self.server['id'], {'pause': {}})
        self._wait_for_state_change(self.server, 'PAUSED')
        self._live_migrate(
            self.server, 'completed', server_expected_state='PAUSED'
        )
        self.only_vgpu_of(self.server, 'host2')

    def test_an_ecc_mode_of_one_host_is_not_known(self) -> None:
        RefusalsTest.set_ecc(typing.cast(RefusalsTest, self), 'host1', True)
        self.migrate()

    def test_a_source_that_does_not_know_what_it_is_told(self) -> None:
        """It hands it back, as Nova's own driver and older ones do."""
        self.useFixture(
            fixtures.MockPatchObject(
                migration_offer, 'find', return_value=None
            )
        )
        self.migrate()

    def test_a_destination_that_tells_nothing(self) -> None:
        self.useFixture(fixtures.MockPatchObject(migration_offer, 'add'))
        self.migrate()

    def test_a_destination_that_cannot_be_read_at_that_moment(self) -> None:
        self.dest = self.start_host('host2', l40s())
        planner = self.dest.driver.vgpus.planner
        make_plan = planner.make_plan

        def fail_once() -> typing.Any:
            planner.make_plan = make_plan
            raise exception.HostUnreadable('not now')

        planner.make_plan = fail_once
        self._live_migrate(self.server, 'completed')
        self.only_vgpu_of(self.server, 'host2')

    def test_a_server_without_a_vgpu_goes_whatever_fails_there(self) -> None:
        """A failure that Nova does not expect here is the server's ERROR."""
        self._delete_server(self.server)
        self.dest = self.start_host('host2', l40s())
        flavor = self._create_flavor(extra_spec={'resources:VCPU': '1'})
        self.server = self.boot(host='host1', flavor_id=flavor)
        planner = self.dest.driver.vgpus.planner
        with fixtures.MockPatchObject(
            planner, 'make_plan', side_effect=OSError('unforeseen')
        ):
            self._live_migrate(self.server, 'completed')
        self.assertIn(driver.OFFER_FAILED, self.stdlog.logger.output)

    def test_a_server_without_a_vgpu_takes_nothing_along(self) -> None:
        """Its flavor asks for resources, and Nova for mdevs that are none."""
        self._delete_server(self.server)
        seen: list[bool] = []
        self.dest = self.start_host('host2', l40s())
        come = self.dest.driver.pre_live_migration

        def look(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            data = kwargs.get('migrate_data', args[-1])
            seen.append('target_mdevs' in data)
            return come(*args, **kwargs)

        flavor = self._create_flavor(extra_spec={'resources:VCPU': '1'})
        self.server = self.boot(host='host1', flavor_id=flavor)
        with fixtures.MockPatchObject(
            self.dest.driver, 'pre_live_migration', look
        ):
            self._live_migrate(self.server, 'completed')
        self.assertEqual([False], seen)
