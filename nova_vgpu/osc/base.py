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

"""What the commands have in common."""

import argparse
from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import shutil
import typing

from cliff import columns
from cliff import command

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.cloud.usage import servers

T = typing.TypeVar('T')
Row = tuple[typing.Any, ...]
Rows = tuple[tuple[str, ...], list[Row]]


@dataclasses.dataclass(frozen=True, slots=True)
class Field(typing.Generic[T]):
    """A column of a list: its title, and how to get the value."""

    title: str
    get: Callable[[T], typing.Any]
    only_long: bool = False


class Command(command.Command):
    """A command that reads the cloud."""

    @property
    def cloud(self) -> reader.Cloud:
        program: typing.Any = self.app
        found: reader.Cloud = program.client_manager.vgpu
        return found

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        # Keep the paragraphs of the description.
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        if parser.get_default('max_width') == 0:
            # The width of the terminal, or COLUMNS, or 80.
            width = shutil.get_terminal_size().columns
            parser.set_defaults(max_width=width)
        return parser


class Words(columns.FormattableColumn[Sequence[str]]):
    """Several words: one per line for people, a list for machines."""

    def human_readable(self) -> str:
        return '\n'.join(self._value)

    def machine_readable(self) -> typing.Any:
        return list(self._value)


class Known(columns.FormattableColumn[typing.Any]):
    """A value, or None if it is unknown."""

    def human_readable(self) -> str:
        return '-' if self._value is None else str(self._value)

    def machine_readable(self) -> typing.Any:
        return self._value


def add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--model',
        metavar='<model>',
        help='Only GPUs of this model, for example A40.',
    )
    parser.add_argument(
        '--host',
        metavar='<host>',
        help='Only GPUs of this compute node, with or without its domain.',
    )
    parser.add_argument(
        '--aggregate',
        metavar='<aggregate>',
        help='Only GPUs of hosts in this aggregate (name, ID or UUID).',
    )
    parser.add_argument(
        '--long', action='store_true', help='List additional columns.'
    )


def filter_gpus(
    command: Command,
    parsed_args: argparse.Namespace,
    gpus: Sequence[fleet.GPU],
) -> tuple[fleet.GPU, ...]:
    """The GPUs that the filters select."""
    tell_if_none(command, bool(gpus))
    members = None
    if parsed_args.aggregate is not None:
        members = command.cloud.list_members(parsed_args.aggregate)
    if not gpus:
        return ()
    return selection.select_gpus(
        gpus, parsed_args.host, parsed_args.model, members
    )


def tell_if_none(command: Command, has_gpus: bool) -> None:
    if not has_gpus:
        print('Placement has no provider of a GPU.', file=command.app.stderr)


def tell_unknown(
    command: Command, unknown: servers.Unknown, more: str
) -> None:
    """Name what a list by flavors cannot have.

    :param more: what else there is to say about these servers.
    """
    if unknown.servers:
        shown = [name or '(none)' for name in unknown.flavors]
        print(
            f'Servers that are not in the list: {unknown.servers}. Their '
            'flavors do not exist any more '
            f'({selection.enumerate_names(shown)}), so it is unknown whether '
            f'they have vGPUs. {more}',
            file=command.app.stderr,
        )


def make_rows(
    fields: Sequence[Field[T]], objects: Sequence[T], is_long: bool
) -> Rows:
    """The rows, with the columns that are shown."""
    shown = [field for field in fields if is_long or not field.only_long]
    return tuple(field.title for field in shown), [
        tuple(field.get(found) for field in shown) for found in objects
    ]
