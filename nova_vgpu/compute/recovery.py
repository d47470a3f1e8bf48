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


"""A server that has vGPUs, and whose guest is defined anew.

It keeps them meanwhile, and finds them again if they are gone, which is what a
reboot of the host does: a type that was set is always gone, an mdev if nothing
defined it or started it. An mdev that was started as another type, because a
release of the vendor's driver numbers types anew, is made again.
"""

from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Set
import contextlib
import typing

from nova import exception as nova_exception
from nova import objects
import nova.conf
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.compute import allocation
from nova_vgpu.compute import guests
from nova_vgpu.host import guests as host_guests
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import lost_mdevs
from nova_vgpu.reconcile import upkeep

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF


class Recovery(allocation.Allocation):
    """Sees that a server has its own vGPUs."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        # mdevs of Cyborg's for guests that are being defined.
        self._cyborgs: set[str] = set()
        super().__init__(*args, **kwargs)

    @contextlib.contextmanager
    def _with_own_vgpus(
        self,
        context: typing.Any,
        instance: typing.Any,
        accel_info: typing.Any = None,
    ) -> Iterator[None]:
        """Let the server keep its vGPUs while its guest is not defined."""
        with self._operation():
            claimed = set(self._claim_own(instance))
            cyborgs = list_cyborgs(accel_info)
            if claimed:
                cyborgs |= self._read_accelerators(instance)
            own = claimed - cyborgs
            if own:
                self._make_ready(context, instance, own)
            elif self._asks_for_vgpus(instance):
                self._choose_anew(context, instance)
            try:
                with self._marking(cyborgs):
                    yield
            finally:
                self.instance_claimed_mdevs.pop(instance.uuid, None)

    @contextlib.contextmanager
    def _marking(self, cyborgs: Set[str]) -> Iterator[None]:
        """Have a guest that is defined meanwhile say which are Cyborg's.

        Cyborg makes them, and Nova has it do so only in some operations. The
        others find them among the vGPUs of the guest.
        """
        self._cyborgs.update(cyborgs)
        try:
            yield
        finally:
            self._cyborgs.difference_update(cyborgs)

    def _read_accelerators(self, instance: typing.Any) -> Set[str]:
        """The mdevs of a server that are known to be Cyborg's."""
        guest = host_guests.read_guest(self._guests, instance.uuid)
        return guest.accelerators if guest else frozenset()

    def _asks_for_vgpus(self, instance: typing.Any) -> bool:
        """Whether a server may hold vGPUs, by its flavor alone.

        Placement knows for certain, but other servers must start without it.
        """
        return asks_for(
            instance.flavor.extra_specs,
            self._get_supported_mdev_resource_classes(),
        )

    def _choose_anew(self, context: typing.Any, instance: typing.Any) -> None:
        """Choose vGPUs for a server that has none of those it holds.

        What it is entitled to is in its allocations, however its flavor asked
        for it.
        """
        allocations = self._get_allocations(context, instance)
        if allocations:
            LOG.info('Choosing vGPUs anew.', instance=instance)
            # Where Nova looks for vGPUs that no guest shows yet.
            self.instance_claimed_mdevs[instance.uuid] = self._allocate_mdevs(
                allocations
            )

    def _make_ready(
        self, context: typing.Any, instance: typing.Any, own: Set[str]
    ) -> None:
        """See that the vGPUs that a guest has are there; make them if not.

        :raises ComputeResourcesUnavailable: if one cannot be had.
        """
        functions = {name for name in own if guests.is_function(name)}
        if functions:
            self._require_functions(instance, functions)
        mdevs = own - functions
        if mdevs:
            mdevs -= self._read_accelerators(instance)
        if self._list_lost_mdevs(mdevs):
            self._start_held_mdevs()
        if mdevs:
            self._clear_mistakes(instance, mdevs)
        lost = self._list_lost_mdevs(mdevs)
        if lost:
            self._create_lost(context, instance, lost)

    def _require_functions(
        self, instance: typing.Any, functions: Set[str]
    ) -> None:
        there = guests.list_gpu_functions(self._keep_up())
        for vgpu in self._read_vgpus(instance):
            if vgpu.name in functions and (
                vgpu.name not in there
                or not upkeep.has_its_type(
                    there[vgpu.name], vgpu, self._type_names
                )
            ):
                raise unavailable(
                    f'The vGPU of {instance.uuid} on {vgpu.name} is not there '
                    'and cannot be made. "nova-vgpu check" may say why.'
                )

    def _clear_mistakes(self, instance: typing.Any, mdevs: Set[str]) -> None:
        """Remove mdevs that are of other types than were given to guests.

        libvirt and mdevctl start an mdev by the id in its definition, which a
        release of the vendor's driver may have given to another type. All of
        them go, not only the server's: a GPU may take one size only.

        :raises ComputeResourcesUnavailable: if one of the server's stays.
        """
        if not list(self._list_mistakes(instance, mdevs)):
            return
        self._keep_up()
        for uuid, current, noted in self._list_mistakes(instance, mdevs):
            raise unavailable(
                f'vGPU {uuid} of {instance.uuid} is of type {current}, but '
                f'the server was given {noted}: ids of types mean other types '
                'than when it was made. Shut the server down and run '
                '"nova-vgpu apply", which makes it again or says why it '
                'cannot.'
            )

    def _list_mistakes(
        self, instance: typing.Any, mdevs: Set[str]
    ) -> Iterator[tuple[str, str, str | None]]:
        """mdevs of a server, with what they are and what they should be."""
        there = {
            vgpu.name: vgpu
            for gpu in self._make_plan().gpus
            for vgpu in gpu.all_vgpus
        }
        for noted in self._read_vgpus(instance):
            current = there.get(noted.name)
            if (
                current is not None
                and noted.name in mdevs
                and not upkeep.is_as_noted(current, noted, self._type_names)
            ):
                name = self._type_names[current.type_id]
                yield noted.name, name, noted.type_name

    def _read_vgpus(self, instance: typing.Any) -> list[values.GuestVGPU]:
        guest = host_guests.read_guest(self._guests, instance.uuid)
        return list(guest.vgpus) if guest else []

    def _list_lost_mdevs(self, uuids: Set[str]) -> Set[str]:
        """Those that do not exist, or are only defined."""
        if not uuids:
            return uuids
        if self._monitor is not None:
            return uuids - self._monitor.list_mdevs()
        inactive = {device.name() for device in self._list_inactive_mdevs()}
        there = set(self._host.list_mediated_devices() or ()) - inactive
        return {
            uuid
            for uuid in uuids
            if not any(
                # Newer libvirts append the parent.
                name.startswith(libvirt_utils.mdev_uuid2name(uuid))
                for name in there
            )
        }

    def _create_lost(
        self, context: typing.Any, instance: typing.Any, lost: Set[str]
    ) -> None:
        """Create mdevs again, with their UUIDs, where Placement has them."""
        allocations = self._get_allocations(context, instance)
        plan = self._make_plan()
        places = [
            assigned
            for provider, given in allocations.items()
            for _ in range(sum(given['resources'].values()))
            for assigned in plan.assignments
            if assigned.gpu.name == self._gpu_of(self._get_gpu_name(provider))
        ]
        own = self._read_vgpus(instance)
        there = {vgpu.name for gpu in plan.gpus for vgpu in gpu.all_vgpus}
        for vgpu in own:
            # What is there has its place already.
            for assigned in places:
                names = {found.name for found in assigned.gpu.all_vgpus}
                if vgpu.name in there and vgpu.name in names:
                    places.remove(assigned)
                    break
        types = {vgpu.name: vgpu.type_name for vgpu in own}
        noted = {uuid: types.get(uuid) for uuid in lost}
        for uuid, assigned in lost_mdevs.match_places(noted, places):
            self._create_again(instance, uuid, assigned, noted[uuid])

    def _create_again(
        self,
        instance: typing.Any,
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
            created = self._create_new_mediated_device(gpu.name, uuid)
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

    def _get_allocations(
        self, context: typing.Any, instance: typing.Any
    ) -> dict[str, typing.Any]:
        """What a server holds of vGPUs of this host, by provider.

        :raises ComputeResourcesUnavailable: if Placement does not tell: the
            server must not start without its vGPUs.
        """
        self._ensure_provider_tree(context)
        held = self.virtapi.reportclient.get_allocations_for_consumer(
            context, instance.uuid
        )
        if not held:  # which is also how Nova says that Placement is down
            raise unavailable(
                f'Placement does not tell what server {instance.uuid} holds. '
                'Start the server again when Placement answers.'
            )
        return {
            provider: given
            for provider, given in self._vgpu_allocations(held).items()
            if self.provider_tree.exists(provider)
        }

    def _ensure_provider_tree(self, context: typing.Any) -> None:
        """Guests are started before Nova first updates the providers."""
        if self.provider_tree is None:
            name = self._host.get_hostname()
            node = objects.ComputeNode.get_by_host_and_nodename(
                context, CONF.host, name
            )
            client = self.virtapi.reportclient
            self.provider_tree = client.get_provider_tree_and_ensure_root(
                context, node.uuid, name=name
            )

    def _get_gpu_name(self, provider: str) -> str:
        data = self.provider_tree.data(provider)
        node = self.provider_tree.data(data.parent_uuid).name
        return str(data.name).removeprefix(f'{node}_')


def asks_for(extra_specs: Mapping[str, str], classes: Container[str]) -> bool:
    """Whether a flavor asks for resources of some classes, in any group."""
    return any(
        name.startswith('resources')
        and resource_class in classes
        and amount.strip() != '0'
        for key, amount in extra_specs.items()
        for name, _, resource_class in [key.partition(':')]
    )


def list_cyborgs(accel_info: typing.Any) -> set[str]:
    """The mdevs that Cyborg makes for a server, and looks after."""
    return {
        request['attach_handle_uuid']
        for request in accel_info or ()
        if request['attach_handle_type'] == 'MDEV'
    }


def unavailable(reason: str) -> nova_exception.ComputeResourcesUnavailable:
    # Nova 33 says that a guest does not resume with its host, but not why.
    LOG.error(reason)
    return nova_exception.ComputeResourcesUnavailable(reason=reason)
