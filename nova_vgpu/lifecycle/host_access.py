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


"""All that the life cycle touches: the machine, and its own files."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import time
import typing
import uuid

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import gpu_modes
from nova_vgpu.host import guest_drivers
from nova_vgpu.host import state
from nova_vgpu.host import state_files
from nova_vgpu.host import sysfs
from nova_vgpu.host import tools
from nova_vgpu.host import vgpu_migration
from nova_vgpu.host import virtual_functions
from nova_vgpu.plan import address_matching
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import vgpu_facts

Warn = Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class HostAccess:
    """The edges, each of which can be simulated.

    ``connect`` gives a connection to libvirt that may change things,
    ``locks`` is where nova-compute has its locks, ``list_unshared`` lists its
    processes that have them elsewhere, ``complete`` adds the names of types
    that the host does not tell itself, ``read_modes`` asks for the modes of
    its GPUs, ``read_guest_drivers`` for what its guests have,
    ``read_software`` for versions, ``read_migration`` for what NVML tells of
    live migration.
    """

    tree: files.Files
    connect: Callable[[], contextlib.AbstractContextManager[typing.Any]]
    state: state.StateDirectory
    locks: str
    run: tools.Run = tools.run
    sriov_manage: str = virtual_functions.DEFAULT_TOOL
    nvidia_smi: str = gpu_modes.DEFAULT_TOOL
    timeout: float = 120.0
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())
    complete: Callable[[values.Host], values.Host] = lambda host: host
    list_unshared: Callable[[], tuple[int, ...]] = tuple
    read_modes: Callable[[values.Host], values.ModesRead] = (
        gpu_modes.read_modes
    )
    read_guest_drivers: Callable[
        [values.Host], tuple[values.GuestDriver, ...]
    ] = guest_drivers.read_guest_drivers
    read_software: Callable[[], values.HostSoftware] = values.HostSoftware
    read_migration: Callable[
        [values.Host], tuple[values.GPUMigration, ...]
    ] = vgpu_migration.read_migration

    def read_host(self) -> values.Host:
        """The host as it is now, with the names of types.

        :raises HostUnreadable: if it cannot be read.
        """
        return self.complete(sysfs.read_host(self.tree))


@dataclasses.dataclass(frozen=True, slots=True)
class HostState:
    """The host as it is now, and who has what of it."""

    host: values.Host
    usage: values.Usage


def read_state(
    access: HostAccess,
    connection: typing.Any,
    warn: Warn,
    unfinished: frozenset[str] = frozenset(),
    may_put_aside: bool = True,
) -> HostState:
    """Read everything once.

    :param unfinished: mdevs that a run which was cut off had removed, or was
        about to start, beside those that are remembered.
    :param may_put_aside: whether files of ours that make no sense may be
        renamed.

    :raises HostUnreadable: if it cannot be read.
    """
    host = access.read_host()
    usage = read_usage(access, connection, warn, may_put_aside)
    unfinished |= usage.records.unfinished
    return HostState(host, dataclasses.replace(usage, unfinished=unfinished))


def read_usage(
    access: HostAccess,
    connection: typing.Any,
    warn: Warn,
    may_put_aside: bool = True,
) -> values.Usage:
    """Who has what of the host, or is to have it again.

    A file of ours that makes no sense is put aside.

    :raises HostUnreadable: if it cannot be read.
    """
    # Not at the top: not every installation has libvirt.
    from nova_vgpu.host import guests
    from nova_vgpu.host import mdevs

    found = guests.read_guests(connection)
    known = mdevs.list_mdevs(connection)
    try:
        records = state_files.read_vgpus(access.state)
    except exception.StateDamaged as error:
        records = values.VGPURecords()
        if may_put_aside:
            aside = access.state.set_aside(state_files.VGPUS_FILE, '.corrupt')
            warn(f'{error} It is {aside} now, and not used any more.')
        else:
            warn(f'{error} It is not used.')
    return values.Usage(found, known, records)


def read_node_name(connection: typing.Any) -> str:
    """What Nova calls the compute node.

    :raises HostUnreadable: if libvirt stops answering.
    """
    # Not at the top: not every installation has libvirt.
    from nova_vgpu.host import libvirt_nodes

    return libvirt_nodes.get_host_name(connection)


def read_software(
    access: HostAccess, connection: typing.Any
) -> values.HostSoftware:
    """The versions of what runs guests, as files and libvirt tell."""
    # Not at the top: not every installation has libvirt.
    from nova_vgpu.host import libvirt_nodes

    libvirt, qemu = libvirt_nodes.read_versions(connection)
    return dataclasses.replace(
        access.read_software(), libvirt=libvirt, qemu=qemu
    )


def remember(
    access: HostAccess,
    host: values.Host,
    usage: values.Usage,
    functions: Mapping[str, str] | None = None,
    undone: frozenset[str] | None = None,
) -> None:
    """Keep the names of the types of what is there, while they are known.

    An mdev that is of another type only because its id means something else
    by now is recorded with the type that it should have.

    :param functions: those that are to be vGPUs after every reboot; as
        remembered, unless it is said.
    :param undone: mdevs that are still to be made again; the same holds.
    """
    names = type_matching.list_type_names(host)
    wanted = {mdev.uuid for mdev in usage.mdevs}
    wanted.update(
        usage.owners,
        usage.unfinished if undone is None else undone,
    )
    known = {
        uuid: mdev
        for uuid, mdev in usage.records.mdevs.items()
        if uuid in wanted
    }
    known.update(
        (
            vgpu.uuid,
            values.MdevRecord(
                vgpu.function,
                vgpu_facts.find_wanted_type(vgpu, usage, names)
                or names[vgpu.type_id],
                vgpu.type_id,
            ),
        )
        for gpu in host.gpus
        for vgpu in gpu.all_vgpus
        if vgpu.uuid is not None and vgpu.type_id in names
    )
    there = {v.uuid for gpu in host.gpus for v in gpu.all_vgpus}
    if undone is None:
        undone = usage.records.unfinished
    undone &= known.keys() - there
    if functions is None:
        functions = usage.records.functions
    state_files.write_vgpus(
        access.state, values.VGPURecords(known, functions, undone)
    )


def remember_declared(
    access: HostAccess,
    configuration: values.Configuration,
    host: values.Host,
    warn: Warn,
) -> None:
    """Keep what ids of types mean, and which declared GPUs are here.

    For when the driver is another one, or when one of the GPUs fails.

    :raises StateUnusable: if it cannot be written.
    """
    types = state_files.update_types(access.state, configuration.type_names)
    if types.lost is not None and types.may_write:
        warn(types.lost)  # and where the damaged file is now
    try:
        before = state_files.read_gpus(access.state)
    except exception.StateDamaged:
        before = frozenset()  # a problem of the configuration says so
    now = address_matching.list_seen(
        configuration.seen | before, configuration.declaration.types, host
    )
    if now != before:
        state_files.write_gpus(access.state, now)


@contextlib.contextmanager
def open_libvirt(uri: str, may_change: bool = True) -> Iterator[typing.Any]:
    """A connection that may change things, unless said otherwise.

    :raises HostUnreadable: if there is none to be had.
    """
    try:
        from nova_vgpu.host import libvirt_nodes
    except ImportError as error:
        raise exception.HostUnreadable(
            'The Python binding of libvirt is not installed: install '
            "python3-libvirt, or 'nova-vgpu[libvirt]' with pip."
        ) from error
    with libvirt_nodes.connect(uri, may_change) as connection:
        yield connection
