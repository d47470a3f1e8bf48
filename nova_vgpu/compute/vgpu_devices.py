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

"""Makes and starts vGPUs, through libvirt and sysfs.

A vGPU goes by its name, which is the UUID of an mdev or, in the
vendor-specific VFIO framework, the node device name of its virtual function.
Nova hands those names around without looking into them.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import errno
import time

from nova import exception as nova_exception
from nova.virt.libvirt import driver as libvirt_driver
from oslo_privsep import comm
from oslo_privsep import daemon

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import privileged
from nova_vgpu.host import gpu_modes
from nova_vgpu.host import guests

#: libvirt drops an mdev when udev tells that it is gone, seconds later on a
#: host that is busy.
NOTICE_SECONDS = 30.0
#: The kernel's own driver for VFIO, and the one that Intel's virtual functions
#: can migrate with. (Linux kernel, drivers/vfio/pci/xe.)
VFIO_DRIVER = 'vfio-pci'
VARIANT_DRIVER = 'xe-vfio-pci'
_PAUSE = 0.1


class Connection:
    """libvirt, as Nova's own code asks it.

    With eventlet, Nova has one thread, and libvirt is asked in others: a slow
    answer would stop the whole service. Nova wraps what its connection
    returns, but not what is in a list.
    """

    def __init__(self, nova: nova_types.Driver) -> None:
        #: Connected later than this is made.
        self._nova = nova

    def listAllDomains(self, _flags: int = 0) -> Iterable[guests.Domain]:
        """All of them, running or not, whatever the flags are."""
        with _unavailable_as_unreadable():
            return self._nova._host.list_instance_domains(only_running=False)

    def listAllDevices(
        self, flags: int = 0
    ) -> Iterable[nova_types.NodeDevice]:
        with _unavailable_as_unreadable():
            return self._nova._host.list_all_devices(flags)

    def lookupByUUIDString(self, uuid: str) -> guests.Domain:
        with _unavailable_as_unreadable():
            connection = self._nova._host.get_connection()
        return connection.lookupByUUIDString(uuid)


@contextlib.contextmanager
def _unavailable_as_unreadable() -> Iterator[None]:
    """What Nova raises if libvirt does not answer, as this project's error."""
    try:
        yield
    except nova_exception.HypervisorUnavailable as error:
        raise exception.HostUnreadable(str(error)) from error


@contextlib.contextmanager
def _privileged() -> Iterator[None]:
    """Something that Nova's privileged helper does.

    :raises OSError: also if the helper fails.
    """
    try:
        yield
    except (
        ImportError,  # it runs where this project is not installed
        comm.PrivsepTimeout,
        daemon.FailedToDropPrivileges,
    ) as error:
        raise OSError(
            errno.EPERM, f"Nova's privileged helper fails: {error}"
        ) from error


class VGPUDevices:
    """The vGPUs of this host as devices."""

    def __init__(self, nova: nova_types.Driver) -> None:
        self.nova = nova
        self.connection = Connection(nova)

    def set_type(self, function: str, type_id: str | None) -> None:
        """Make a vGPU of a virtual function; None: make it free again.

        :raises OSError: if the kernel, or Nova's privileged helper, refuses.
        """
        with _privileged():
            privileged.set_type(function, type_id)

    def read_modes(
        self, addresses: Sequence[values.PciAddress]
    ) -> values.ModesRead:
        """The modes of GPUs, as NVML tells root.

        :raises OSError: if Nova's privileged helper fails.
        """
        with _privileged():
            return gpu_modes.unpack(
                privileged.read_modes([str(a) for a in addresses])
            )

    def create_mdev(self, function: str, type_id: str, uuid: str) -> str:
        """Create and define an mdev, when libvirt knows the function.

        :raises libvirtError: if it is not created, or not defined.
        """
        self._await_shown(function)
        return self.nova._create_mdev(function, type_id, uuid)

    def start_mdev(self, device: nova_types.NodeDevice) -> None:
        self.nova._host.device_start(device)

    def _await_shown(self, function: str) -> None:
        """Virtual functions are there before libvirt knows them.

        If it does not learn of one, it says so when an mdev is to be made.
        """
        libvirt = libvirt_driver.libvirt
        end = time.monotonic() + NOTICE_SECONDS
        while time.monotonic() < end:
            try:
                self.nova._host.device_lookup_by_name(function)
            except libvirt.libvirtError as error:
                if error.get_error_code() != libvirt.VIR_ERR_NO_NODE_DEVICE:
                    return
            else:
                return
            time.sleep(_PAUSE)

    def list_inactive_mdevs(self) -> Iterable[nova_types.NodeDevice]:
        """The mdevs that are only defined."""
        libvirt = libvirt_driver.libvirt
        return self.nova._host.list_all_devices(
            libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
            | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE
        )

    def list_active_mdevs(self) -> set[str]:
        """The names that libvirt has for the mdevs that are started."""
        inactive = {device.name() for device in self.list_inactive_mdevs()}
        return set(self.nova._host.list_mediated_devices() or ()) - inactive


def is_function(name: str) -> bool:
    """Whether a vGPU is a virtual function, by its name."""
    return name.startswith('pci_')


def list_functions(plan: values.Plan) -> dict[str, values.VirtualFunction]:
    """The virtual functions of all GPUs, by name."""
    return {vf.name: vf for gpu in plan.gpus for vf in gpu.vfs}
