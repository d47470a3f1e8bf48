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


"""What is common to all steps: their way back, and their words."""

import dataclasses
import typing

from nova_vgpu import values


def undo(planned: values.GPUSteps) -> values.GPUSteps:
    """The way back: every step the other way round, the last one first."""
    return values.GPUSteps(
        planned.gpu,
        tuple(
            _turn(step)
            for step in reversed(planned.steps)
            if not isinstance(step, values.RepairDriver | values.AwaitTypes)
        ),
    )


def _turn(step: typing.Any) -> values.Step:
    turned: values.Step = dataclasses.replace(
        step, before=step.after, after=step.before
    )
    return turned


def label(vgpu_type: values.VGPUType) -> str:
    """What a type is called in a step: by its name, if it has one."""
    return vgpu_type.name or vgpu_type.id


def spell(name: str) -> str:
    """How a vGPU is named to an operator: its UUID, or its VF's address."""
    address = values.PciAddress.parse_node_device_name(name)
    return str(address or name)


def refuse(
    gpu: str,
    what: str,
    owner: values.Guest,
    because: str = '',
    cure: str = 'Delete, resize or move that server',
) -> values.Refusal:
    """That something stays, because a guest has it."""
    state = 'runs' if owner.running else 'is shut off'
    return values.Refusal(
        gpu,
        f'GPU {gpu}: {what} is not touched: server {owner.uuid} '
        f'({owner.name}, which {state}) has it{because}.',
        f'{cure}, then run it again.',
    )
