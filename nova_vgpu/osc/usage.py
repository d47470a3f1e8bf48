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

"""``openstack vgpu usage``: what projects use, and have used."""

import argparse
import datetime
import typing

from cliff import columns
from cliff import lister

from nova_vgpu.cloud import names
from nova_vgpu.cloud.usage import usage
from nova_vgpu.cloud.usage import usage_reader
from nova_vgpu.osc import base

# As "openstack usage list".
_DEFAULT_PERIOD = datetime.timedelta(weeks=4)
_DAY = datetime.timedelta(days=1)


class Hours(columns.FormattableColumn[float | None]):
    """Hours: two digits for people; None if they are not known."""

    def human_readable(self) -> str:
        return '-' if self._value is None else f'{self._value:.2f}'

    def machine_readable(self) -> typing.Any:
        return None if self._value is None else round(self._value, 4)


_FIELDS: tuple[base.Field[usage.Usage], ...] = (
    base.Field('Project', lambda found: found.project_name),
    base.Field('Type', lambda found: base.Known(found.kind.name)),
    base.Field('vGPUs', lambda found: found.vgpus),
    base.Field('vGPU Hours', lambda found: Hours(found.hours)),
    base.Field('GiB Hours', lambda found: Hours(found.gib_hours)),
    base.Field('Servers', lambda found: found.servers, True),
    base.Field(
        'MiB', lambda found: base.Known(found.kind.framebuffer_mib), True
    ),
    base.Field('Project ID', lambda found: found.project, True),
)


class ShowUsage(base.Command, lister.Lister):
    """Show the vGPUs that projects use now, and have used in a period.

    "vGPUs" is the number of servers' vGPUs now. "vGPU Hours" are those of a
    period, by Nova's usage records: from the launch of a server until it is
    deleted, also while it is shut off or shelved. Nova forgets the former
    launch of a server that is resized, migrated, evacuated, rebuilt, rescued
    or unshelved: its hours before that are lost. "GiB Hours" are the hours
    times the frame buffer of the type.

    Servers count with the type that their flavor asks for: "several" if it
    fits more than one. Servers whose flavor does not exist any more are not in
    the list; their number is printed beside it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--start',
            metavar='<start>',
            type=parse_moment,
            help='First day of the period, or a time in UTC, for example '
            '2026-01-31 or 2026-01-31T12:00:00 (default: 4 weeks ago).',
        )
        parser.add_argument(
            '--end',
            metavar='<end>',
            type=parse_moment,
            help='End of the period: a day, which is not part of it, or a '
            'time in UTC (default: now).',
        )
        parser.add_argument(
            '--project',
            metavar='<project>',
            help='Only this project (name or ID).',
        )
        parser.add_argument(
            '--long', action='store_true', help='List additional columns.'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        now = datetime.datetime.now(datetime.UTC)
        start = parsed_args.start or now - _DEFAULT_PERIOD
        end = parsed_args.end or now + _DAY
        found = usage_reader.read(
            self.cloud, start, end, now, parsed_args.project
        )
        base.tell_if_none(self, found.has_gpus)
        hours = f'Hours: {found.unknown.hours:.2f}.'
        base.tell_unknown(self, found.unknown, hours)
        if parsed_args.formatter == 'table':
            # Nova's records end with the present.
            self.app.stdout.write(
                f'vGPUs now; hours from {start:%Y-%m-%d %H:%M} to '
                f'{min(end, now):%Y-%m-%d %H:%M} UTC:\n'
            )
        return base.make_rows(_FIELDS, found.usages, parsed_args.long)


def parse_moment(text: str) -> datetime.datetime:
    """A day or a time; UTC, unless it says otherwise."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f'{names.printable(text)} is not a date such as 2026-01-31'
        ) from error
    return moment.replace(tzinfo=datetime.UTC)
