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

"""Nova's options for live migration.

Only commands read them, with their own configuration object: on that of a
running nova-compute Nova registers them.
"""

from collections.abc import Sequence

from oslo_config import cfg

from nova_vgpu import values
from nova_vgpu.conf import sources

GROUP = 'libvirt'
POST_COPY = 'live_migration_permit_post_copy'

_WRITTEN = (GROUP, POST_COPY)


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opt(cfg.BoolOpt(POST_COPY, default=False), GROUP)


def find_post_copy(
    config_files: Sequence[str], config_dirs: Sequence[str]
) -> values.Evidence | None:
    """Where post-copy migration is permitted; None if it is not.

    An invalid value counts as Nova's default: Nova itself reports it.

    :raises ConfigFileError: if a file cannot be read.
    """
    conf, written = sources.load(config_files, config_dirs, register_opts)
    try:
        is_on = conf[GROUP][POST_COPY]
    except (cfg.Error, ValueError):
        return None
    if not is_on:
        return None
    option = f'[{GROUP}]{POST_COPY}'
    files = [w.file for w in written if (w.section, w.name) == _WRITTEN]
    return values.Evidence(files[-1] if files else option, f'{option} = true')
