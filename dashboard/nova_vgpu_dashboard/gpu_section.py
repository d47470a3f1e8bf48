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

"""The part of a GPU's page that the agent of its host knows."""

import dataclasses
import typing

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu_dashboard import agents
from nova_vgpu_dashboard import host_commands
from nova_vgpu_dashboard.content.virtual_functions import rows
from nova_vgpu_dashboard.content.virtual_functions import tables


def describe(gpu: fleet.GPU) -> dict[str, typing.Any]:
    """The context of the template ``agents/_gpu.html``.

    Prometheus is asked once. If it does not answer, the context says so.
    """
    answer = agents.read(gpu.host)
    agent = answer.find(gpu.host)
    seen = agent.find_gpu(gpu.address) if agent is not None else None
    context = {'answer': answer, 'agent': agent, 'seen': seen}
    if agent is None or seen is None:
        return context
    alone = dataclasses.replace(agent, gpus=(seen,))
    return context | {
        'sriov_command': host_commands.for_gpu(seen),
        'functions': [
            (row, tables.find_server_url(row))
            for row in rows.make_rows([alone], [gpu])
            if row.function is not None
        ],
    }
