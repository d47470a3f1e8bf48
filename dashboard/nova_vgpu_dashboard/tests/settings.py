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

"""Settings of Horizon's own tests, with the panels of this package."""

from openstack_dashboard import enabled as horizon_enabled

# All of them, as Horizon's documentation of plugins does it.
from openstack_dashboard.test.settings import *  # noqa: F403, H303
from openstack_dashboard.test.settings import HORIZON_CONFIG
from openstack_dashboard.test.settings import INSTALLED_APPS
from openstack_dashboard.utils import settings as settings_utils

from nova_vgpu_dashboard import enabled

# Horizon puts these in again, in their order with the others.
for _name in ('dashboards', 'default_dashboard'):
    HORIZON_CONFIG.pop(_name, None)
INSTALLED_APPS = [
    app
    for app in INSTALLED_APPS
    if not app.startswith('openstack_dashboard.dashboards')
]
settings_utils.update_dashboards(
    [horizon_enabled, enabled], HORIZON_CONFIG, INSTALLED_APPS
)

# Most of the time of a page would be for scripts and styles, unread here.
COMPRESS_ENABLED = False
COMPRESS_PRECOMPILERS = ()
