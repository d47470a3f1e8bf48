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


"""How a server gets its vGPUs: chosen, made if need be, and kept for it.

What an operation on a server allocates stays the server's until the operation
ends: by then its guest is defined, or the operation failed.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import errno
import typing

from nova import exception as nova_exception
from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging
from oslo_utils import uuidutils

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import locking
from nova_vgpu.compute import log
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.compute import reconciler as vgpu_reconciler
from nova_vgpu.compute import usage as vgpu_usage
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.reconcile import vgpu_facts

LOG = logging.getLogger(__name__)


class Allocator:
    """Chooses and makes vGPUs, and keeps them for operations on servers."""

    def __init__(
        self,
        planner: vgpu_planner.Planner,
        usage: vgpu_usage.Usage,
        devices: vgpu_devices.VGPUDevices,
        reconciler: vgpu_reconciler.Reconciler,
        failures: log.FailureLog,
    ) -> None:
        self._planner = planner
        self._usage = usage
        self._devices = devices
        self._reconciler = reconciler
        self._failures = failures
        #: Functions on which no vGPU could be created, in the order in which
        #: they failed. The creation lock guards it.
        self._bad_functions: dict[str, None] = {}

    # -- operations on servers ----------------------------------------------

    @contextlib.contextmanager
    def operation(self) -> Iterator[None]:
        """Keep what is allocated until its guest is defined; else release it.

        :raises ComputeResourcesUnavailable: in place of an error of this
            project, which Nova does not know: a server's fault would have the
            name of its class for a text.
        """
        done, ended = False, list[str]()
        try:
            with self._usage.pending.during_operation() as ended:
                yield
            done = True
        except (
            exception.BusyError,
            exception.HostUnreadable,
            exception.StateUnusable,
        ) as error:
            raise unavailable(str(error)) from error
        finally:
            if ended and not done:
                self._reconciler.release(set(ended))
            elif ended:
                self._usage.attached.add(ended)

    @contextlib.contextmanager
    def releasing(self, instance: nova_types.Instance) -> Iterator[None]:
        """Release what a server has when its guest is undefined."""
        had: set[str] = set()
        with self._reconciler.logging_failures():
            had.update(
                vgpu.name for vgpu in self._usage.list_attached(instance.uuid)
            )
        yield
        self._usage.attached.remove(had)
        functions = set(filter(vgpu_devices.is_function, had))
        # One that migrated while it ran left no guest behind.
        functions |= self._usage.functions.list_of(instance.uuid)
        if functions:
            self._reconciler.release(functions)

    def reserve_own(self, instance: nova_types.Instance) -> list[str]:
        """Keep what a server has, before its guest stops showing it.

        A server that has no vGPU waits for no lock, and neither does one of
        Cyborg where nothing is declared.
        """
        own = self._usage.list_of(instance.uuid)
        if not own or not self._planner.declaration.types:
            return own
        self._usage.pending.hold()
        with locking.hold_allocation():
            own = self._usage.list_of(instance.uuid)
            self._usage.pending.add(own)
        return own

    # -- vGPUs of a server --------------------------------------------------

    def allocate(
        self,
        asked: nova_types.Allocations,
        choose: Callable[[nova_types.Allocations], list[str]],
    ) -> list[str]:
        """Choose vGPUs and keep them until the operation ends.

        No other operation chooses them meanwhile; nor does the same one,
        hence one by one.

        :param choose: Nova's own way, which asks for :meth:`list_idle` and
            then for :meth:`create`.
        """
        # Not Nova's lock, which is taken within and cannot be taken twice.
        with self.operation():
            self._usage.pending.hold()
            with locking.hold_allocation():
                chosen: list[str] = []
                for one in _list_single(asked):
                    names = choose(one)
                    self._usage.pending.add(names)
                    chosen += names
                return chosen

    def list_idle(self, device: str | None) -> set[str]:
        """vGPUs of a GPU that are there and not in use; None: of any."""
        return {
            name
            for assigned in self._planner.plan_gpu(device)
            for name in self._usage.list_idle(assigned)
        }

    def create(
        self, device: str | None, uuid: str | None = None
    ) -> str | None:
        """Create one more vGPU on a GPU; None: on any.

        :returns: its name, or that of an idle one that was overlooked; None
            if there is no room.
        """
        with locking.hold_creation():
            for assigned in self._planner.plan_gpu(device):
                occupied = self._usage.list_occupied(assigned)
                rooms = vgpu_facts.list_rooms(assigned, occupied)
                created = self._create_on_one(assigned, rooms, uuid)
                if created is not None:
                    return created
        if uuid is None:
            # One may have been released without our knowing.
            in_use = self._usage.read().names
            for assigned in self._planner.plan_gpu(device):
                for name in vgpu_facts.list_idle(assigned, in_use):
                    return name
        LOG.error('No GPU has room for one more vGPU on %s.', device or 'any')
        return None

    def _create_on_one(
        self,
        assigned: values.Assignment,
        functions: Iterable[str],
        uuid: str | None,
    ) -> str | None:
        """Create a vGPU on the first function that lets it be created.

        Functions that failed before are tried after all others, those that
        failed longest ago first.

        :returns: None if there is no function.
        :raises ComputeResourcesUnavailable: if no virtual function takes its
            type.
        :raises libvirtError: if libvirt does not create an mdev on any.
        """
        failure: Exception | None = None
        failed = {name: when for when, name in enumerate(self._bad_functions)}
        for function in sorted(functions, key=lambda f: failed.get(f, -1)):
            what = (
                f'Could not create a vGPU of {assigned.type} on {function} of '
                f'GPU {assigned.gpu}'
            )
            try:
                created = self._create_vgpu(assigned, function, uuid)
            except (OSError, libvirt_driver.libvirt.libvirtError) as error:
                failure = error
                self._failures.say(what, error)
                self._bad_functions.pop(function, None)
                if _is_of_host(error):
                    break
                self._bad_functions[function] = None
                if isinstance(error, TimeoutError):
                    break  # the kernel hangs; one wait per server is enough
            else:
                self._bad_functions.pop(function, None)
                self._failures.forget(what)
                return created
        if isinstance(failure, OSError):
            raise nova_exception.ComputeResourcesUnavailable(
                reason=f'no virtual function of GPU {assigned.gpu} becomes a '
                f'vGPU of {assigned.type}: {failure.strerror}'
            ) from failure
        if failure is not None:
            raise failure
        return None

    def _create_vgpu(
        self, assigned: values.Assignment, function: str, uuid: str | None
    ) -> str:
        # There is no room for a type that is not known; mypy cannot tell.
        assert assigned.type is not None  # noqa: S101
        gpu, vgpu_type = assigned.gpu, assigned.type
        if gpu.framework is values.Framework.VENDOR_VFIO:
            (vf,) = (vf for vf in gpu.vfs if vf.name == function)
            self._devices.set_type(str(vf.address), vgpu_type.id)
            created = function
            # If the next one fails, it is released.
            self._usage.pending.add([created])
        else:
            created = self._create_or_find_mdev(
                function, vgpu_type.id, uuid or uuidutils.generate_uuid()
            )
        LOG.info(
            'Created vGPU %s of %s on %s of GPU %s.',
            created,
            vgpu_type,
            function,
            gpu,
        )
        return created

    def _create_or_find_mdev(
        self, function: str, type_id: str, uuid: str
    ) -> str:
        """Create an mdev.

        Nova creates it first and defines it then. If the latter fails, it is
        there nevertheless; a second one would be too many.

        :raises libvirtError: if it is not there.
        """
        created = uuid
        try:
            created = self._devices.create_mdev(function, type_id, uuid)
        except libvirt_driver.libvirt.libvirtError as error:
            if self._planner.find_parent(uuid) != function:
                raise
            LOG.warning(
                'vGPU %s was created, but not defined, so it is gone with the '
                'next reboot of the host. It is created again when its server '
                'starts: %s',
                uuid,
                error,
            )
        return created


def unavailable(reason: str) -> nova_exception.ComputeResourcesUnavailable:
    # Nova 33 says that a guest does not resume with its host, but not why.
    LOG.error(reason)
    return nova_exception.ComputeResourcesUnavailable(reason=reason)


def _is_of_host(error: typing.Any) -> bool:
    """Whether a failure says nothing about the function that was tried.

    Nova's privileged helper does not work, or libvirt does not answer: another
    function would fail as well.
    """
    if isinstance(error, OSError):
        return error.errno == errno.EPERM
    libvirt = libvirt_driver.libvirt
    domains = (libvirt.VIR_FROM_REMOTE, libvirt.VIR_FROM_RPC)
    return error.get_error_domain() in domains


def _list_single(
    asked: nova_types.Allocations,
) -> Iterator[nova_types.Allocations]:
    """An allocation of one vGPU for each of those that are asked for."""
    for provider, of_provider in asked.items():
        for resource_class, count in of_provider['resources'].items():
            for _ in range(count):
                yield {provider: {'resources': {resource_class: 1}}}
