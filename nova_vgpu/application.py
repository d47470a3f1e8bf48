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

"""The layers put together, for whoever is in front: commands or Nova.

::

    nova.conf -> declaration --+
                               +-> plan -> providers <-> Placement
    sysfs or libvirt -> host --+     +-> problems
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import enum
import logging
import types
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import gpu_store
from nova_vgpu.host import host_name
from nova_vgpu.host import state
from nova_vgpu.host import sysfs
from nova_vgpu.host import type_id_store
from nova_vgpu.host import vgpu_config_xml
from nova_vgpu.plan import misspelt_options

if typing.TYPE_CHECKING:
    from nova_vgpu.conf import sources
    from nova_vgpu.placement import client

LOG = logging.getLogger(__name__)


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


class Mode(enum.Enum):
    """How much of Placement is ours to look after."""

    TRAITS = 'traits'
    FULL = 'full'


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What to bring Placement to: the plan for a host, below a node.

    ``create_root`` and ``force`` are for the mode FULL, see
    :func:`nova_vgpu.publish.full_sync.diff_all`.
    """

    plan: values.Plan
    host: values.Host
    node: str
    mode: Mode = Mode.TRAITS
    create_root: bool = False
    force: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class HandBack:
    """To leave Placement as Nova's own driver wants it, instead of a target.

    See :func:`nova_vgpu.publish.hand_back.diff_hand_back`.
    """

    plan: values.Plan
    guests: tuple[values.Guest, ...]
    node: str


def read_host(source: HostSource) -> values.Host:
    """The host as it is now.

    :raises HostUnreadable: if it cannot be looked at.
    """
    if source.libvirt_uri is None:
        root = source.sysfs_root or sysfs.DEFAULT_ROOT
        host = sysfs.read_host(files.Files(root))
    else:
        host = _read_libvirt(source.libvirt_uri, source.sysfs_root)
    host = complete(source, host)
    LOG.debug(
        '%s: %d GPUs, %d faults', source, len(host.gpus), len(host.faults)
    )
    return host


def complete(source: HostSource, host: values.Host) -> values.Host:
    """The host with the names of types that only a file of its has."""
    if source.is_this_machine:
        return vgpu_config_xml.complete(host, vgpu_config_xml.DEFAULT_PATH)
    return host


def recall_types(source: HostSource, state_dir: str) -> type_id_store.Recalled:
    """What ids of types meant so far, if the host is this machine."""
    if source.is_this_machine:
        return type_id_store.recall(state.StateDirectory(state_dir))
    return type_id_store.Recalled()


def recall_gpus(
    state_dir: str, config_files: Sequence[str], config_dirs: Sequence[str]
) -> frozenset[str]:
    """Addresses of GPUs that were on this host before.

    Those that ``apply`` noted, and those that nova-compute did.

    :raises ConfigFileError: if a configuration file cannot be read at all.
    """
    from nova_vgpu.conf import sources

    novas = sources.load_state_path(config_files, config_dirs)
    places = [
        state_dir,
        *([f'{novas}/{gpu_store.DIRECTORY}'] if novas else ()),
    ]
    seen: set[str] = set()
    for place in places:
        try:
            seen |= gpu_store.read(state.StateDirectory(place))
        except exception.StateUnusable as error:
            LOG.warning('%s', error)
    return frozenset(seen)


def read_guests(source: HostSource) -> tuple[values.Guest, ...]:
    """The guests of the host.

    :raises HostUnreadable: if they cannot be looked at.
    """
    if source.libvirt_uri is None:
        raise exception.HostUnreadable(
            'Only libvirt knows the guests of the host. Say how to reach it: '
            '--libvirt qemu:///system'
        )
    libvirt_nodes = _libvirt_reader()
    from nova_vgpu.host import guests

    with libvirt_nodes.connect(source.libvirt_uri) as connection:
        return guests.read_guests(connection)


def get_node_name(source: HostSource) -> str:
    """What Nova calls the compute node that the source is about."""
    if source.libvirt_uri is None:
        return host_name.get_node_name()
    libvirt_nodes = _libvirt_reader()
    with libvirt_nodes.connect(source.libvirt_uri) as connection:
        name: str = libvirt_nodes.get_host_name(connection)
    return name


def load_declaration(
    config_files: Sequence[str], config_dirs: Sequence[str]
) -> tuple[values.Declaration, tuple[values.Problem, ...]]:
    """What the configuration files declare.

    Without files and directories given, those that nova-compute would read.

    :raises ConfigFileError: if a file cannot be read at all.
    """
    # Not at the top: commands that need no configuration start without it.
    from nova_vgpu.conf import devices
    from nova_vgpu.conf import sources

    paths = sources.list_files(config_files, config_dirs).paths
    LOG.debug('configuration files: %s', paths)
    conf, written = sources.load(config_files, config_dirs)
    declaration, problems = devices.read_declaration(conf, written)
    slips = misspelt_options.find_slips(
        written,
        [option.name for option in devices.device_options()],
        [option.name for option in devices.type_options('')],
    )
    if not declaration.types:
        problems += (_nothing_enabled(paths),)
    return declaration, (*problems, *slips)


def list_config_files(
    config_files: Sequence[str], config_dirs: Sequence[str]
) -> 'sources.ConfigFiles':
    """The files that :func:`load_declaration` reads.

    :raises ConfigFileError: if a directory cannot be read.
    """
    from nova_vgpu.conf import sources

    return sources.list_files(config_files, config_dirs)


def find_lock_directory(
    config_files: Sequence[str], config_dirs: Sequence[str], default: str
) -> str:
    """Where nova-compute has its locks, or the default if nothing tells.

    A missing directory is not used yet: nova-compute creates it when it
    starts.

    :raises ConfigFileError: if a file cannot be read at all.
    """
    from nova_vgpu.conf import sources

    path = sources.load_lock_path(config_files, config_dirs)
    return path if path and files.is_directory(path) else default


def list_unshared(
    config_files: Sequence[str], config_dirs: Sequence[str], own: str
) -> tuple[int, ...]:
    """The processes of nova-compute that have other locks than ``own``.

    :raises ConfigFileError: if a file cannot be read at all.
    """
    from nova_vgpu.conf import sources
    from nova_vgpu.host import locks

    path = sources.load_lock_path(config_files, config_dirs)
    return locks.list_unshared(files.Files('/proc'), path, own)


def connect_to_placement(
    config_files: Sequence[str],
    config_dirs: Sequence[str],
    cloud: str | None = None,
) -> 'client.PlacementClient':
    """A client of the Placement that the configuration or a cloud names.

    :raises ConfigFileError: if a file cannot be read at all.
    :raises PlacementError: if it is not said who we are.
    """
    try:
        from nova_vgpu.placement import authentication
    except ImportError as error:
        raise exception.PlacementError(
            'The client of Placement needs more packages: pip install '
            "'nova-vgpu[placement]'"
        ) from error
    from nova_vgpu.conf import sources

    conf, _ = sources.load(
        config_files, config_dirs, authentication.register_opts
    )
    return authentication.connect(conf, cloud)


def diff_placement(
    placement: 'client.PlacementClient', target: Target | HandBack
) -> values.Difference:
    """Where Placement differs from the target."""
    return _decide(target, _read_tree(placement, target))


def sync_placement(
    placement: 'client.PlacementClient',
    target: Target | HandBack,
    report: Callable[[values.Change], None],
) -> values.Difference:
    """Bring Placement to the target; can be repeated at any time.

    :param report: is told of each change once it is made.
    """
    from nova_vgpu.placement import synchronisation

    return synchronisation.synchronise(
        placement,
        lambda: _read_tree(placement, target),
        lambda tree: _decide(target, tree),
        report,
    )


def _read_tree(
    placement: 'client.PlacementClient', target: Target | HandBack
) -> values.PlacementTree:
    from nova_vgpu.placement import client
    from nova_vgpu.publish import hand_back
    from nova_vgpu.publish import trait_sync

    if isinstance(target, HandBack):
        names = hand_back.list_names_of_interest(target.plan, target.node)
        return placement.read_tree(target.node, consumers_of=names)
    if target.mode is Mode.FULL:
        return placement.read_tree(target.node)
    names = trait_sync.list_names_of_interest(target.plan, target.node)
    return placement.read_tree(target.node, client.Part.TRAITS, names)


def _decide(
    target: Target | HandBack, tree: values.PlacementTree
) -> values.Difference:
    from nova_vgpu.publish import full_sync
    from nova_vgpu.publish import hand_back
    from nova_vgpu.publish import trait_sync

    if isinstance(target, HandBack):
        return hand_back.diff_hand_back(target.plan, target.guests, tree)
    if target.mode is Mode.TRAITS:
        return trait_sync.diff_traits(target.plan, tree)
    return full_sync.diff_all(
        target.plan,
        target.host,
        tree,
        create_root=target.create_root,
        force=target.force,
    )


def _nothing_enabled(paths: Sequence[str]) -> values.Problem:
    if not paths:
        return values.Problem(
            values.Severity.ERROR,
            'no-configuration',
            'nova.conf',
            'No configuration file was found where nova-compute looks for '
            'them, such as /etc/nova/nova.conf and /etc/nova/nova.conf.d.',
            'Write one: "nova-vgpu config generate" prints what to write. If '
            'it is elsewhere, name it with --config-file.',
        )
    return values.Problem(
        values.Severity.WARNING,
        'nothing-enabled',
        '[devices]enabled_vgpu_types',
        f'[devices]enabled_vgpu_types is not set in {", ".join(paths)}: no '
        'GPU serves anything.',
        'Set it to the types that "nova-vgpu type list" shows.',
    )


def _read_libvirt(uri: str, sysfs_root: str | None) -> values.Host:
    libvirt_nodes = _libvirt_reader()
    if sysfs_root is None and libvirt_nodes.is_local(uri):
        sysfs_root = sysfs.DEFAULT_ROOT
    with libvirt_nodes.connect(uri) as connection:
        host: values.Host = libvirt_nodes.read_host(
            connection, files.Files(sysfs_root) if sysfs_root else None
        )
    return host


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
