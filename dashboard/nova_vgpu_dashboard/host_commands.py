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

"""The command that changes a function on its host, and why it is refused.

Pages change nothing on hosts. They name the command, and the reasons for which
it would be refused, as far as the agent of the host tells them. The command
itself decides again, from the host as it is then.
"""

from collections.abc import Collection
import dataclasses
import shlex
import typing

from django.utils.translation import gettext_lazy as _

from nova_vgpu.cloud.hosts import host_agents

#: States of functions in the metrics of the agent.
FREE = 'free'
FULL = 'full'


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A command for the host; ``refusal`` is empty if it would be run."""

    text: str
    refusal: typing.Any = ''


def for_gpu(gpu: host_agents.GPU) -> Command | None:
    """Enable the virtual functions of a GPU, or disable them."""
    if not gpu.possible:
        return None
    if not gpu.enabled:
        return _write('sriov', 'enable', gpu.address)
    disable = _write('sriov', 'disable', gpu.address)
    servers = {f.server for f in gpu.functions if f.server}
    if servers:
        return dataclasses.replace(
            disable,
            refusal=_('Servers use its functions: %(count)d.')
            % {'count': len(servers)},
        )
    if any(found.vgpu for found in gpu.functions):
        return dataclasses.replace(
            disable,
            refusal=_(
                'It has vGPUs. "nova-vgpu device disable" removes them.'
            ),
        )
    return disable


def for_function(
    gpu: host_agents.GPU,
    found: host_agents.Function,
    served: Collection[str] = (),
) -> Command | None:
    """Create a vGPU on a function, or remove the one that is there.

    :param served: the types that the GPU is to serve, if that is known.
    """
    if found.vgpu:
        disable = _write('device', 'disable', found.vgpu)
        if not found.server:
            return disable
        return dataclasses.replace(
            disable,
            refusal=_(
                'Server %(server)s has it. Delete, resize or move that server.'
            )
            % {'server': found.server},
        )
    available = gpu.available_types
    types = [name for name in available if name in served] or available
    wanted = types[0] if len(types) == 1 else 'TYPE'
    enable = _write('device', 'enable', found.address, '--type', wanted)
    refusal = _find_refusal(gpu, found)
    return dataclasses.replace(enable, refusal=refusal)


def _find_refusal(
    gpu: host_agents.GPU, found: host_agents.Function
) -> typing.Any:
    if found.server:
        return _('Server %(server)s has it.') % {'server': found.server}
    if found.state == FREE and gpu.available_types:
        return ''
    if found.state in (FREE, FULL):
        return _('The vGPUs that are there leave no room.')
    return _('It shows no vGPU types.')


def _write(*words: str) -> Command:
    return Command(shlex.join(('nova-vgpu', *words)))
