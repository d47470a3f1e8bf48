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

"""The collaborators of the driver, and how they are put together."""

from oslo_config import cfg

from nova_vgpu.compute import allocator
from nova_vgpu.compute import guest_devices
from nova_vgpu.compute import locking
from nova_vgpu.compute import log
from nova_vgpu.compute import migration
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import planner
from nova_vgpu.compute import publisher
from nova_vgpu.compute import reconciler
from nova_vgpu.compute import recovery
from nova_vgpu.compute import service
from nova_vgpu.compute import suspension
from nova_vgpu.compute import tree
from nova_vgpu.compute import usage
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.host import guests


class VGPUs:
    """Everything about the vGPUs of this host, one attribute for each part.

    Nova's driver is asked for what it has when that is needed: it is not
    complete yet when this is made.
    """

    def __init__(self, nova: nova_types.Driver, conf: cfg.ConfigOpts) -> None:
        self.failures = log.FailureLog()
        self.planner = planner.Planner(
            conf,
            lambda: nova._host.get_connection(),
            self.failures,
            nova,
            lambda addresses: self.devices.read_modes(addresses),
        )
        self.publisher = publisher.Publisher(
            self.failures,
            lambda: nova.virtapi.reportclient,
            lambda: guests.read_guests(self.devices.connection),
        )
        self.devices = vgpu_devices.VGPUDevices(nova)
        self.usage = usage.Usage(
            self.devices.connection,
            lambda: nova.instance_claimed_mdevs,
            self.devices.list_inactive_mdevs,
            locking.hold_claims,
        )
        self.reconciler = reconciler.Reconciler(
            self.planner, self.usage, self.devices, self.failures
        )
        self.allocator = allocator.Allocator(
            self.planner,
            self.usage,
            self.devices,
            self.reconciler,
            self.failures,
        )
        self.allocations = tree.ServerAllocations(nova)
        self.guest_devices = guest_devices.GuestDevices(self.planner)
        self.recovery = recovery.Recovery(
            nova,
            self.planner,
            self.usage,
            self.devices,
            self.reconciler,
            self.allocator,
            self.allocations,
            self.guest_devices,
        )
        self.suspension = suspension.Suspension(
            nova, self.usage, self.allocator, self.failures
        )
        self.live_migration = migration.LiveMigration(
            nova,
            self.planner,
            self.usage,
            self.reconciler,
            self.allocator,
        )
        self.service = service.Service(
            self.planner,
            self.reconciler,
            self.suspension,
            self.live_migration,
            self.allocations,
            self.failures,
        )
