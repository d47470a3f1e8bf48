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


"""The vGPUs of the host: whose they are, and how they are kept up.

A vGPU goes by its name, which is the UUID of an mdev or, in the
vendor-specific VFIO framework, the node device name of its virtual function.
Nova hands those names around without looking into them.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Set
import contextlib
import dataclasses
import errno
import time
import typing

from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging
from oslo_privsep import comm
from oslo_privsep import daemon

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import believed
from nova_vgpu.compute import claims
from nova_vgpu.compute import given
from nova_vgpu.compute import guests as compute_guests
from nova_vgpu.compute import locking
from nova_vgpu.compute import planning
from nova_vgpu.compute import privileged
from nova_vgpu.host import guests
from nova_vgpu.host import state
from nova_vgpu.host import vendor_vfio
from nova_vgpu.host import vgpu_store
from nova_vgpu.plan import pci_devices
from nova_vgpu.reconcile import upkeep

LOG = logging.getLogger(__name__)

#: libvirt drops an mdev when udev tells that it is gone, seconds later on a
#: host that is busy.
_NOTICE_SECONDS = 30.0
_PAUSE = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Holdings:
    """What is not free: by name vGPUs, and functions kept for theirs."""

    taken: frozenset[str]
    guests: tuple[values.Guest, ...]


class Holding(planning.Planning):
    """Knows who has which vGPU, and takes back those of nobody."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        self._claims = claims.Claims(locking.hold_claims)
        self._believed = believed.Believed()
        self._given = given.Given()
        super().__init__(*args, **kwargs)

    @property
    def _guests(self) -> guests.Connection:
        return compute_guests.Connection(self._host)

    # -- whose they are -----------------------------------------------------

    def _get_all_assigned_mediated_devices(
        self, instance: typing.Any = None
    ) -> dict[str, str]:
        """Replaces Nova's, which knows of mdevs alone, and by one definition.

        Beside what guests have, it is what Nova noted for guests that are
        migrating to this host. A guest that is here has what it has.
        """
        if instance is not None:
            guest = guests.read_guest(self._guests, instance.uuid)
            if guest:
                self._given.add(guest)
            own = [vgpu.name for vgpu in guest.vgpus] if guest else []
            noted = dict(self._list_notes()).get(instance.uuid, [])
            return dict.fromkeys(own or noted, instance.uuid)
        assigned = {
            name: owner
            for owner, names in self._list_notes()
            for name in names
        }
        for guest in guests.read_guests(self._guests):
            for vgpu in guest.vgpus:
                assigned[vgpu.name] = guest.uuid
        return assigned

    def _list_notes(self) -> list[tuple[str, list[str]]]:
        """What Nova noted for servers that no guest shows yet."""
        # A copy: other threads add to it.
        return list(dict(self.instance_claimed_mdevs).items())

    def _read_holdings(self) -> Holdings:
        """Only under the allocation lock does it stay so.

        Each is read before what follows it: a claim ends, without the lock,
        when it is noted or its guest is defined.
        """
        taken = self._list_chosen()
        found = guests.read_guests(self._guests)
        of_guests = {
            name
            for guest in found
            for name in (
                *guest.mdevs,
                *(function.node_device_name for function in guest.functions),
            )
        }
        self._believed.replace(of_guests)
        taken |= of_guests
        # A function keeps the place of an mdev that is to start there.
        for device in self._list_inactive_mdevs():
            if _is_one_of(device, taken):
                taken.add(device.parent())
        return Holdings(frozenset(taken), found)

    def _list_chosen(self) -> set[str]:
        """What is chosen for guests that may not show it yet."""
        chosen = set(self._claims.list())
        chosen.update(
            name for _, names in self._list_notes() for name in names
        )
        return chosen

    def _list_idle(self, assigned: values.Assignment) -> tuple[str, ...]:
        """vGPUs of a GPU that are there and that nobody has.

        Those that somebody is believed to have are not among these.
        """
        if assigned.gpu.framework is values.Framework.VENDOR_VFIO:
            return upkeep.list_idle(assigned, self._read_holdings().taken)
        # Before guests: a claim ends when its guest is defined.
        chosen = self._list_chosen()
        there = upkeep.list_idle(assigned, chosen | self._list_believed())
        if not there:
            return ()
        held = guests.find_mdevs(self._guests, there)
        self._believed.add(held)
        return tuple(name for name in there if name not in held)

    def _list_believed(self) -> frozenset[str]:
        if self._believed.list() is None:
            self._read_holdings()
        return self._believed.list() or frozenset()

    def _list_kept_places(self, assigned: values.Assignment) -> Container[str]:
        """The functions of a GPU that are somebody's although they are free.

        A virtual function that is a vGPU loses its type with a reboot, an mdev
        may be defined but not started, and a guest may have a function as it
        is, which is nothing that was given to it here.
        """
        if assigned.gpu.framework is values.Framework.VENDOR_VFIO or any(
            self._list_inactive_mdevs()
        ):
            return self._read_holdings().taken
        return self._list_chosen() | self._list_believed()

    def _claim_own(self, instance: typing.Any) -> list[str]:
        """Claim what a server has, before its guest stops showing it.

        A server that has no vGPU waits for no lock.
        """
        if not self._get_all_assigned_mediated_devices(instance):
            return []
        self._claims.hold()
        with locking.hold_allocation():
            own = list(self._get_all_assigned_mediated_devices(instance))
            self._claims.add(own)
        return own

    # -- making and taking back ---------------------------------------------

    def _set_type(
        self, vf: values.VirtualFunction, vgpu_type: values.VGPUType | None
    ) -> None:
        number = vendor_vfio.number_of(vgpu_type) if vgpu_type else 0
        self._write_type(str(vf.address), number)

    def _write_type(self, address: str, number: int) -> None:
        try:
            privileged.write_type(address, number)
        except (
            ImportError,  # it runs where this project is not installed
            comm.PrivsepTimeout,
            daemon.FailedToDropPrivileges,
        ) as error:
            raise OSError(
                errno.EPERM, f"Nova's privileged helper fails: {error}"
            ) from error

    # -- upkeep -------------------------------------------------------------

    def _keep_up(
        self,
        released: Set[str] = frozenset(),
        seconds: float = locking.WAIT_SECONDS,
    ) -> values.Plan:
        """Bring the vGPUs of the host in line with its guests.

        :param released: functions that a guest just gave back.
        :param seconds: how long to wait for each of the locks.
        :returns: the plan for the host as it is then.
        :raises BusyError: if a lock is not free in time.
        """
        plan = self._make_plan()
        if not upkeep.is_concerned(plan):
            return plan
        with locking.hold_allocation(seconds), locking.hold_creation(seconds):
            # Once more, because what was in the way hid what is possible.
            for _ in range(2):
                plan, held = self._make_plan(), self._read_holdings()
                left = self._given.list_left(held.guests, plan)
                steps = list(
                    upkeep.plan_upkeep(
                        plan,
                        self._type_names,
                        held.taken,
                        held.guests,
                        (left | released) - self._list_pci_devices(plan),
                        self._list_kept(),
                    )
                )
                if not steps:
                    return plan
                # If the kernel hangs, the others may have to wait as well.
                if not all(map(self._carry_out, steps)):
                    break
            return self._make_plan()

    def _list_pci_devices(self, plan: values.Plan) -> frozenset[str]:
        """The functions that Nova's PCI tracker gives out, with any type."""
        specs = self._declaration.pci_devices
        return frozenset(
            name
            for gpu in plan.gpus
            for name in pci_devices.find_listed(specs, gpu)
        )

    def _list_kept(self) -> Container[str] | None:
        """The functions that stay vGPUs while nobody has them; None: all."""
        if self._declaration.creation is values.Creation.AHEAD:
            return None
        directory = state.StateDirectory(self.state_path)
        try:
            functions = vgpu_store.read(directory).functions
        except exception.StateUnusable as error:
            self._failures.say('Could not tell what is kept by hand', error)
            return None  # so nothing is taken back
        self._failures.forget('Could not tell what is kept by hand')
        return frozenset(
            values.PciAddress.parse(address).node_device_name
            for address in functions
        )

    def _give_back(self, released: Set[str] = frozenset()) -> None:
        with self._trying():
            self._keep_up(released)

    @contextlib.contextmanager
    def _trying(self) -> Iterator[None]:
        """Upkeep in the course of something else, which it must not fail."""
        try:
            yield
        except (
            exception.BusyError,
            exception.HostUnreadable,
            exception.StateUnusable,
            libvirt_driver.libvirt.libvirtError,
        ) as error:
            self._failures.say('Could not look after vGPUs', error)
        else:
            self._failures.forget('Could not look after vGPUs')

    def _carry_out(self, step: upkeep.Step) -> bool:
        """One step; one that fails is tried again with the next upkeep.

        :returns: False if the kernel hangs in it.
        """
        try:
            match step:
                case upkeep.SetType(vf, vgpu_type):
                    self._set_type(vf, vgpu_type)
                case upkeep.ClearType(vf):
                    self._set_type(vf, None)
                case upkeep.RemoveMdev(uuid):
                    self._remove_mdev(uuid)
        except (OSError, libvirt_driver.libvirt.libvirtError) as error:
            self._failures.say(f'Could not {step}', error)
            # To remove an mdev, it is libvirt that is waited for.
            return isinstance(step, upkeep.RemoveMdev) or not isinstance(
                error, TimeoutError
            )
        LOG.info('Had to %s, and did.', step)
        self._failures.forget(f'Could not {step}')
        return True

    def _remove_mdev(self, uuid: str) -> None:
        """Destroy an mdev and forget its definition.

        By libvirt, which refuses for one that is in use; the kernel's own way
        would wait for its guest to end.
        """
        name = self._get_mediated_device_information(
            libvirt_utils.mdev_uuid2name(uuid)
        )['dev_id']
        device = self._host.device_lookup_by_name(name)
        is_persistent = device.isPersistent()
        # First, because it may be refused.
        device.destroy()
        if is_persistent:
            device.undefine()
        self._await_gone(name)

    def _await_gone(self, name: str) -> None:
        """Until libvirt has noticed it, an mdev seems to be there.

        :raises TimeoutError: if it does not notice it.
        """
        end = time.monotonic() + _NOTICE_SECONDS
        while name in (self._host.list_mediated_devices() or ()):
            if time.monotonic() >= end:
                raise TimeoutError(
                    errno.ETIMEDOUT,
                    f'libvirt still shows {name}: let it look again, restart '
                    'libvirtd, or virtnodedevd',
                )
            time.sleep(_PAUSE)

    def _await_shown(self, function: str) -> None:
        """Virtual functions are there before libvirt knows them.

        If it does not learn of one, it says so when an mdev is to be made.
        """
        libvirt = libvirt_driver.libvirt
        end = time.monotonic() + _NOTICE_SECONDS
        while time.monotonic() < end:
            try:
                self._host.device_lookup_by_name(function)
            except libvirt.libvirtError as error:
                if error.get_error_code() != libvirt.VIR_ERR_NO_NODE_DEVICE:
                    return
            else:
                return
            time.sleep(_PAUSE)

    def _start_inactive_mediated_devices(self) -> None:
        """Replaces Nova's, where one that does not start stops the service.

        Its GPU may not be ready yet; if a guest has it, it is tried again.
        """
        with self._trying():
            self._start_mdevs(
                self._list_inactive_mdevs(), locking.START_SECONDS
            )

    def _start_held_mdevs(self, seconds: float = locking.WAIT_SECONDS) -> None:
        """Start those that somebody has, and leave others as they are."""
        inactive = list(self._list_inactive_mdevs())
        if inactive:
            taken = self._read_holdings().taken
            held = (d for d in inactive if _is_one_of(d, taken))
            self._start_mdevs(held, seconds)

    def _start_mdevs(
        self, devices: Iterable[typing.Any], seconds: float
    ) -> None:
        # Where nothing is declared, Nova's driver takes no lock either.
        lock = locking.hold_creation if self._declaration.types else _no_lock
        for device in devices:
            name = device.name()
            try:
                with lock(seconds):
                    self._host.device_start(device)
            except libvirt_driver.libvirt.libvirtError as error:
                self._failures.say(f'Could not start {name}', error)
            else:
                LOG.info('Started vGPU %s, which was only defined.', name)
                self._failures.forget(f'Could not start {name}')

    def _list_inactive_mdevs(self) -> Iterable[typing.Any]:
        libvirt = libvirt_driver.libvirt
        found: Iterable[typing.Any] = self._host.list_all_devices(
            libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
            | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE
        )
        return found


def _is_one_of(device: typing.Any, names: Iterable[str]) -> bool:
    """Whether an mdev of libvirt's is among vGPUs."""
    return any(
        # Newer libvirts append the parent.
        device.name().startswith(libvirt_utils.mdev_uuid2name(name))
        for name in names
    )


def _no_lock(_seconds: float) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()
