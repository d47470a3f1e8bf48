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

"""Nova's libvirt driver, with this project's plan in the place of its own.

This class holds nothing but overrides of Nova's methods: it is the list of
what to look at when Nova changes. A method whose docstring begins with
"Extends" calls Nova's, one with "Replaces" does not. Everything else is done
by the collaborators that :mod:`nova_vgpu.compute.vgpus` assembles, and decided
by :mod:`nova_vgpu.plan`, :mod:`nova_vgpu.reconcile` and
:mod:`nova_vgpu.publish`.
"""

from collections.abc import Collection
from collections.abc import Sequence
import typing

from nova import exception as nova_exception
import nova.conf
from nova.virt.libvirt import driver as libvirt_driver

from nova_vgpu import exception
from nova_vgpu.compute import guest_devices
from nova_vgpu.compute import hotplug
from nova_vgpu.compute import migration
from nova_vgpu.compute import migration_offer
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import tree
from nova_vgpu.compute import vgpus

CONF = nova.conf.CONF

UPDATE_FAILED = 'Could not update the providers of GPUs'
KEEP_FAILED = "Could not keep VGPU on the node's own provider"
OFFER_FAILED = 'Could not tell the source of a live migration of types'
_RERAISED = (
    # Nova reads Placement again, and repeats the update.
    nova_exception.ResourceProviderUpdateConflict,
    # For the operator to correct.
    exception.InvalidLibvirtGPUConfig,
)


# Nova has no type hints that mypy could follow.
class LibvirtVGPUDriver(libvirt_driver.LibvirtDriver):  # type: ignore[misc]
    """``compute_driver = vgpu.LibvirtVGPUDriver``.

    Nova looks for drivers in ``nova.virt``: ``compute/shim`` is installed as
    ``nova.virt.vgpu``.
    """

    # -- the service --------------------------------------------------------

    def __init__(
        self, virtapi: nova_types.VirtAPI, read_only: bool = False
    ) -> None:
        """Extends Nova's, which asks for the declared types."""
        self.vgpus = vgpus.VGPUs(self, CONF)
        super().__init__(virtapi, read_only)

    def _get_supported_vgpu_types(self) -> list[str]:
        """Replaces Nova's, which knows types by id only and reads no names.

        Called by ``LibvirtDriver.__init__``, when libvirt is not connected
        yet; the ids follow with the first plan.
        """
        declared = self.vgpus.planner.read_declaration().types
        self.mdev_classes = {of_type.resource_class for of_type in declared}
        return [of_type.name for of_type in declared]

    def init_host(self, host: str) -> None:
        """Extends Nova's: a mistake in the configuration stops the service.

        Later, in the periodic update, Nova would log it and go on. And guests
        are started after this: virtual functions have their types by then.
        """
        super().init_host(host)
        if self.vgpus.planner.declaration.types:
            self.vgpus.publisher.read_provider_config()
            self.vgpus.service.start()

    def cleanup_host(self, host: str) -> None:
        """Extends Nova's: the thread that reconciles vGPUs ends, too."""
        self.vgpus.service.thread.stop()
        super().cleanup_host(host)

    def _start_inactive_mediated_devices(self) -> None:
        """Replaces Nova's, which stops the service if an mdev does not start.

        Its GPU may not be ready yet; if a guest has it, it is tried again.
        """
        self.vgpus.reconciler.start_all_mdevs()

    # -- Placement ----------------------------------------------------------

    def update_provider_tree(
        self,
        provider_tree: tree.Tree,
        nodename: str,
        allocations: nova_types.Consumers | None = None,
    ) -> None:
        """Extends Nova's, which takes VGPU from the node's own provider.

        Before Stein, Nova had the inventory of VGPU there. If servers have
        some of it that could not be moved to the providers of GPUs yet,
        Placement refuses to remove it.
        """
        before = provider_tree.data(nodename).inventory
        super().update_provider_tree(
            provider_tree, nodename, allocations=allocations
        )
        if self.vgpus.planner.declaration.types and 'VGPU' in before:
            with self.vgpus.failures.surviving(KEEP_FAILED):
                self.vgpus.publisher.keep_on_root(
                    provider_tree, nodename, before
                )

    def _update_provider_tree_for_vgpu(
        self,
        provider_tree: tree.Tree,
        nodename: str,
        allocations: nova_types.Consumers | None = None,
    ) -> None:
        """Replaces Nova's, which makes a provider per VF and leaves old ones.

        If it fails, the providers of GPUs stay as they were last published,
        and the node reports its CPUs, memory and disk as if it had no GPUs.
        With nothing declared, no provider is looked at. Nothing changes on
        the host; the thread that may change it is woken.
        """
        if not self.vgpus.planner.declaration.types:
            return
        self.vgpus.publisher.prepare(provider_tree, nodename)
        with self.vgpus.failures.surviving(UPDATE_FAILED, reraise=_RERAISED):
            plan = self.vgpus.planner.make_plan()
            self.vgpus.publisher.update(provider_tree, nodename, plan)
        self.vgpus.service.thread.wake()

    def _get_supported_mdev_resource_classes(self) -> set[str]:
        """Extends Nova's: a server may hold a class that was declared before.

        ``resource_class`` can be changed while servers run.
        """
        found: set[str] = super()._get_supported_mdev_resource_classes()
        if self.provider_tree is None or not found:
            return found
        return found | self.vgpus.publisher.list_classes(self.provider_tree)

    # -- vGPUs for a server -------------------------------------------------

    def _get_all_assigned_mediated_devices(
        self, instance: nova_types.Instance | None = None
    ) -> dict[str, str]:
        """Replaces Nova's, which knows of mdevs alone, and by one definition.

        It includes those that Nova claimed for guests that are migrating to
        this host.
        """
        if instance is None:
            return self.vgpus.usage.list_servers()
        own = self.vgpus.usage.list_of(instance.uuid)
        return dict.fromkeys(own, instance.uuid)

    def _allocate_mdevs(
        self, allocations: nova_types.Allocations
    ) -> list[str]:
        """Extends Nova's, whose lock ends before the guest is defined."""
        asked = self._vgpu_allocations(allocations)
        if not asked:
            return []
        return self.vgpus.allocator.allocate(
            self.vgpus.allocations.list_here(asked), super()._allocate_mdevs
        )

    def _get_existing_mdevs_not_assigned(
        self, parent: str | None, requested_types: object = None
    ) -> set[str]:
        """Replaces Nova's, which assumes that the GPU is the parent."""
        return self.vgpus.allocator.list_idle(parent)

    def _create_new_mediated_device(
        self, parent: str | None, uuid: str | None = None
    ) -> str | None:
        """Replaces Nova's, which creates on the GPU and not on its VFs."""
        return self.vgpus.allocator.create(parent, uuid)

    def _guest_add_mdevs(
        self, guest: guest_devices.GuestConfig, chosen_mdevs: Sequence[str]
    ) -> None:
        """Replaces Nova's, which makes an mdev of every vGPU.

        And it notes their types, and which of them are Cyborg's.
        """
        self.vgpus.guest_devices.add(guest, chosen_mdevs)

    # -- a guest that gets vGPUs --------------------------------------------

    def spawn(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Extends Nova's: vGPUs are pending until the guest is defined."""
        cyborgs = guest_devices.list_accelerators(kwargs.get('accel_info'))
        with (
            self.vgpus.allocator.operation(),
            self.vgpus.guest_devices.marking(cyborgs),
        ):
            super().spawn(*args, **kwargs)

    def finish_migration(
        self, *args: typing.Any, **kwargs: typing.Any
    ) -> None:
        """Extends Nova's: vGPUs are pending until the guest is defined."""
        with self.vgpus.allocator.operation():
            super().finish_migration(*args, **kwargs)

    # -- a guest that has vGPUs, and is defined or started again -----------

    def _hard_reboot(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        network_info: object,
        share_info: object,
        block_device_info: object = None,
        accel_info: guest_devices.AccelInfo = None,
    ) -> None:
        """Extends Nova's, which gives a lost vGPU back to some flavors only.

        Nova does so for the literal ``resources:VGPU``. This is also how a
        server is started, and how it comes back after a reboot of the host.
        """
        with self.vgpus.recovery.defining_again(context, instance, accel_info):
            super()._hard_reboot(
                context,
                instance,
                network_info,
                share_info,
                block_device_info,
                accel_info,
            )

    def finish_revert_migration(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        """Extends Nova's, which finds no vGPU after a resize on one host.

        There the guest of the new flavor has replaced the original one.
        """
        with self.vgpus.recovery.defining_again(context, instance):
            super().finish_revert_migration(context, instance, *args, **kwargs)

    def rescue(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        """Extends Nova's: the host may have been rebooted meanwhile."""
        with self.vgpus.recovery.defining_again(context, instance):
            super().rescue(context, instance, *args, **kwargs)

    def unrescue(
        self, context: nova_types.Context, instance: nova_types.Instance
    ) -> None:
        """Extends Nova's: the host may have been rebooted meanwhile."""
        with self.vgpus.recovery.starting_again(context, instance):
            super().unrescue(context, instance)

    def resume(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        """Extends Nova's: the host may have been rebooted meanwhile."""
        with self.vgpus.recovery.starting_again(context, instance):
            super().resume(context, instance, *args, **kwargs)

    # -- a guest that leaves its vGPUs, for a while or for good -------------

    def suspend(
        self, context: nova_types.Context, instance: nova_types.Instance
    ) -> None:
        """Extends Nova's: detached vGPUs stay reserved for the server.

        If it fails, the server runs on with all that it had.
        """
        with self.vgpus.suspension.suspending(instance):
            super().suspend(context, instance)

    def _detach_mediated_devices(self, guest: nova_types.Guest) -> None:
        """Replaces Nova's, which does not wait, and detaches mdevs alone.

        :raises DeviceDetachFailed: if the guest does not release one.
        """
        self.vgpus.suspension.detach(guest)

    def _get_mdevs_from_guest_config(
        self, xml: str
    ) -> tuple[hotplug.Device, ...]:
        """Replaces Nova's, which finds mdevs alone and drops their aliases."""
        return hotplug.parse_vgpus(xml)

    def _resume_guest_after_snapshot(
        self,
        context: nova_types.Context,
        live_snapshot: bool,
        original_power_state: int,
        instance: nova_types.Instance,
        guest: nova_types.Guest,
    ) -> None:
        """Extends Nova's, which attaches PCI devices and ports alone.

        If the disk cannot be copied while the guest runs, Nova suspends it.
        """
        super()._resume_guest_after_snapshot(
            context, live_snapshot, original_power_state, instance, guest
        )
        if self._needs_suspend_resume_for_snapshot(
            live_snapshot, original_power_state
        ):
            self.vgpus.suspension.attach_after_snapshot(instance, guest)

    def _undefine_domain(
        self,
        instance: nova_types.Instance,
        keep_vtpm: bool = False,
        keep_nvram: bool = False,
    ) -> None:
        """Extends Nova's: functions that the guest had lose their types."""
        with self.vgpus.allocator.releasing(instance):
            super()._undefine_domain(
                instance, keep_vtpm=keep_vtpm, keep_nvram=keep_nvram
            )

    # -- live migration -----------------------------------------------------

    def check_can_live_migrate_destination(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> migration.MigrateData:
        """Extends Nova's, which tells the source nothing of types.

        If it fails, the server may need no vGPU: who allocates one will say.
        """
        data: migration.MigrateData = (
            super().check_can_live_migrate_destination(
                context, instance, *args, **kwargs
            )
        )
        with self.vgpus.failures.surviving(OFFER_FAILED):
            self.vgpus.live_migration.add_offer(instance, data)
        return data

    def check_can_live_migrate_source(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        dest_check_data: migration.MigrateData,
        block_device_info: object = None,
    ) -> migration.MigrateData:
        """Extends Nova's, which tells the destination ids of types."""
        offer = migration_offer.find(dest_check_data)
        data: migration.MigrateData = super().check_can_live_migrate_source(
            context, instance, dest_check_data, block_device_info
        )
        self.vgpus.live_migration.translate_types(data, offer)
        return data

    def _assert_source_can_live_migrate_mdevs(
        self,
        instance: nova_types.Instance,
        dest_check_data: migration.MigrateData,
    ) -> None:
        """Extends Nova's, which asks for what mdevs need."""
        super()._assert_source_can_live_migrate_mdevs(
            instance, dest_check_data
        )
        self.vgpus.live_migration.check_source(instance, dest_check_data)

    def _get_mdev_types_from_uuids(
        self, mdev_uuids: Collection[str]
    ) -> dict[str, str]:
        """Extends Nova's, which knows the types of mdevs alone."""
        types: dict[str, str] = super()._get_mdev_types_from_uuids(mdev_uuids)
        functions = self.vgpus.live_migration.list_function_types(mdev_uuids)
        return types | functions

    def check_source_migrate_data_at_dest(
        self,
        ctxt: nova_types.Context,
        instance: nova_types.Instance,
        migrate_data: migration.MigrateData,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> migration.MigrateData:
        """Extends Nova's: vGPUs are pending until Nova has claimed them.

        Virtual functions go into Nova's map of PCI addresses that change.
        """
        migration_offer.remove(migrate_data)
        with self.vgpus.live_migration.checking_destination(
            instance, migrate_data
        ):
            data: migration.MigrateData = (
                super().check_source_migrate_data_at_dest(
                    ctxt, instance, migrate_data, *args, **kwargs
                )
            )
            self.vgpus.live_migration.check_chosen(instance, data)
        self.vgpus.live_migration.move_functions(data)
        return data

    def pre_live_migration(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        block_device_info: object,
        network_info: object,
        disk_info: object,
        migrate_data: migration.MigrateData,
    ) -> migration.MigrateData:
        """Extends Nova's: a restart of the service loses Nova's claims.

        Another server may have got the vGPU meanwhile.
        """
        self.vgpus.live_migration.require_note(instance, migrate_data)
        data: migration.MigrateData = super().pre_live_migration(
            context,
            instance,
            block_device_info,
            network_info,
            disk_info,
            migrate_data,
        )
        return data

    def rollback_live_migration_at_destination(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        """Extends Nova's: the vGPU claimed for the server is free again."""
        with self.vgpus.live_migration.rolling_back(instance):
            super().rollback_live_migration_at_destination(
                context, instance, *args, **kwargs
            )
