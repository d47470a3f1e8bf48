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

Each override says which of Nova's methods it replaces and why. Everything that
is decided is decided by :mod:`nova_vgpu.decisions`; here it is put into the
shapes that Nova wants. Nova's own tables of types per device are filled from
the plan, so that what is not overridden (live migration, suspend, rescue)
finds the right answers in them.
"""

import collections
import typing

from nova import context as nova_context
from nova import exception as nova_exception
from nova import utils as nova_utils
import nova.conf
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.compute import claims
from nova_vgpu.compute import log
from nova_vgpu.compute import reshape
from nova_vgpu.compute import tree
from nova_vgpu.conf import devices
from nova_vgpu.decisions import mapper
from nova_vgpu.decisions import providers
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.host import sysfs

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

#: vGPU managers crash when vGPUs are created side by side, also by processes
#: other than this one.
_CREATION_LOCK = 'nova-vgpu-creation'
_ALLOCATION_LOCK = 'nova-vgpu-allocation'


class LibvirtVGPUDriver(libvirt_driver.LibvirtDriver):  # type: ignore[misc]
    """``compute_driver = vgpu.LibvirtVGPUDriver``."""

    #: Where sysfs is; None to go by libvirt alone.
    sysfs_root: str | None = sysfs.DEFAULT_ROOT

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        self._claims = claims.Claims()
        self._problem_log = log.ProblemLog()
        self._declaration = values.Declaration()
        self._declaration_problems: tuple[values.Problem, ...] = ()
        # The functions of each GPU that may hold its vGPUs, by its name.
        self._functions: dict[str, frozenset[str]] = {}
        self._validated = False
        super().__init__(*args, **kwargs)

    def init_host(self, host: str) -> None:
        """Extends Nova's: a mistake in the configuration stops the service.

        Later, in the periodic update, Nova would log it and go on.
        """
        super().init_host(host)
        if self._declaration.types:
            self._make_plan()

    # -- what is declared ---------------------------------------------------

    def _get_supported_vgpu_types(self) -> list[str]:
        """Replaces Nova's, which knows types by id only and reads no names.

        Called by ``LibvirtDriver.__init__``, when libvirt is not connected
        yet; the ids follow with the first plan.
        """
        self._declaration, self._declaration_problems = (
            devices.read_declaration(CONF)
        )
        self.mdev_classes = {
            declared.resource_class for declared in self._declaration.types
        }
        return [declared.name for declared in self._declaration.types]

    def _make_plan(self) -> values.Plan:
        """The plan for the host as it is now.

        :raises InvalidLibvirtGPUConfig: the first time, if the operator has to
            correct something. Later the same can only come from hardware that
            went away, which does not take the node down.
        """
        host = libvirt_nodes.read_host(
            self._host.get_connection(), self.sysfs_root
        )
        plan = mapper.make_plan(
            self._declaration, host, self._declaration_problems
        )
        if not self._validated:
            mapper.require_valid(plan)
            self._validated = True
        self._problem_log.say(plan.problems)
        self._fill_tables(plan)
        return plan

    def _fill_tables(self, plan: values.Plan) -> None:
        """Let Nova's own methods find the plan where they look."""
        types: dict[str, str] = {}
        classes: dict[str, str] = collections.defaultdict(lambda: 'VGPU')
        functions: dict[str, frozenset[str]] = {}
        for assigned in plan.assignments:
            gpu = assigned.gpu
            functions[gpu.name] = assigned.functions
            for name, address in _addresses(gpu):
                classes[address] = assigned.declared.resource_class
                if assigned.type and name in assigned.functions:
                    types[address] = assigned.type.id
        self.pgpu_type_mapping = types
        self.mdev_class_mapping = classes
        self._functions = functions
        self.virtual_mdevs = {
            a.gpu.name for a in plan.assignments if a.gpu.address is None
        }
        self.supported_vgpu_types = sorted(set(types.values())) or [
            declared.name for declared in self._declaration.types
        ]

    # -- providers ----------------------------------------------------------

    def _update_provider_tree_for_vgpu(
        self,
        provider_tree: typing.Any,
        nodename: str,
        allocations: dict[str, typing.Any] | None = None,
    ) -> None:
        """Replaces Nova's, which makes a provider per VF and leaves old ones.

        One provider per physical GPU with traits; what was elsewhere before
        (on the root, on VFs) is moved with its allocations; providers that no
        GPU serves any more are removed, or fenced while they are used.
        """
        plan = self._make_plan()
        if self._remove_idle(plan):
            plan = self._make_plan()
        wanted = [
            (assigned.gpu, provider)
            for assigned in plan.assignments
            if assigned.gpu.framework is not values.Framework.VENDOR_VFIO
            and (provider := providers.make_provider(assigned, nodename))
        ]
        tree.ensure_providers(provider_tree, nodename, wanted)
        if reshape.is_needed(provider_tree, nodename, plan):
            if allocations is None:
                LOG.info('Asking for a reshape of the providers of GPUs.')
                raise nova_exception.ReshapeNeeded()
            self._reshape(provider_tree, nodename, plan, allocations)
        names = {provider.name for _, provider in wanted}
        for leftover in tree.list_leftovers(provider_tree, nodename, names):
            tree.fence(provider_tree, leftover, self._has_allocations)

    def _reshape(
        self,
        provider_tree: typing.Any,
        nodename: str,
        plan: values.Plan,
        allocations: dict[str, typing.Any],
    ) -> None:
        reshape.move_from_functions(provider_tree, nodename, plan, allocations)
        if not self._is_reshape_needed_vgpu_on_root(provider_tree, nodename):
            return
        root = provider_tree.data(nodename)
        by_gpu = {
            assigned.gpu.name: provider_tree.data(name)
            for assigned in plan.assignments
            if provider_tree.exists(
                name := providers.name_of(nodename, assigned.gpu.name)
            )
        }
        self._reshape_gpu_resources(allocations, root, by_gpu)
        remaining = dict(root.inventory)
        remaining.pop('VGPU', None)
        provider_tree.update_inventory(nodename, remaining)

    def _count_vgpus_per_pgpu(self, mdev_uuids: typing.Any) -> typing.Any:
        """Extends Nova's, for which the VF of an mdev is its GPU."""
        counts: dict[str, int] = collections.defaultdict(int)
        for parent, count in super()._count_vgpus_per_pgpu(mdev_uuids).items():
            counts[self._gpu_of(parent)] += count
        return counts

    def _has_allocations(self, provider_uuid: str) -> bool:
        found = (
            self.virtapi.reportclient.get_allocations_for_resource_provider(
                nova_context.get_admin_context(), provider_uuid
            )
        )
        return bool(found.allocations)

    # -- allocation ---------------------------------------------------------

    def _allocate_mdevs(self, allocations: typing.Any) -> typing.Any:
        """Extends Nova's, whose lock ends before the guest is defined.

        What was chosen is claimed until the operation ends, so that no other
        one chooses it.
        """
        # Not Nova's lock, which is taken within and cannot be taken twice.
        with self._claims.during_operation(), _allocation_lock():
            chosen = super()._allocate_mdevs(allocations)
            self._claims.add(chosen)
            return chosen

    def _get_existing_mdevs_not_assigned(
        self, parent: str | None, requested_types: typing.Any = None
    ) -> set[str]:
        """Replaces Nova's, which takes the GPU for the parent of its mdevs."""
        self._make_plan()
        taken = self._claims.list() | set(
            self._get_all_assigned_mediated_devices()
        )
        return {
            mdev['uuid']
            for mdev in self._get_mediated_devices()
            if parent in (None, self._gpu_of(mdev['parent']))
            and mdev['type'] == self._get_vgpu_type_per_pgpu(mdev['parent'])
        } - taken

    def _create_new_mediated_device(
        self, parent: str | None, uuid: str | None = None
    ) -> str | None:
        """Replaces Nova's, which creates on the GPU and not on its VFs."""
        with _creation_lock():
            for assigned in self._make_plan().assignments:
                if parent not in (None, assigned.gpu.name):
                    continue
                function = _find_room(assigned)
                if function is None:
                    continue
                vgpu_type = self._get_vgpu_type_per_pgpu(function)
                created: str = self._create_mdev(function, vgpu_type, uuid)
                LOG.info(
                    'Created vGPU %s of %s on %s of GPU %s.',
                    created,
                    assigned.type,
                    function,
                    assigned.gpu,
                )
                return created
        LOG.error('No GPU has room for one more vGPU on %s.', parent or 'any')
        return None

    def _remove_idle(self, plan: values.Plan) -> bool:
        """Remove vGPUs that no guest has and that keep a GPU from its type.

        They are left from a type that was declared before; a vGPU that any
        guest has, running or not, or that is claimed for one, stays.

        :returns: whether there were any.
        """
        removed = False
        for assigned in plan.assignments:
            if assigned.type is None or assigned.serves:
                continue
            with _allocation_lock(), _creation_lock():
                taken = self._claims.list() | set(
                    self._get_all_assigned_mediated_devices()
                )
                for vgpu in assigned.gpu.all_vgpus:
                    if (
                        vgpu.uuid is not None
                        and vgpu.uuid not in taken
                        and vgpu.type_id != assigned.type.id
                    ):
                        self._remove_mdev(vgpu.uuid)
                        removed = True
        return removed

    def _remove_mdev(self, uuid: str) -> None:
        """Destroy an mdev and forget its definition.

        By libvirt, which refuses for one that is in use; the kernel's own way
        would wait for its guest to end.
        """
        name = self._get_mediated_device_information(
            libvirt_utils.mdev_uuid2name(uuid)
        )['dev_id']
        device = self._host.device_lookup_by_name(name)
        LOG.info('Removing vGPU %s: no guest has it, nor its type.', uuid)
        if device.isPersistent():
            device.undefine()
        device.destroy()

    def _gpu_of(self, function: str) -> str:
        """The GPU of a function; one that no GPU has is its own."""
        for gpu, functions in self._functions.items():
            if function in functions:
                return gpu
        return function

    # -- operations that choose vGPUs and define a guest --------------------

    def spawn(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Extends Nova's: claims hold until the guest is defined."""
        with self._claims.during_operation():
            super().spawn(*args, **kwargs)

    def finish_migration(
        self, *args: typing.Any, **kwargs: typing.Any
    ) -> typing.Any:
        """Extends Nova's: claims hold until the guest is defined."""
        with self._claims.during_operation():
            return super().finish_migration(*args, **kwargs)

    def check_source_migrate_data_at_dest(
        self, *args: typing.Any, **kwargs: typing.Any
    ) -> typing.Any:
        """Extends Nova's: claims hold until Nova noted its own."""
        with self._claims.during_operation():
            return super().check_source_migrate_data_at_dest(*args, **kwargs)

    def _hard_reboot(
        self,
        context: typing.Any,
        instance: typing.Any,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> typing.Any:
        """Extends Nova's, which gives a lost vGPU back to some flavors only.

        Nova does so for the literal ``resources:VGPU``; what the server is
        entitled to is in its allocations, however its flavor asked for it.
        """
        with self._claims.during_operation():
            if not self._get_all_assigned_mediated_devices(instance):
                self._reassign(context, instance)
            try:
                return super()._hard_reboot(context, instance, *args, **kwargs)
            finally:
                self.instance_claimed_mdevs.pop(instance.uuid, None)

    def _reassign(self, context: typing.Any, instance: typing.Any) -> None:
        """Choose vGPUs anew for a server that has none of those it holds."""
        held = self.virtapi.reportclient.get_allocations_for_consumer(
            context, instance.uuid
        )
        if self._vgpu_allocations(held):
            LOG.info('Choosing vGPUs anew.', instance=instance)
            # Where Nova looks for vGPUs that no guest shows yet.
            self.instance_claimed_mdevs[instance.uuid] = self._allocate_mdevs(
                held
            )


def _creation_lock() -> typing.Any:
    return nova_utils.lockutils.lock(_CREATION_LOCK, external=True)


def _allocation_lock() -> typing.Any:
    return nova_utils.lockutils.lock(_ALLOCATION_LOCK)


def _addresses(gpu: values.PhysicalGPU) -> list[tuple[str, str]]:
    """Name and address, as Nova writes it, of a GPU and its functions."""
    return [
        (gpu.name, str(gpu)),
        *((vf.name, str(vf.address)) for vf in gpu.vfs),
    ]


def _find_room(assigned: values.Assignment) -> str | None:
    """A function of the GPU that takes one more vGPU of the type."""
    gpu, counted = assigned.gpu, assigned.capacity
    if assigned.type is None or counted is None:
        return None
    if counted.total <= counted.existing:
        return None
    for offer in gpu.offers:
        if offer.type.id == assigned.type.id and offer.available:
            return gpu.name
    for vf in gpu.vfs:
        if vf.vgpus or vf.name not in assigned.functions:
            continue
        for offer in vf.offers:
            if offer.type.id == assigned.type.id and offer.available:
                return vf.name
    return None
