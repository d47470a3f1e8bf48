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


"""What the commands that change the host have in common."""

import argparse
import collections
from collections.abc import Iterable
from collections.abc import Sequence
import typing

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.host import virtual_functions
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import step_runner

EXIT_REFUSED = 3

_TIMEOUT = 120.0
_LONG = (
    values.SetVFs,
    values.SetMigMode,
    values.AwaitTypes,
    values.RepairDriver,
)


class HostCommand(base.Command):
    """A command that changes the host, or may do so."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--timeout',
            metavar='SECONDS',
            type=parse_seconds,
            default=_TIMEOUT,
            help='Timeout for programs, locks, and for functions and types to '
            'appear. Default: 120.',
        )
        parser.add_argument(
            '--sriov-manage',
            metavar='PATH',
            default=virtual_functions.DEFAULT_TOOL,
            help="NVIDIA's program that enables virtual functions. If it is "
            'missing, sysfs is used. Default: '
            f'{virtual_functions.DEFAULT_TOOL}.',
        )
        return parser

    @property
    def state_dir(self) -> str:
        """What is stored is about the host that is changed, anywhere."""
        directory: str = self.options.state_dir
        return directory

    def make_access(
        self, parsed_args: argparse.Namespace, may_change: bool = True
    ) -> host_access.HostAccess:
        program: typing.Any = self.app
        access: host_access.HostAccess = program.make_host_access(
            parsed_args.timeout, parsed_args.sriov_manage, may_change
        )
        return access


class Changer(HostCommand, base.Lister):
    """A command that changes the host, and lists what it did."""

    table_columns: tuple[str, ...] = ('GPU', 'Step', 'Outcome')

    #: What to do after an interrupted run.
    way_on = 'Run it again to continue.'

    #: Whether the table has more than the lines that were printed.
    prints_table = False

    _outcome: step_runner.Outcome | None = None
    _is_dry_run = False

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        self._finished = collections.Counter[str]()
        self._begun: list[values.Step] = []

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[typing.Any],
    ) -> int:
        """No table of steps that were already printed one by one."""
        is_told = self._outcome is not None and not self.prints_table
        if parsed_args.formatter == 'table' and is_told:
            return 0
        return super().produce_output(parsed_args, column_names, data)

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            result = super().run(parsed_args)
        except KeyboardInterrupt:
            self._say_cut_off('Interrupted. ')
            return base.EXIT_INTERRUPTED
        outcome = self._outcome
        if outcome is None:
            if self._begun or self._finished:
                self._say_cut_off('')
            return result
        for problem in outcome.problems:
            self.say(f'error: {problem}')
        for refusal in outcome.refusals:
            self.say(f'refused: {refusal}')
        for failure in outcome.failures:
            self.say(f'failed: {failure}')
        if not self._is_dry_run:
            self.say(
                f'{len(outcome.done)} done, {len(outcome.refusals)} refused, '
                f'{len(outcome.failures)} failed.'
                if outcome.done or outcome.refusals or outcome.failures
                else 'Nothing to do.'
            )
        if outcome.failures or outcome.problems:
            return base.EXIT_ERRORS
        return EXIT_REFUSED if outcome.refusals else result

    def _say_cut_off(self, why: str) -> None:
        """Report an interrupted run."""
        if not self._begun and not self._finished:
            self.say(f'{why}Nothing was done.')
            return
        counts = ', '.join(
            f'{self._finished[event]} {event}'
            for event in ('done', 'refused', 'failed')
        )
        self.say(f'{why}{counts} before that.')
        for step in self._begun:
            self.say(f'Started and perhaps incomplete: {step}.')
        self.say(self.way_on)

    def rows_of(
        self, outcome: step_runner.Outcome, planned: Iterable[values.Step] = ()
    ) -> base.Rows:
        """The steps that were done or are planned, and the others."""
        self._outcome = outcome
        failed = [failure.step for failure in outcome.failures]
        rows: list[tuple[typing.Any, ...]] = [
            (step.gpu, str(step), event, type(step).__name__)
            for steps, event in (
                (planned, 'planned'),
                (outcome.done, 'done'),
                (failed, 'failed'),
            )
            for step in steps
        ]
        rows += [(r.gpu, r.message, 'refused', '-') for r in outcome.refusals]
        rows += [
            (p.subject, p.message, 'error', '-') for p in outcome.problems
        ]
        return ('GPU', 'Step', 'Outcome', 'Kind'), rows

    # -- what step_runner.Reporter asks for ---------------------------------

    def warn(self, text: str) -> None:
        self.say(f'warning: {text}')

    def begin(self, step: values.Step) -> None:
        """Print a step that takes long before it is done."""
        self._begun.append(step)
        if isinstance(step, _LONG):
            self.say(f'{step} ...')

    def finish(self, step: values.Step, event: str) -> None:
        self._begun.remove(step)
        self._finished[event] += 1
        self.say(f'{event}: {step}')


def parse_seconds(text: str) -> float:
    """Parse a number of seconds."""
    try:
        seconds = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number'
        ) from error
    if not 0 < seconds < 86400:
        raise argparse.ArgumentTypeError(f'{text} is not between 0 and 86400')
    return seconds
