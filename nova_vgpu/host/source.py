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

"""The host that a command is about: by sysfs, or by libvirt."""

import dataclasses
import logging
import socket
import types

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import gpu_modes
from nova_vgpu.host import gpu_processes
from nova_vgpu.host import guest_drivers
from nova_vgpu.host import isolation
from nova_vgpu.host import nvlinks
from nova_vgpu.host import pcie
from nova_vgpu.host import software
from nova_vgpu.host import sysfs
from nova_vgpu.host import vgpu_config_xml
from nova_vgpu.host import vgpu_migration

LOG = logging.getLogger(__name__)

_ONLY_IN_SYSFS = 'only sysfs of the host has it; run the command there'


@dataclasses.dataclass(frozen=True, slots=True)
class HostSource:
    """Where the host is read from.

    With a libvirt URI, libvirt is asked. sysfs fills libvirt's gaps if its
    root is given, or if libvirt is on this very machine.
    """

    libvirt_uri: str | None = None
    sysfs_root: str | None = None

    @property
    def is_this_machine(self) -> bool:
        """Whether files of this machine, other than sysfs, are about it."""
        return self.sysfs_root is None and (
            self.libvirt_uri is None
            or _libvirt_reader().is_local(self.libvirt_uri)
        )

    def read_host(self) -> values.Host:
        """The host as it is now.

        :raises HostUnreadable: if it cannot be looked at.
        """
        tree = self._find_sysfs()
        if self.libvirt_uri is not None:
            libvirt_nodes = _libvirt_reader()
            with libvirt_nodes.connect(self.libvirt_uri) as connection:
                host: values.Host = libvirt_nodes.read_host(connection, tree)
        else:
            host = sysfs.read_host(tree or files.Files(sysfs.DEFAULT_ROOT))
        host = self.complete(host)
        LOG.debug(
            '%s: %d GPUs, %d faults', self, len(host.gpus), len(host.faults)
        )
        return host

    def _find_sysfs(self) -> files.Files | None:
        """The host's sysfs; None if it cannot be reached from here."""
        if self.sysfs_root is not None:
            return files.Files(self.sysfs_root)
        return (
            files.Files(sysfs.DEFAULT_ROOT) if self.is_this_machine else None
        )

    def read_topology(self, host: values.Host) -> values.Topology:
        """How its GPUs and network cards are connected.

        :raises HostUnreadable: if its sysfs cannot be reached.
        """
        tree = self._find_sysfs()
        if tree is None:
            raise exception.HostUnreadable(
                'The PCIe topology is in sysfs, and libvirt does not show it. '
                'Run the command on the host itself, without --libvirt.'
            )
        if self.is_this_machine:
            links = nvlinks.read_nvlinks(host)
        else:
            links = values.NVLinksRead(
                unknown_because='NVML is asked only about this machine'
            )
        return dataclasses.replace(
            pcie.read_topology(tree, host), nvlinks=links
        )

    def complete(self, host: values.Host) -> values.Host:
        """The host with the names of types that only a file of its has."""
        if self.is_this_machine:
            path = vgpu_config_xml.DEFAULT_PATH
            return vgpu_config_xml.Completion(path).complete(host)
        return host

    def read_modes(self, host: values.Host) -> values.ModesRead:
        """The modes of its GPUs; none are known of another machine."""
        if self.is_this_machine:
            return gpu_modes.read_modes(host)
        return values.ModesRead()

    def read_guest_drivers(
        self, host: values.Host
    ) -> tuple[values.GuestDriver, ...]:
        """The drivers of its guests; none are known of another machine."""
        if self.is_this_machine:
            return guest_drivers.read_guest_drivers(host)
        return ()

    def read_software(self) -> values.HostSoftware:
        """Versions, as files tell; none are known of another machine."""
        if self.is_this_machine:
            return software.read_kernel(software.DEFAULT_ROOT)
        return values.HostSoftware()

    def read_migration(
        self, host: values.Host
    ) -> tuple[values.GPUMigration, ...]:
        """What NVML tells of live migration, on this machine."""
        if self.is_this_machine:
            return vgpu_migration.read_migration(host)
        return ()

    def read_isolation(self, host: values.Host) -> values.IsolationRead:
        """Whether its GPUs can be passed through, as sysfs tells."""
        tree = self._find_sysfs()
        if tree is None:
            return isolation.make_unknown(host, _ONLY_IN_SYSFS)
        return isolation.read_isolation(tree, host)

    def add_processes(
        self, host: values.Host, read: values.IsolationRead
    ) -> values.IsolationRead:
        """The isolation with the processes that use GPUs, as NVML tells."""
        if not self.is_this_machine:
            return read
        return isolation.add_processes(
            read, gpu_processes.read_processes(host)
        )

    def read_guests(self) -> tuple[values.Guest, ...]:
        """The guests of the host.

        :raises HostUnreadable: if they cannot be looked at.
        """
        if self.libvirt_uri is None:
            raise exception.HostUnreadable(
                'Only libvirt knows the guests of the host. Say how to reach '
                'it: --libvirt qemu:///system'
            )
        libvirt_nodes = _libvirt_reader()
        from nova_vgpu.host import guests

        with libvirt_nodes.connect(self.libvirt_uri) as connection:
            return guests.read_guests(connection)

    def get_node_name(self) -> str:
        """What Nova calls the compute node that the source is about."""
        if self.libvirt_uri is None:
            return find_own_name()
        libvirt_nodes = _libvirt_reader()
        with libvirt_nodes.connect(self.libvirt_uri) as connection:
            name: str = libvirt_nodes.get_host_name(connection)
        return name


def _libvirt_reader() -> types.ModuleType:
    """The reader on libvirt, which not every installation has."""
    try:
        from nova_vgpu.host import libvirt_nodes
    except ImportError as error:
        raise exception.HostUnreadable(
            'The Python binding of libvirt is not installed: install '
            "python3-libvirt, or 'nova-vgpu[libvirt]' with pip."
        ) from error
    return libvirt_nodes


def find_own_name() -> str:
    """The name that libvirt gives to this host, and Nova to its provider.

    The host's own name if it is fully qualified, else the one that the
    resolver gives, as libvirt does it (virGetHostname).
    """
    name = socket.gethostname()
    if '.' in name or name.startswith('localhost'):
        return name
    try:
        found = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)
    except OSError:
        return name
    canonical = found[0][3]
    if not canonical or canonical.startswith('localhost'):
        return name
    return canonical
