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

"""What the agents of the hosts tell, as the settings of a cloud find them.

``nova_vgpu_prometheus`` of the cloud in ``clouds.yaml`` says where Prometheus
is; ``OS_NOVA_VGPU_PROMETHEUS`` has its URL for those without such a file.
Without both, nothing is asked.
"""

import typing

from nova_vgpu import exception
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.hosts import migration_facts
from nova_vgpu.cloud.hosts import prometheus

_SETTING = 'nova_vgpu_prometheus'


def _read_settings(program: typing.Any) -> prometheus.Settings | None:
    """Where Prometheus is; None if nothing says so.

    :raises CloudError: if the setting cannot be used.
    """
    config = program.client_manager.sdk_connection.config.config
    given = config.get(_SETTING)
    if isinstance(given, str):
        given = {'url': given}
    return prometheus.parse_settings(given, _SETTING)


def read_migration(program: typing.Any, server: str) -> migration_facts.Answer:
    """What decides on a live migration of a server, of all hosts.

    What fails is said on standard error.
    """
    try:
        answer = migration_facts.read(_read_settings(program), server)
    except exception.CloudError as error:
        answer = migration_facts.Answer(failure=str(error))
    if answer.failure is not None:
        print(
            'Versions, ECC modes and options of hosts are unknown. '
            + answer.failure,
            file=program.stderr,
        )
    return answer


def read_guests(program: typing.Any) -> host_agents.Answer:
    """The guests of all hosts; what fails is said on standard error."""
    try:
        answer = host_agents.read_guests(_read_settings(program))
    except exception.CloudError as error:
        answer = host_agents.Answer(failure=str(error))
    if answer.failure is not None:
        print(
            'Drivers and licences of guests are unknown. ' + answer.failure,
            file=program.stderr,
        )
    return answer
