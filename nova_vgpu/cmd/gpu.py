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

"""``nova-vgpu gpu``: the GPUs of the host."""

import argparse
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import readiness
from nova_vgpu.plan import vf_profiles


class ListGPUs(base.Lister):
    """List the GPUs of this host, ready for vGPUs or not.

    Every display controller, 3D controller and processing accelerator of
    NVIDIA, Intel and AMD is shown, with a driver or without. "Role" is what a
    GPU is for: "vGPU" or "passthrough" according to the configuration,
    "display" if the host's console is on it, or "unused". "State" is why a
    GPU does not serve vGPUs; "gpu show" has the cure.
    """

    table_columns = (
        'GPU',
        'Model',
        'Role',
        'Driver',
        'Framework',
        'VFs',
        'State',
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        host = self.read_host()
        gpus = [gpu for gpu in host.gpus if not gpu.is_other_device]
        if not gpus:
            self.say(base.NO_GPUS)
        plan, found = _read_roles(self, host)
        gpus = [_planned(gpu, plan) for gpu in gpus]
        rows = [
            (
                str(gpu),
                capabilities.model_of(gpu) or '-',
                found.get(gpu.name, '-'),
                gpu.driver or '-',
                gpu.framework.value if gpu.framework else '-',
                _vfs(gpu),
                len(gpu.types),
                len(gpu.all_vgpus),
                obstacle.code if obstacle else 'ready',
            )
            for gpu in gpus
            for obstacle in (_find_obstacle(gpu, plan),)
        ]
        return (
            'GPU',
            'Model',
            'Role',
            'Driver',
            'Framework',
            'VFs',
            'Types',
            'vGPUs',
            'State',
        ), rows


class ShowGPU(base.ShowOne):
    """Show one GPU: its model, its framework, and what is missing."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'gpu', metavar='GPU', help='PCI address, in any spelling.'
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[typing.Any, ...]]:
        host = self.read_host()
        (gpu,) = base.select_gpus(host, parsed_args.gpu)
        vendor = capabilities.vendor_of(gpu)
        plan, found = _read_roles(self, host)
        gpu = _planned(gpu, plan)
        obstacle = _find_obstacle(gpu, plan)
        fields = {
            'gpu': str(gpu),
            'node device': gpu.name,
            'vendor': vendor.name if vendor else '-',
            'model': capabilities.model_of(gpu) or '-',
            'role': found.get(gpu.name, '-'),
            'PCI ids': str(gpu.ids) if gpu.ids else '-',
            'driver': gpu.driver or '-',
            'framework': gpu.framework.value if gpu.framework else '-',
            'VFs': _vfs(gpu),
            'types': len(gpu.types),
            'vGPUs': len(gpu.all_vgpus),
            'state': obstacle.code if obstacle else 'ready',
            'finding': obstacle.finding if obstacle else '-',
            'cure': obstacle.cure if obstacle else '-',
        }
        return tuple(fields), tuple(fields.values())


def _read_roles(
    command: base.Command, host: values.Host
) -> tuple[values.Plan, dict[str, str]]:
    """The plan, and the roles of GPUs; none without a configuration."""
    from nova_vgpu.plan import mapper
    from nova_vgpu.plan import roles

    try:
        configuration = command.load_configuration()
    except exception.ConfigFileError as error:
        command.say(f'warning: The roles of GPUs are unknown. {error}')
        return values.Plan(), {}
    plan = mapper.make_plan(configuration.plan_input(host, values.ModesRead()))
    read = command.source.read_isolation(host)
    declaration = configuration.declaration
    return plan, {
        gpu.name: roles.find_role(gpu, plan, declaration, read.of(gpu)).value
        for gpu in host.gpus
    }


def _planned(gpu: values.PhysicalGPU, plan: values.Plan) -> values.PhysicalGPU:
    """The GPU, with the vGPUs that only the configuration has a name for."""
    if gpu.vf_profiles is None:
        return gpu
    return next((g for g in plan.gpus if g.name == gpu.name), gpu)


def _find_obstacle(
    gpu: values.PhysicalGPU, plan: values.Plan
) -> readiness.Obstacle | None:
    obstacle = readiness.find_obstacle(gpu)
    if obstacle is None or gpu.vf_profiles is None:
        return obstacle
    found = map(vf_profiles.find_obstacle, plan.assignments_of(gpu.name))
    return next((each for each in found if each), obstacle)


def _vfs(gpu: values.PhysicalGPU) -> str:
    return f'{len(gpu.vfs)}/{gpu.sriov.total}' if gpu.sriov else '-'
