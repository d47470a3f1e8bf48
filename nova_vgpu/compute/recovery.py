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


"""A server that has vGPUs, and whose guest is defined again.

It keeps them meanwhile, and finds them again if they are gone, which is what a
reboot of the host does: a type that was set is always gone, an mdev if nothing
defined it or started it. An mdev that was started as another type, because a
release of the vendor's driver renumbered the types, is made again.
"""

from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Set
import contextlib
import itertools

from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.compute import allocator as vgpu_allocator
from nova_vgpu.compute import guest_devices as vgpu_guest_devices
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.compute import reconciler as vgpu_reconciler
from nova_vgpu.compute import tree as vgpu_tree
from nova_vgpu.compute import usage as vgpu_usage
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import vgpu_facts

LOG = logging.getLogger(__name__)

unavailable = vgpu_allocator.unavailable


class Recovery:
    """Sees that a server has its own vGPUs."""

    def __init__(
        self,
        nova: nova_types.Driver,
        planner: vgpu_planner.Planner,
        usage: vgpu_usage.Usage,
        devices: vgpu_devices.VGPUDevices,
        reconciler: vgpu_reconciler.Reconciler,
        allocator: vgpu_allocator.Allocator,
        allocations: vgpu_tree.ServerAllocations,
        guest_devices: vgpu_guest_devices.GuestDevices,
    ) -> None:
        self._nova = nova
        self._planner = planner
        self._usage = usage
        self._devices = devices
        self._reconciler = reconciler
        self._allocator = allocator
        self._allocations = allocations
        self._guest_devices = guest_devices

    @contextlib.contextmanager
    def defining_again(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        accel_info: vgpu_guest_devices.AccelInfo = None,
    ) -> Iterator[None]:
        """Let the server keep its vGPUs while its guest is not defined."""
        with self._allocator.operation():
            reserved = set(self._allocator.reserve_own(instance))
            cyborgs = vgpu_guest_devices.list_accelerators(accel_info)
            if reserved:
                cyborgs |= self._read_accelerators(instance)
            own = reserved - cyborgs
            if own:
                self._make_ready(context, instance, own)
            # Placement knows for certain, but servers that have no vGPU must
            # start without it.
            elif asks_for(
                instance.flavor.extra_specs,
                self._nova._get_supported_mdev_resource_classes(),
            ):
                self._choose_again(context, instance)
            try:
                with self._guest_devices.marking(cyborgs):
                    yield
            finally:
                self._nova.instance_claimed_mdevs.pop(instance.uuid, None)

    @contextlib.contextmanager
    def starting_again(
        self, context: nova_types.Context, instance: nova_types.Instance
    ) -> Iterator[None]:
        """See that the vGPUs of a guest, which is as it was, are there."""
        with self._allocator.operation():
            own = set(self._allocator.reserve_own(instance))
            self._make_ready(context, instance, own)
            yield

    def _read_accelerators(self, instance: nova_types.Instance) -> Set[str]:
        """The mdevs of a server that are known to be Cyborg's."""
        guest = self._usage.read_guest(instance.uuid)
        return guest.accelerators if guest else frozenset()

    def _choose_again(
        self, context: nova_types.Context, instance: nova_types.Instance
    ) -> None:
        """Choose vGPUs for a server that has none of those it holds.

        What it is entitled to is in its allocations, however its flavor asked
        for it.
        """
        allocations = self._allocations.read(context, instance)
        if allocations:
            LOG.info('Choosing vGPUs again.', instance=instance)
            # Where Nova looks for vGPUs that no guest shows yet.
            self._nova.instance_claimed_mdevs[instance.uuid] = (
                self._nova._allocate_mdevs(allocations)
            )

    def _make_ready(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        own: Set[str],
    ) -> None:
        """See that the vGPUs that a guest has are there; make them if not.

        :raises ComputeResourcesUnavailable: if one cannot be had.
        """
        functions = {name for name in own if vgpu_devices.is_function(name)}
        if functions:
            self._require_functions(instance, functions)
        mdevs = own - functions
        if mdevs:
            mdevs -= self._read_accelerators(instance)
        if self._list_lost_mdevs(mdevs):
            self._reconciler.start_mdevs_in_use()
        if mdevs:
            self._remove_mdevs_to_recreate(instance, mdevs)
        lost = self._list_lost_mdevs(mdevs)
        if lost:
            self._create_lost(context, instance, lost)

    def _require_functions(
        self, instance: nova_types.Instance, functions: Set[str]
    ) -> None:
        there = vgpu_devices.list_functions(self._reconciler.reconcile())
        for vgpu in self._usage.list_attached(instance.uuid):
            if vgpu.name in functions and (
                vgpu.name not in there
                or not any(
                    vgpu_facts.is_of_type(
                        current, vgpu.type_name, self._planner.type_names
                    )
                    for current in there[vgpu.name].vgpus
                )
            ):
                raise unavailable(
                    f'The vGPU of {instance.uuid} on {vgpu.name} does not '
                    'exist and cannot be created. "nova-vgpu check" may show '
                    'why.'
                )

    def _remove_mdevs_to_recreate(
        self, instance: nova_types.Instance, mdevs: Set[str]
    ) -> None:
        """Remove mdevs that are of other types than were given to guests.

        libvirt and mdevctl start an mdev by the id in its definition, which a
        release of the vendor's driver may have given to another type. All of
        them go, not only the server's: a GPU may take one size only.

        :raises ComputeResourcesUnavailable: if one of the server's stays.
        """
        if not list(self._list_mdevs_to_recreate(instance, mdevs)):
            return
        self._reconciler.reconcile()
        for uuid, current, noted in self._list_mdevs_to_recreate(
            instance, mdevs
        ):
            raise unavailable(
                f'vGPU {uuid} of {instance.uuid} is of type {current}, but '
                f'the server was built with {noted}: type ids have changed '
                'since it was created. Shut the server down and run '
                '"nova-vgpu apply", which replaces it or reports why not.'
            )

    def _list_mdevs_to_recreate(
        self, instance: nova_types.Instance, mdevs: Set[str]
    ) -> Iterator[tuple[str, str, str | None]]:
        """mdevs of a server, with what they are and what they should be."""
        there = {
            vgpu.name: vgpu
            for gpu in self._planner.make_plan().gpus
            for vgpu in gpu.all_vgpus
        }
        for noted in self._usage.list_attached(instance.uuid):
            current = there.get(noted.name)
            if (
                current is not None
                and noted.name in mdevs
                and not vgpu_facts.is_of_type(
                    current, noted.type_name, self._planner.type_names
                )
            ):
                name = self._planner.type_names[current.type_id]
                yield noted.name, name, noted.type_name

    def _list_lost_mdevs(self, uuids: Set[str]) -> Set[str]:
        """Those that do not exist, or are only defined."""
        if not uuids:
            return uuids
        there = self._planner.list_mdevs()
        if there is not None:
            return uuids - there
        active = self._devices.list_active_mdevs()
        return {
            uuid
            for uuid in uuids
            if not any(vgpu_usage.is_one_of(name, [uuid]) for name in active)
        }

    def _create_lost(
        self,
        context: nova_types.Context,
        instance: nova_types.Instance,
        lost: Set[str],
    ) -> None:
        """Create mdevs again, with their UUIDs, where Placement has them."""
        allocations = self._allocations.read(context, instance)
        plan = self._planner.make_plan()
        places = [
            place
            for provider, of_provider in allocations.items()
            for place in self._find_places(
                plan,
                self._allocations.get_gpu_name(context, provider),
                sum(of_provider['resources'].values()),
            )
        ]
        own = self._usage.list_attached(instance.uuid)
        for vgpu in own:
            # What is there has its place already.
            for assigned in places:
                if vgpu.name in _list_names(assigned):
                    places.remove(assigned)
                    break
        types = {vgpu.name: vgpu.type_name for vgpu in own}
        noted = {uuid: types.get(uuid) for uuid in lost}
        for uuid, assigned in vgpu_facts.match_places(noted, places):
            self._create_again(instance, uuid, assigned, noted[uuid])

    def _find_places(
        self, plan: values.Plan, device: str, count: int
    ) -> Iterator[values.Assignment]:
        """What a server has of a provider, one for each vGPU.

        A GPU that was not divided yet when the server got its vGPUs may have
        them of any of its types.
        """
        of_gpu = plan.assignments_of(self._planner.gpu_of(device))
        own = [assigned for assigned in of_gpu if assigned.device == device]
        for assigned in own or of_gpu:
            yield from itertools.repeat(assigned, count)

    def _create_again(
        self,
        instance: nova_types.Instance,
        uuid: str,
        assigned: values.Assignment,
        type_name: str | None,
    ) -> None:
        gpu, now = assigned.gpu, assigned.type
        if (
            type_name
            and now
            and not type_matching.find_matches(type_name, [now])
        ):
            raise unavailable(
                f'vGPU {uuid} of {instance.uuid} is gone: it was of type '
                f'{type_name}, but GPU {gpu} serves {now} now.'
            )
        LOG.info('Creating vGPU %s again.', uuid, instance=instance)
        try:
            created = self._allocator.create(assigned.device, uuid)
        except libvirt_driver.libvirt.libvirtError as error:
            raise unavailable(
                f'vGPU {uuid} of {instance.uuid} is gone, and libvirt does '
                f'not create it again on GPU {gpu}: {error}'
            ) from error
        if created is None:
            raise unavailable(
                f'vGPU {uuid} of {instance.uuid} is gone, and GPU {gpu} has '
                'no room to create it again.'
            )


def _list_names(assigned: values.Assignment) -> Iterator[str]:
    """The vGPUs of a GPU, or of its share for a type."""
    for vgpu in assigned.gpu.all_vgpus:
        if assigned.share is None or (
            assigned.type is not None and vgpu.type_id == assigned.type.id
        ):
            yield vgpu.name


def asks_for(extra_specs: Mapping[str, str], classes: Container[str]) -> bool:
    """Whether a flavor asks for resources of some classes, in any group."""
    return any(
        name.startswith('resources')
        and resource_class in classes
        and amount.strip() != '0'
        for key, amount in extra_specs.items()
        for name, _, resource_class in [key.partition(':')]
    )
