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

"""``nova-vgpu provider``: compare Placement with the plan, and change it."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.cmd import provider_text
from nova_vgpu.placement import synchronisation
from nova_vgpu.plan import mapper
from nova_vgpu.publish import providers

if typing.TYPE_CHECKING:
    from nova_vgpu.placement import client

EXIT_DIFFERS = 1
_MODES = (providers.Mode.TRAITS, providers.Mode.FULL)


class ShowProviders(base.Lister):
    """Show the resource providers of a compute node in Placement.

    The tree with inventories, usage and traits. A table on a terminal shows
    GPUs without the node's name, only traits of GPUs and of the operator, and
    the number of traits of large families; the formats for machines have
    everything.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_node(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        node = node_of(self, parsed_args)
        tree = connect(self).read_tree(node)
        if tree.root is None:
            raise exception.PlacementError(
                f'Placement has no provider {node}. If the node has another '
                'name in Nova, give it with --node.'
            )
        depths: dict[str | None, int] = {None: -1}
        rows: list[tuple[typing.Any, ...]] = []
        for held in tree.providers:
            depths[held.uuid] = depths[held.parent] + 1
            rows.append(
                (
                    provider_text.Name((held.name, node, depths[held.uuid])),
                    provider_text.Inventories(held),
                    provider_text.Traits(tuple(sorted(held.traits))),
                    held.uuid,
                    held.parent,
                    held.generation,
                )
            )
        return (
            'Provider',
            'Inventory',
            'Traits',
            'UUID',
            'Parent UUID',
            'Generation',
        ), rows

    def arrange(
        self, column_names: Sequence[str], data: Iterable[typing.Any]
    ) -> tuple[Sequence[str], Iterable[typing.Any]]:
        # Side by side they would be too wide for a terminal.
        return ('Provider', 'Inventory and traits'), [
            (name, provider_text.Several((inventories, traits)))
            for name, inventories, traits, *_ in data
        ]


class DiffProviders(base.Lister):
    """Compare Placement with the plan, and change nothing.

    Every change that "provider sync" would make has a row. Differences that it
    cannot or must not change go to standard error. Traits are compared; with
    "--mode full" also inventories, even in a tree that Nova manages. Exit
    code: 0 no difference, 1 differences, 2 the comparison failed.
    """

    _difference = values.Difference()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_node(parser)
        _add_target(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        result = super().run(parsed_args)
        if result or self._difference.refused:
            return result or base.EXIT_ERRORS
        found = self._difference.changes or self._difference.problems
        return EXIT_DIFFERS if found else 0

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        # It changes nothing, so it does not matter who manages the tree.
        target = dataclasses.replace(_target(self, parsed_args), force=True)
        self._difference = synchronisation.diff(connect(self), target)
        say_problems(self, self._difference.problems)
        if not self._difference.changes and not self._difference.problems:
            what = (
                'Placement agrees'
                if target.mode is providers.Mode.FULL
                else 'The traits in Placement agree'
            )
            self.say(f'{what} with the plan.')
        return ('Change', 'Provider', 'Details'), [
            provider_text.make_row(change, target.node)
            for change in self._difference.changes
        ]


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


class SyncProviders(ChangePlacement):
    """Bring Placement to the plan.

    By default ("--mode traits") the providers that nova-compute created for
    the GPUs of this host, or for their virtual functions, get the traits of
    the types that the GPUs serve. Traits of other owners stay, and nothing
    else is changed.

    With "--mode full" each GPU that serves gets a provider with its inventory.
    That is for trees that no nova-compute manages. The provider of a GPU that
    no longer serves is deleted; while servers use its vGPUs, its
    free inventory is reserved instead.

    Each change is printed when it is made. If there is nothing to change,
    nothing is written.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_target(parser)
        return parser

    def make_target(self, parsed_args: argparse.Namespace) -> providers.Target:
        return _target(self, parsed_args)


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--mode',
        choices=[mode.value for mode in _MODES],
        default=providers.Mode.TRAITS.value,
        help="traits: set the traits of Nova's providers. full: also create "
        'providers and inventories. Default: traits.',
    )
    parser.add_argument(
        '--create-root',
        action='store_true',
        help="With --mode full, create the node's provider if it is missing. "
        'A nova-compute that starts there later would fail.',
    )
    parser.add_argument(
        '--force',
        action='store_true',
        help='With --mode full, continue although Nova manages the tree.',
    )


def _target(
    command: base.Command, parsed_args: argparse.Namespace
) -> providers.Target:
    """The target of the options.

    :raises UsageError: if the options contradict each other.
    :raises InvalidLibvirtGPUConfig: if the plan is invalid.
    """
    mode = providers.Mode(parsed_args.mode)
    _require_full(mode, parsed_args)
    return providers.Target(
        read_plan(command),
        node_of(command, parsed_args),
        mode,
        create_root=parsed_args.create_root,
        force=parsed_args.force,
    )


def _require_full(
    mode: providers.Mode, parsed_args: argparse.Namespace
) -> None:
    """Refuse options that have no effect without ``--mode full``.

    :raises UsageError: with all of them.
    """
    given = [
        option
        for option, is_given in (
            ('--create-root', parsed_args.create_root),
            ('--force', parsed_args.force),
        )
        if is_given
    ]
    if given and mode is not providers.Mode.FULL:
        only = 'is' if len(given) == 1 else 'are'
        raise exception.UsageError(
            f'{" and ".join(given)} {only} for --mode full only, and the mode '
            f'is {mode.value}. Use --mode full, or leave out '
            f'{" and ".join(given)}.'
        )


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
