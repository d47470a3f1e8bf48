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


"""What the agents of the hosts tell, as Horizon's settings find them.

``NOVA_VGPU_PROMETHEUS`` says where Prometheus is; without it nothing is asked.
"""

from django.conf import settings as django_settings

from nova_vgpu import exception
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.hosts import prometheus

SETTING = 'NOVA_VGPU_PROMETHEUS'


def read(host: str | None = None) -> host_agents.Answer:
    """Ask for all hosts, or for one; a setting that is wrong is a failure."""
    given = getattr(django_settings, SETTING, None)
    try:
        settings = prometheus.parse_settings(given, SETTING)
    except exception.CloudError as error:
        return host_agents.Answer(failure=str(error))
    return host_agents.read(settings, host)
