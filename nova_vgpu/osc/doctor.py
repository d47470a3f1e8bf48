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

"""``openstack vgpu doctor``: what is wrong with the vGPUs of the cloud."""

import argparse
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import typing

from cliff import columns
from cliff import lister

from nova_vgpu import values
from nova_vgpu.cloud.diagnose import diagnosis
from nova_vgpu.cloud.diagnose import examiner
from nova_vgpu.osc import base

_EXIT_WARNINGS = 1
_EXIT_ERRORS = 2
_TITLES = ('Severity', 'Code', 'Subject', 'Finding', 'Evidence', 'Cure')


class Evidence(columns.FormattableColumn[Sequence[values.Evidence]]):
    """The evidence: lines for people, sources and values for machines."""

    def human_readable(self) -> str:
        return '\n'.join(map(str, self._value))

    def machine_readable(self) -> typing.Any:
        return [dataclasses.asdict(evidence) for evidence in self._value]


class Doctor(base.Command, lister.Lister):
    """Show what is wrong with the flavors, GPUs and limits of the cloud.

    Finds flavors that no host can serve, that would give a server without a
    vGPU or whole GPU, or that are misspelled; GPUs without traits, with traits
    that disagree, fenced or left over; types that no flavor asks for; limits
    that have no effect. Nothing is changed.

    With an "error", servers do not get what they ask for. A "warning" may be
    intended, a "note" is information. Exit code: 0 no errors, 1 warnings with
    --strict, 2 errors.
    """

    _severities: frozenset[values.Severity] = frozenset()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--strict', action='store_true', help='Fail on warnings, too.'
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        result = super().run(parsed_args)
        return result or find_status(self._severities, parsed_args.strict)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        examined = examiner.examine(self.cloud)
        found = diagnosis.diagnose(examined)
        self._severities = frozenset(finding.severity for finding in found)
        has_gpus = bool(examined.gpus or examined.whole)
        base.tell_if_none(self, has_gpus)
        if has_gpus and not found:
            print('No problems found.', file=self.app.stderr)
        return _TITLES, [
            (
                finding.severity.value,
                finding.code,
                finding.subject,
                finding.text,
                Evidence(finding.evidence),
                finding.cure,
            )
            for finding in found
        ]

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[typing.Any],
    ) -> int:
        """In a table, one cell for each finding: more would be too narrow."""
        if parsed_args.formatter == 'table' and not parsed_args.columns:
            column_names = ('Severity', 'Finding')
            data = [
                (
                    severity,
                    values.describe(
                        text, evidence.human_readable().splitlines(), cure
                    ),
                )
                for severity, _, _, text, evidence, cure in data
            ]
        result: int = super().produce_output(parsed_args, column_names, data)
        return result


def find_status(
    severities: Collection[values.Severity], is_strict: bool
) -> int:
    """The exit code for findings of these severities."""
    if values.Severity.ERROR in severities:
        return _EXIT_ERRORS
    if values.Severity.WARNING in severities and is_strict:
        return _EXIT_WARNINGS
    return 0
