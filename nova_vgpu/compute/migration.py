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

from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import vm_states
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.compute import address_moves
from nova_vgpu.compute import allocator as vgpu_allocator
from nova_vgpu.compute import migration_offer
from nova_vgpu.compute import migration_refusals
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.compute import reconciler as vgpu_reconciler
from nova_vgpu.compute import usage as vgpu_usage
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.migration import settings_checks
from nova_vgpu.plan import fixed_vfs

LOG = logging.getLogger(__name__)

#: Keys of extra specs that may ask for vGPUs.
_ASKING = ('resources', 'accel:')
#: The states of a live migration until its end.
_BEGUN = ('accepted', 'queued', 'preparing', 'running', 'post-migrating')


MigrateData = migration_offer.MigrateData


class LiveMigration:
    """Live migration, at its source and at its destination."""

    def __init__(
        self,
        nova: nova_types.Driver,
        planner: vgpu_planner.Planner,
        usage: vgpu_usage.Usage,
        reconciler: vgpu_reconciler.Reconciler,
        allocator: vgpu_allocator.Allocator,
    ) -> None:
        self._nova = nova
        self._planner = planner
        self._usage = usage
        self._reconciler = reconciler
        self._allocator = allocator

    def add_offer(
        self, instance: nova_types.Instance, data: MigrateData
    ) -> None:
        """Let the source know what this host serves, for a server's sake."""
        is_asked = any(
            key.startswith(_ASKING) for key in instance.flavor.extra_specs
        )
        if not is_asked or not self._planner.declaration.types:
            return
        offer = migration_refusals.make_offer(
            self._nova._host.get_hostname(),
            self._planner.make_plan(),
            self._planner.modes.latest,
            self._planner.type_names,
        )
        migration_offer.add(data, offer)

    def check_source(
        self, instance: nova_types.Instance, data: MigrateData
    ) -> None:
        """What makes a live migration fail for sure.

        And Nova's own requirement, for a server that has functions.

        :raises MigrationPreCheckError: with all that is known to be wrong.
        """
        vgpus = self._usage.list_of(instance.uuid)
        if any(map(vgpu_devices.is_function, vgpus)):
            self._require_function_migration(instance)
            self._require_variant_drivers(instance, vgpus)
        offer = migration_offer.find(data)
        names = self._planner.type_names
        source = values.MigrationSource(
            self._nova._host.get_hostname(),
            tuple(
                migration_refusals.list_devices(
                    vgpus,
                    self._planner.make_plan(),
                    self._planner.modes.latest,
                    names,
                )
            ),
            self._read_software(),
            self._planner.read_migration_settings(),
            is_paused=instance.vm_state == vm_states.PAUSED,
        )
        found = migration_refusals.find(source, offer, names)
        if found:
            where = offer.host if offer else 'another host'
            raise nova_exception.MigrationPreCheckError(
                reason=f'Unable to migrate {instance.uuid} to {where}: '
                f'{migration_refusals.write(found)}'
            )

    def _read_software(self) -> values.HostSoftware:
        """The version of QEMU, as far as something is refused for it."""
        least = settings_checks.POST_COPY_REFUSED
        if self._nova._host.has_min_version(hv_ver=least):
            return values.HostSoftware(qemu=least)
        return values.UNKNOWN_SOFTWARE

    def translate_types(
        self, data: MigrateData, offer: migration_offer.Offer | None
    ) -> None:
        """Name the types as the destination does."""
        if offer is not None and _list_asked(data):
            data.source_mdev_types = migration_refusals.translate(
                data.source_mdev_types, offer, self._planner.type_names
            )

    def _require_variant_drivers(
        self, instance: nova_types.Instance, names: Collection[str]
    ) -> None:
        """A VF without a type migrates only with a driver that can save it.

        :raises MigrationPreCheckError: if it is bound to another one.
        """
        if not any(map(vgpu_devices.is_function, names)):
            return
        for gpu in self._planner.make_plan().gpus:
            for vf in gpu.vfs:
                has_no_type = vf.name in names and not vf.vendor_vfio
                if not has_no_type or (
                    vf.driver == vgpu_devices.VARIANT_DRIVER
                ):
                    continue
                why = (
                    f'is of GPU {gpu}, whose driver, {gpu.driver}, does not '
                    'support live migration'
                    if fixed_vfs.is_fixed(gpu)
                    else f'is bound to {vf.driver} on '
                    f'{self._nova._host.get_hostname()}; a VF of this GPU '
                    f'migrates only with {vgpu_devices.VARIANT_DRIVER} (Linux '
                    '6.19)'
                )
                raise nova_exception.MigrationPreCheckError(
                    reason=f'Unable to migrate {instance.uuid}: VF '
                    f'{vf.address} {why}'
                )

    @contextlib.contextmanager
    def checking_destination(
        self, instance: nova_types.Instance, data: MigrateData
    ) -> Iterator[None]:
        """What is chosen for a server is pending until Nova has noted it.

        :raises MigrationPreCheckError: if it cannot come to this host; Nova
            tries another one then.
        """
        if any(map(vgpu_devices.is_function, _list_asked(data))):
            self._require_function_migration(instance)
        try:
            with self._allocator.operation():
                yield
        except nova_exception.ComputeResourcesUnavailable as error:
            raise nova_exception.MigrationPreCheckError(
                reason=error.format_message()
            ) from error

    def check_chosen(
        self, instance: nova_types.Instance, data: MigrateData
    ) -> None:
        """Whether what was chosen for a server can take over its vGPUs.

        Its definition comes from the source: libvirt does not bind functions
        here to another driver.

        :raises MigrationPreCheckError: if one is bound to another driver.
        """
        chosen = data.target_mdevs.values() if _list_asked(data) else ()
        with contextlib.ExitStack() as undo:
            noted = self._nova.instance_claimed_mdevs
            undo.callback(noted.pop, instance.uuid, None)
            self._require_variant_drivers(instance, chosen)
            undo.pop_all()

    def _require_function_migration(
        self, instance: nova_types.Instance
    ) -> None:
        needed = (
            libvirt_driver.MIN_VFIO_PCI_VARIANT_LIBVIRT_VERSION,
            libvirt_driver.MIN_VFIO_PCI_VARIANT_QEMU_VERSION,
        )
        host = self._nova._host
        if not host.has_min_version(*needed):
            libvirt, qemu = map(libvirt_utils.version_to_string, needed)
            raise nova_exception.MigrationPreCheckError(
                reason=f'Unable to migrate {instance.uuid}: its vGPU is a '
                f'virtual function, and {host.get_hostname()} lacks '
                f'libvirt {libvirt} or QEMU {qemu}, which that needs'
            )

    def list_function_types(self, names: Container[str]) -> dict[str, str]:
        """The types of virtual functions, as Nova compares them."""
        functions = vgpu_devices.list_functions(self._planner.make_plan())
        return {
            name: vgpu_planner.FUNCTION_PREFIX + vgpu.type_id
            for name, vf in functions.items()
            if name in names
            for vgpu in vf.vgpus
        }

    def move_functions(self, data: MigrateData) -> None:
        """Move virtual functions to where Nova has PCI devices.

        Those have a place for the addresses that they change.
        """
        targets = data.target_mdevs if _list_asked(data) else {}
        moved = {
            old: new
            for old, new in targets.items()
            if vgpu_devices.is_function(old)
        }
        if moved:
            data.target_mdevs = {
                old: new for old, new in targets.items() if old not in moved
            }
            data.pci_dev_map_src_dst = address_moves.order_moves(
                {
                    **data.pci_dev_map_src_dst,
                    **{_address(o): _address(n) for o, n in moved.items()},
                }
            )

    def require_note(
        self, instance: nova_types.Instance, data: MigrateData
    ) -> None:
        """What was noted may be lost by a restart, and another server's now.

        :raises MigrationPreCheckError: if it is lost.
        """
        if _list_asked(data) and not self.get_note(instance):
            raise nova_exception.MigrationPreCheckError(
                reason=f'Unable to migrate {instance.uuid}: nova-compute '
                f'on {self._nova._host.get_hostname()} was restarted since it '
                'chose vGPUs for it. Try again.'
            )

    @contextlib.contextmanager
    def rolling_back(self, instance: nova_types.Instance) -> Iterator[None]:
        """What was to be a server's vGPU is free again, afterwards."""
        noted = self.get_note(instance)
        yield
        if noted:
            self._reconciler.release()

    def get_note(self, instance: nova_types.Instance) -> list[str] | None:
        return dict(self._usage.list_notes()).get(instance.uuid)

    def drop_old_notes(self) -> None:
        """Forget vGPUs that were chosen for migrations which never came.

        Nova does not tell a destination of all that can go wrong.
        """
        # Notes first: an operation of this host has vGPUs pending before it
        # takes a note, and drops the note before they stop being so.
        notes = self._usage.list_notes()
        pending = self._usage.pending.list()
        for server, names in notes:
            if (
                pending.isdisjoint(names)
                and not _is_migrating(server)
                # Another migration may have replaced it meanwhile.
                and self._usage.drop_note(server, names)
            ):
                LOG.info(
                    'Live migration of %s never arrived; released %s.',
                    server,
                    ', '.join(names),
                )


def _list_asked(data: MigrateData) -> Mapping[str, str]:
    """The types of the vGPUs of a guest that is to migrate."""
    return data.source_mdev_types if 'source_mdev_types' in data else {}


def _is_migrating(server: str) -> bool:
    """Whether a live migration of a server has begun and not ended."""
    found = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(),
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
