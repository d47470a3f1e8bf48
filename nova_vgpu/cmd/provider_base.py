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

"""The common part of the provider commands."""

import argparse
from collections.abc import Iterable
import typing

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.cmd import provider_text
from nova_vgpu.placement import synchronisation
from nova_vgpu.plan import mapper
from nova_vgpu.publish import providers

if typing.TYPE_CHECKING:
    from nova_vgpu.placement import client


class ChangePlacement(base.Command):
    """A command that changes Placement, and prints each change it makes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_node(parser)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Print the changes without making them.',
        )
        return parser

    def make_target(self, parsed_args: argparse.Namespace) -> providers.Target:
        """The target state of Placement."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        target = self.make_target(parsed_args)
        placement = connect(self)
        count = 0

        def report(change: values.Change) -> None:
            nonlocal count
            count += 1
            for line in provider_text.list_lines(change):
                print(line, file=self.app.stdout, flush=True)

        if parsed_args.dry_run:
            found = synchronisation.diff(placement, target)
            for change in found.changes:
                report(change)
        else:
            try:
                found = synchronisation.sync(placement, target, report)
            except KeyboardInterrupt:
                self.say(
                    f'Interrupted. Changes made: {count}. Run it again to go '
                    'on.'
                )
                return base.EXIT_INTERRUPTED
        say_problems(self, found.problems)
        if found.refused:
            self.say('Nothing was changed.')
            return base.EXIT_ERRORS
        made = 'to make' if parsed_args.dry_run else 'made'
        self.say(f'Changes {made}: {count}.')
        return 0


def add_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--node',
        metavar='NAME',
        help="The compute node's provider in Placement. Default: this host's "
        'name in libvirt.',
    )


def node_of(command: base.Command, parsed_args: argparse.Namespace) -> str:
    return parsed_args.node or command.source.get_node_name()


def read_plan(command: base.Command) -> values.Plan:
    """The plan for the host; its problems are printed.

    :raises InvalidLibvirtGPUConfig: if the plan is invalid.
    """
    plan = command.make_plan(command.read_host())
    mapper.require_valid(plan)
    say_problems(command, plan.problems)
    return plan


def connect(command: base.Command) -> 'client.PlacementClient':
    options = command.options
    return synchronisation.connect(
        options.config_file, options.config_dir, options.os_cloud
    )


def say_problems(
    command: base.Command, problems: Iterable[values.Problem]
) -> None:
    for problem in problems:
        command.say(f'{problem.severity.value}: {problem}')
