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

"""Nova's options about live migrations, as nova-compute reads them."""

from oslo_config import cfg

from nova_vgpu import values
from nova_vgpu.conf import opts

_GROUP = 'libvirt'


def read_settings(conf: cfg.ConfigOpts) -> values.MigrationSettings:
    """The values, with Nova's defaults; the files must be parsed."""

    def read(name: str, default: int) -> int:
        option = cfg.IntOpt(f'live_migration_{name}', default=default)
        return int(opts.read_novas(conf, option, _GROUP))

    post_copy = cfg.BoolOpt('live_migration_permit_post_copy', default=False)
    return values.MigrationSettings(
        post_copy=bool(opts.read_novas(conf, post_copy, _GROUP)),
        downtime=read('downtime', 500),
        downtime_steps=read('downtime_steps', 10),
        downtime_delay=read('downtime_delay', 75),
        bandwidth=read('bandwidth', 0),
    )
