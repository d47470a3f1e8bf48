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

"""``openstack vgpu migration``: whether servers can be moved."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
import typing

from cliff import columns
from cliff import lister

from nova_vgpu import values
from nova_vgpu.cloud.moves import migration_check
from nova_vgpu.migration import checks
from nova_vgpu.osc import agents
from nova_vgpu.osc import base

_TITLES = ('Host', 'Possible', 'Downtime', 'State Bytes', 'Reasons')
_EXIT_NO = 1
_Reasons = Sequence[values.MigrationReason]


class Reasons(columns.FormattableColumn[_Reasons]):
    """All reasons for machines; for people those that matter."""

    def human_readable(self) -> str:
        return '\n'.join(describe(self._value))

    def machine_readable(self) -> typing.Any:
        return [
            {
                'effect': each.effect.value,
                'code': each.code,
                'subject': each.subject,
                'text': each.text,
                'cure': each.cure,
            }
            for each in self._value
        ]


class Seconds(columns.FormattableColumn[float | None]):
    """A time, or None if it is unknown."""

    def human_readable(self) -> str:
        return '-' if self._value is None else f'{self._value:.1f} s'

    def machine_readable(self) -> float | None:
        return None if self._value is None else round(self._value, 3)


def describe(why: _Reasons) -> list[str]:
    """The reasons in words, each cure once.

    If something prevents it, the rest does not matter yet.
    """
    refusals = checks.list_refusals(why)
    shown = refusals or why
    by_cure: dict[str, list[values.MigrationReason]] = {}
    for each in shown:
        by_cure.setdefault(each.cure, []).append(each)
    return [
        values.describe('\n'.join(each.text for each in found), (), cure)
        for cure, found in by_cure.items()
    ]


class CheckMigration(base.Command, lister.Lister):
    """Show whether a server with vGPUs can be migrated live, and where to.

    Each row is a host with GPUs. "Possible" is "yes" if nothing is known that
    is against it and nothing needed is unknown, "no" if the live migration
    would fail, and "unknown" if something that decides on it is not known;
    "Reasons" say why, each with what to do. Nothing is changed, and nothing is
    reserved.

    Placement and Nova tell what is free and how servers and hosts are. The
    versions of kernel, libvirt and NVIDIA's driver, ECC modes, frameworks and
    Nova's options are known where the cloud has the setting
    nova_vgpu_prometheus in clouds.yaml, or OS_NOVA_VGPU_PROMETHEUS is set, and
    the hosts run nova-vgpu agent.

    "Downtime" is how long it takes to send the state of the vGPUs with the
    bandwidth of --bandwidth, or else of Nova's live_migration_bandwidth: the
    server stops for about that time.

    Exit code: 0 if it is possible, or unknown; 1 if it is possible to none of
    the hosts, with --strict also if that is unknown for all others.

      openstack vgpu migration check --host compute2 render-1
    """

    _verdict = checks.Verdict.YES

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'server', metavar='<server>', help='Name or UUID of the server.'
        )
        parser.add_argument(
            '--host',
            metavar='<host>',
            help='Only this compute node, with or without its domain.',
        )
        parser.add_argument(
            '--bandwidth',
            metavar='<MiB/s>',
            type=_parse_bandwidth,
            help='What the network between the hosts carries, in MiB/s, for '
            'the downtime: about 1100 with 10 Gbit/s.',
        )
        parser.add_argument(
            '--strict',
            action='store_true',
            help='Fail unless it is known to be possible.',
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        result = super().run(parsed_args)
        return result or find_status(self._verdict, parsed_args.strict)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        found = migration_check.check(
            self.cloud,
            parsed_args.server,
            parsed_args.host,
            parsed_args.bandwidth,
            lambda server: agents.read_migration(self.app, server),
        )
        self._verdict = found.verdict
        self._tell(found)
        state = found.expected
        return _TITLES, [
            (
                each.host,
                each.verdict.value,
                Seconds(state.seconds if state else None),
                base.Known(state.state_bytes if state else None),
                Reasons(each.why),
            )
            for each in found.destinations
        ]

    def _tell(self, found: migration_check.MigrationCheck) -> None:
        if not found.has_gpus:
            text = (
                f'Placement has allocated no GPU of its host to server '
                f'{found.server.name}: GPUs do not limit where it can go.'
            )
        elif not found.destinations:
            text = 'No other host has GPUs.'
        else:
            return
        print(text, file=self.app.stderr)

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[typing.Any],
    ) -> int:
        """A table on a terminal has no room for all columns."""
        if parsed_args.formatter == 'table' and not parsed_args.columns:
            parsed_args.columns = [
                title for title in _TITLES if title != 'State Bytes'
            ]
        result: int = super().produce_output(parsed_args, column_names, data)
        return result


def find_status(verdict: checks.Verdict, is_strict: bool) -> int:
    """The exit code for the best of the hosts."""
    if verdict is checks.Verdict.NO:
        return _EXIT_NO
    return _EXIT_NO if is_strict and verdict is not checks.Verdict.YES else 0


def _parse_bandwidth(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number of MiB per second'
        )
    return int(text)
