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

"""Loads the configuration: nova.conf, and what is stored beside it.

::

    nova.conf ------> declaration --+
                                    +--> configuration
    types.json, gpus.json ----------+
"""

from collections.abc import Sequence
import logging

from oslo_config import cfg

from nova_vgpu import values
from nova_vgpu.conf import devices
from nova_vgpu.conf import live_migration
from nova_vgpu.conf import opts
from nova_vgpu.conf import sources
from nova_vgpu.host import files
from nova_vgpu.host import locks
from nova_vgpu.host import state_files
from nova_vgpu.plan import validation

LOG = logging.getLogger(__name__)


def load(
    config_files: Sequence[str],
    config_dirs: Sequence[str],
    state_dir: str | None = None,
) -> values.Configuration:
    """What the configuration files declare, and what is stored.

    Without files and directories given, those that nova-compute would read.

    :param state_dir: where it is stored; None if the host is not this machine.
    :raises ConfigFileError: if a file cannot be read at all.
    """
    paths = sources.list_files(config_files, config_dirs).paths
    LOG.debug('configuration files: %s', paths)
    conf, written = sources.load(config_files, config_dirs)
    declaration, problems = devices.read_declaration(conf, written)
    if not declaration.types:
        problems += (_nothing_enabled(paths),)
    slips = validation.find_slips(
        written,
        [option.name for option in opts.device_options()],
        [option.name for option in opts.type_options('')],
    )
    loaded = values.Configuration(
        declaration,
        (*problems, *slips),
        migration_settings=live_migration.read_settings(conf),
    )
    if state_dir is None:
        return loaded
    novas = opts.read_novas(conf, cfg.StrOpt('state_path'))
    others = (f'{novas}/{state_files.NOVA_DIRECTORY}',) if novas else ()
    return state_files.recall(loaded, state_dir, others)


def find_lock_directory(
    config_files: Sequence[str], config_dirs: Sequence[str], default: str
) -> str:
    """Where nova-compute has its locks, or the default if nothing tells.

    A missing directory is not used yet: nova-compute creates it when it
    starts.

    :raises ConfigFileError: if a file cannot be read at all.
    """
    path = sources.load_lock_path(config_files, config_dirs)
    return path if path and files.is_directory(path) else default


def list_unshared(
    config_files: Sequence[str], config_dirs: Sequence[str], own: str
) -> tuple[int, ...]:
    """The processes of nova-compute that have other locks than ``own``.

    :raises ConfigFileError: if a file cannot be read at all.
    """
    path = sources.load_lock_path(config_files, config_dirs)
    return locks.list_unshared(files.Files('/proc'), path, own)


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
