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


"""Guests with vGPUs that migrate while they run.

Nova knows how for mdevs, and for PCI devices that can; a virtual function that
is a vGPU is checked like the former and moved like the latter.
"""

import typing

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging

from nova_vgpu.compute import address_moves
from nova_vgpu.compute import guests
from nova_vgpu.compute import operations
from nova_vgpu.compute import planning

LOG = logging.getLogger(__name__)

#: The states of a live migration until its end.
_BEGUN = ('accepted', 'queued', 'preparing', 'running', 'post-migrating')


class Migration(operations.Operations):
    """Live migration, at its source and at its destination."""

    def _assert_source_can_live_migrate_mdevs(
        self, instance: typing.Any, dest_check_data: typing.Any
    ) -> None:
        """Extends Nova's, which asks for what mdevs need."""
        super()._assert_source_can_live_migrate_mdevs(
            instance, dest_check_data
        )
        held = self._get_all_assigned_mediated_devices(instance)
        if any(map(guests.is_function, held)):
            self._require_function_migration(instance)

    def _require_function_migration(self, instance: typing.Any) -> None:
        """Nova's own requirement for virtual functions that can migrate.

        :raises MigrationPreCheckError: if this host does not meet it.
        """
        needed = (
            libvirt_driver.MIN_VFIO_PCI_VARIANT_LIBVIRT_VERSION,
            libvirt_driver.MIN_VFIO_PCI_VARIANT_QEMU_VERSION,
        )
        if not self._host.has_min_version(*needed):
            libvirt, qemu = map(libvirt_utils.version_to_string, needed)
            raise nova_exception.MigrationPreCheckError(
                reason=f'Unable to migrate {instance.uuid}: its vGPU is a '
                f'virtual function, and {self._host.get_hostname()} lacks '
                f'libvirt {libvirt} or QEMU {qemu}, which that needs'
            )

    def _get_mdev_types_from_uuids(
        self, mdev_uuids: typing.Any
    ) -> dict[str, str]:
        """Extends Nova's, which knows the types of mdevs alone."""
        types: dict[str, str] = super()._get_mdev_types_from_uuids(mdev_uuids)
        for name, vf in guests.list_gpu_functions(self._make_plan()).items():
            if name in mdev_uuids:
                for vgpu in vf.vgpus:
                    types[name] = planning.FUNCTION_PREFIX + vgpu.type_id
        return types

    def check_source_migrate_data_at_dest(
        self,
        ctxt: typing.Any,
        instance: typing.Any,
        migrate_data: typing.Any,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> typing.Any:
        """Extends Nova's: claims hold until Nova noted its own.

        Nova has a place for PCI devices that change their address; virtual
        functions go there.
        """
        data = migrate_data
        asked = data.source_mdev_types if 'source_mdev_types' in data else {}
        if any(map(guests.is_function, asked)):
            self._require_function_migration(instance)
        with self._operation():
            data = super().check_source_migrate_data_at_dest(
                ctxt, instance, data, *args, **kwargs
            )
        targets = data.target_mdevs if asked else {}
        moved = {
            old: new for old, new in targets.items() if guests.is_function(old)
        }
        if moved:
            data.target_mdevs = {
                old: new for old, new in targets.items() if old not in moved
            }
            data.pci_dev_map_src_dst = address_moves.order(
                {
                    **data.pci_dev_map_src_dst,
                    **{_address(o): _address(n) for o, n in moved.items()},
                }
            )
        return data

    def pre_live_migration(
        self,
        context: typing.Any,
        instance: typing.Any,
        block_device_info: typing.Any,
        network_info: typing.Any,
        disk_info: typing.Any,
        migrate_data: typing.Any,
    ) -> typing.Any:
        """Extends Nova's: what was noted may be lost by a restart.

        Then it may be another server's by now.
        """
        asked = 'source_mdev_types' in migrate_data
        if asked and migrate_data.source_mdev_types:
            noted = self.instance_claimed_mdevs.get(instance.uuid)
            if not noted:
                raise nova_exception.MigrationPreCheckError(
                    reason=f'Unable to migrate {instance.uuid}: nova-compute '
                    f'on {self._host.get_hostname()} was restarted since it '
                    'chose vGPUs for it. Try again.'
                )
        return super().pre_live_migration(
            context,
            instance,
            block_device_info,
            network_info,
            disk_info,
            migrate_data,
        )

    def _drop_old_notes(self) -> None:
        """Forget vGPUs that were chosen for migrations which never came.

        Nova does not tell a destination of all that can go wrong.
        """
        context = nova_context.get_admin_context()
        # Notes first: an operation of this host claims before it takes a
        # note, and drops the note before its claim ends.
        notes = self._list_notes()
        claimed = self._claims.list()
        for owner, names in notes:
            if (
                claimed.isdisjoint(names)
                and not _is_migrating(context, owner)
                # Another migration may have replaced it meanwhile.
                and self.instance_claimed_mdevs.get(owner) is names
            ):
                LOG.info('Server %s does not come: %s is free.', owner, names)
                self.instance_claimed_mdevs.pop(owner, None)

    def rollback_live_migration_at_destination(
        self,
        context: typing.Any,
        instance: typing.Any,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        """Extends Nova's: what was to be its vGPU is free again."""
        noted = self.instance_claimed_mdevs.get(instance.uuid)
        super().rollback_live_migration_at_destination(
            context, instance, *args, **kwargs
        )
        if noted:
            self._give_back()


def _is_migrating(context: typing.Any, server: str) -> bool:
    """Whether a live migration of a server has begun and not ended."""
    found = objects.MigrationList.get_by_filters(
        context,
        {
            'instance_uuid': server,
            'migration_type': 'live-migration',
            'status': list(_BEGUN),
        },
    )
    return bool(found)


def _address(function: str) -> str:
    """The PCI address of a function, perhaps of another host, by its name."""
    domain, bus, slot, number = function.removeprefix('pci_').split('_')
    return f'{domain}:{bus}:{slot}.{number}'
