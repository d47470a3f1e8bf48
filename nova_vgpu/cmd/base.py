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
from collections.abc import Iterable
from collections.abc import Sequence
import shutil
import typing

from cliff import columns
from cliff import command
from cliff import lister
from cliff import show

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import source as host_source

# Exit codes: the command failed, or found errors.
EXIT_ERRORS = 2
EXIT_INTERRUPTED = 130

NO_GPUS = 'No GPU of a supported vendor was found on this host.'

Rows = tuple[tuple[str, ...], list[tuple[typing.Any, ...]]]


class Command(command.Command):
    """A command that reads the host and perhaps the configuration."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().run(parsed_args)
        except exception.NovaVGPUError as error:
            self.app.LOG.error('%s', error, exc_info=self.options.debug)
            if isinstance(error, exception.InvalidLibvirtGPUConfig):
                self.say_if_fatal(error.problems)
            return EXIT_ERRORS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        # Keep the line breaks of the description: some lines are commands.
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        if parser.get_default('max_width') == 0:
            # The width of the terminal, or COLUMNS, or 80.
            width = shutil.get_terminal_size().columns
            parser.set_defaults(max_width=width)
        return parser

    @property
    def options(self) -> argparse.Namespace:
        """The program's options, given before or after the command."""
        return self.app.options

    @property
    def source(self) -> host_source.HostSource:
        return host_source.HostSource(
            self.options.libvirt, self.options.sysfs_root
        )

    @property
    def state_dir(self) -> str | None:
        """Where things are stored about the host; None if it is elsewhere."""
        is_here = self.source.is_this_machine
        return self.options.state_dir if is_here else None

    def read_host(self) -> values.Host:
        """The host; faults are printed to standard error."""
        host = self.read_host_quietly()
        for fault in host.faults:
            self.say(f'warning: {fault}')
        return host

    def read_host_quietly(self) -> values.Host:
        """The host, for a command that reports faults as problems."""
        program: typing.Any = self.app
        host: values.Host = program.read_host(self.source)
        return host

    #: Whether files are printed even if all of them are defaults.
    says_files = False

    _said: tuple[str, ...] = ()

    def load_configuration(self) -> values.Configuration:
        """What is declared, and what is stored about this machine.

        The files are printed once, if some of them are defaults.

        :raises ConfigFileError: if one of them cannot be read.
        """
        # Not at the top: importing oslo.config is slow.
        from nova_vgpu import configuration
        from nova_vgpu.conf import sources

        where = self.options.config_file, self.options.config_dir
        files = sources.list_files(*where)
        is_mixed = files.defaults and files.defaults != files.paths
        is_worth_saying = is_mixed or (self.says_files and files.defaults)
        if is_worth_saying and files.paths != self._said:
            self.say(f'Configuration: {", ".join(files.paths)}')
            self._said = files.paths
        return configuration.load(*where, self.state_dir)

    def make_plan(self, host: values.Host) -> values.Plan:
        from nova_vgpu.plan import mapper

        return mapper.make_plan(
            self.load_configuration().plan_input(
                host, self.source.read_modes(host)
            )
        )

    def say_if_fatal(self, problems: Iterable[values.Problem]) -> bool:
        """Print the exception with which nova-compute fails to start."""
        if all(p.severity is not values.Severity.FATAL for p in problems):
            return False
        name = exception.InvalidLibvirtGPUConfig.__name__
        self.say(
            f'{name}: nova-compute does not start with this configuration. '
            'Correct every fatal problem.'
        )
        return True

    def say(self, text: str) -> None:
        """Print to standard error; standard output is for data."""
        print(text, file=self.app.stderr)


class Lister(Command, lister.Lister):
    """A command that prints a table."""

    #: The columns of a table on a terminal without -c; formats for machines
    #: have all columns. () is all of them for both.
    table_columns: tuple[str, ...] = ()

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[typing.Any],
    ) -> int:
        _require_columns(parsed_args, column_names)
        if parsed_args.formatter == 'table' and not parsed_args.columns:
            parsed_args.columns = list(self.table_columns)
            column_names, data = self.arrange(column_names, data)
        return super().produce_output(parsed_args, column_names, data)

    def arrange(
        self, column_names: Sequence[str], data: Iterable[typing.Any]
    ) -> tuple[Sequence[str], Iterable[typing.Any]]:
        """The rows as shown in a table on a terminal."""
        return column_names, data


class ShowOne(Command, show.ShowOne):
    """A command that prints one object."""

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: typing.Any,
    ) -> int:
        _require_columns(parsed_args, column_names)
        return super().produce_output(parsed_args, column_names, data)


class Known(columns.FormattableColumn[int | None]):
    """A number, or empty if unknown."""

    def human_readable(self) -> str:
        return '-' if self._value is None else str(self._value)

    def machine_readable(self) -> int | None:
        return self._value


class Words(columns.FormattableColumn[tuple[str, ...]]):
    """Words, or none: one per line for people, a list for machines."""

    def human_readable(self) -> str:
        return '\n'.join(self._value) or '-'

    def machine_readable(self) -> typing.Any:
        return list(self._value)


def _require_columns(
    parsed_args: argparse.Namespace, column_names: Sequence[str]
) -> None:
    """Refuse unknown columns.

    cliff ignores them, or fails with its own exit code if none is left.

    :raises UsageError: with all of them, and the known ones.
    """
    known = {_plain(name) for name in column_names}
    unknown = [n for n in parsed_args.columns if _plain(n) not in known]
    if unknown:
        raise exception.UsageError(
            f'No such column: {", ".join(map(repr, unknown))}. Columns: '
            f'{", ".join(column_names)}.'
        )


def _plain(column: str) -> str:
    """A column's name as cliff compares it."""
    return column.lower().strip().replace(' ', '_')


def add_gpu_filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--gpu',
        metavar='ADDRESS',
        help='Only this GPU, by its PCI address in any spelling.',
    )


def select_gpus(
    host: values.Host, wanted: str | None
) -> Iterable[values.PhysicalGPU]:
    """All GPUs, or the requested one.

    :raises NoSuchDevice: if the host does not have it.
    """
    if wanted is None:
        return host.gpus
    for gpu in host.gpus:
        if gpu.name == wanted:
            return [gpu]
    try:
        address = values.PciAddress.parse(wanted)
    except values.MalformedAddress as error:
        raise exception.NoSuchDevice(
            f'{error}. GPUs: {_list_names(host)}.'
        ) from error
    for gpu in host.gpus:
        if gpu.address == address:
            return [gpu]
        if any(vf.address == address for vf in gpu.vfs):
            raise exception.NoSuchDevice(
                f'{address} is a virtual function of GPU {gpu}: give the GPU.'
            )
    if any(f.device == address.node_device_name for f in host.faults):
        finding = 'could not be read'
    elif address in host.other_functions:
        finding = 'is not a GPU'
    else:
        finding = 'is not on this host'
    raise exception.NoSuchDevice(
        f'{address} {finding}. GPUs: {_list_names(host)}.'
    )


def _list_names(host: values.Host) -> str:
    return ', '.join(str(gpu) for gpu in host.gpus) or 'none'
