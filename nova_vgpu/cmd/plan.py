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

"""``nova-vgpu plan``: the effect of the configuration on this host."""

import argparse
import typing

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.knowledge import capabilities
from nova_vgpu.publish import providers


class ShowPlan(base.Lister):
    """Show which GPU serves which type, why, and its provider.

    Every GPU of the host has a row. "Total" is how many vGPUs the GPU can
    serve; -c "Bound by" shows what limits it. A GPU with a dash for its
    provider has no inventory; the reason is in "Why" or among the problems,
    which go to standard error. The formats for machines have all columns,
    including the provider's traits:

      nova-vgpu plan --gpu 0000:84:00.0 -f yaml
    """

    table_columns = ('GPU', 'Type', 'Why', 'Total', 'Provider')

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_gpu_filter(parser)
        parser.add_argument(
            '--node',
            metavar='NAME',
            help="The compute node's provider in Placement. Default: this "
            "host's name in libvirt.",
        )
        return parser

    _problems: tuple[values.Problem, ...] = ()

    def run(self, parsed_args: argparse.Namespace) -> int:
        result = super().run(parsed_args)
        for problem in self._problems:
            self.say(f'{problem.severity.value}: {problem}')
        return (
            base.EXIT_ERRORS if self.say_if_fatal(self._problems) else result
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        host = self.read_host_quietly()
        plan = self.make_plan(host)
        node = parsed_args.node or self.source.get_node_name()
        selected = tuple(base.select_gpus(host, parsed_args.gpu))
        shown = {gpu.name for gpu in selected}
        others = {str(gpu) for gpu in host.gpus} - {str(g) for g in selected}
        self._problems = tuple(
            problem
            for problem in plan.problems
            if problem.subject not in others
            or problem.severity is values.Severity.FATAL
        )
        rows = [
            _assigned_row(assigned, node)
            for assigned in plan.assignments
            if assigned.gpu.name in shown
        ]
        rows += [
            _left_alone_row(left)
            for left in plan.left_alone
            if left.gpu.name in shown
        ]
        return (
            'GPU',
            'Type',
            'Why',
            'Section',
            'Class',
            'Total',
            'Bound by',
            'Provider',
            'Type ID',
            'Traits',
        ), sorted(rows, key=lambda row: str(row[0]))


def _assigned_row(
    assigned: values.Assignment, node: str
) -> tuple[typing.Any, ...]:
    vgpu_type, declared = assigned.type, assigned.declared
    called = capabilities.short_name(vgpu_type) if vgpu_type else declared.name
    type_id = vgpu_type.id if vgpu_type else '-'
    head = (
        str(assigned.gpu),
        called,
        assigned.reason.value,
        f'[{declared.group}]'
        if assigned.reason is values.Reason.LISTED
        else '-',
        declared.resource_class,
    )
    provider = providers.make_provider(assigned, node)
    if provider is None or assigned.capacity is None:
        return (*head, 0, '-', '-', type_id, base.Words(()))
    return (
        *head,
        provider.total,
        assigned.capacity.bound,
        provider.name,
        type_id,
        base.Words(provider.traits),
    )


def _left_alone_row(left: values.LeftAlone) -> tuple[typing.Any, ...]:
    why = f'left alone: {left.why}'
    gap = ('-', '-', 0, '-', '-', '-')
    return (str(left.gpu), '-', why, *gap, base.Words(()))
