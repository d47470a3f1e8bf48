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

"""``nova-vgpu doctor``: why a GPU, a function or a type cannot be used."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import typing

from cliff import columns

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.diagnose import diagnosis
from nova_vgpu.host import environment
from nova_vgpu.host import files
from nova_vgpu.host import state
from nova_vgpu.host import state_files
from nova_vgpu.knowledge import vgpu_scheduler
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_matching

_EXIT_WARNINGS = 1
_POLICIES = {p.value.replace(' ', '-'): p for p in values.SchedulerPolicy}


class EvidenceColumn(columns.FormattableColumn[tuple[values.Evidence, ...]]):
    """The evidence: lines for people, sources and values for machines."""

    def human_readable(self) -> str:
        return '\n'.join(map(str, self._value))

    def machine_readable(self) -> typing.Any:
        return [dataclasses.asdict(evidence) for evidence in self._value]


class Doctor(base.Lister):
    """Show why a GPU, a VF or a vGPU type cannot be used.

    Checks the GPUs, their drivers and modes, the kernel, the IOMMU, mdevctl,
    the vGPU manager, nova.conf, and the names of type ids at the last run.
    Each finding has the evidence, its source, and the cure. An "error"
    prevents vGPUs from working, a "warning" may do so later, a "note" is
    information. nova.conf is not required. Exit code: 0 no errors, 1 warnings
    with --strict, 2 errors.

    The host is not changed. Run it as root: other users may not see
    everything, and cannot store the names of ids (types.json in --state-dir).
    """

    table_columns = ('Severity', 'Finding')

    _severities: frozenset[values.Severity] = frozenset()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_gpu_filter(parser)
        parser.add_argument(
            '--strict', action='store_true', help='Fail on warnings, too.'
        )
        parser.add_argument(
            '--scheduler',
            metavar='POLICY',
            choices=sorted(_POLICIES),
            help='Check nothing, but print a file for modprobe.d that sets '
            "NVIDIA's vGPU scheduler: best-effort, equal-share or "
            'fixed-share. The file is not written.',
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.scheduler:
            return self._print_modprobe(_POLICIES[parsed_args.scheduler])
        result = super().run(parsed_args)
        if result:
            return result
        if values.Severity.ERROR in self._severities:
            return base.EXIT_ERRORS
        if values.Severity.WARNING in self._severities and parsed_args.strict:
            return _EXIT_WARNINGS
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        found: list[values.Finding] = []
        host = self.source.read_host()
        selected = tuple(base.select_gpus(host, parsed_args.gpu))
        examined = self._examine(host, found)
        if self.source.is_this_machine:
            found += self._remember(examined)
        else:
            self.say(
                'Only the GPUs and nova.conf were checked: the other files of '
                'this machine do not describe that host.'
            )
        found += diagnosis.diagnose(
            dataclasses.replace(
                examined, host=dataclasses.replace(host, gpus=selected)
            )
        )
        self._severities = frozenset(finding.severity for finding in found)
        if not host.gpus:
            self.say(base.NO_GPUS)
        elif not found:
            self.say('No problems found.')
        return (
            ('Severity', 'Code', 'Subject', 'Finding', 'Evidence', 'Cure'),
            [_row(finding) for finding in _in_order(found)],
        )

    def arrange(
        self, column_names: Sequence[str], data: Iterable[typing.Any]
    ) -> tuple[Sequence[str], Iterable[typing.Any]]:
        """One cell for each finding: more columns would be too narrow."""
        return self.table_columns, [
            (
                severity,
                values.describe(
                    text, evidence.human_readable().splitlines(), cure
                ),
            )
            for severity, _, _, text, evidence, cure in data
        ]

    def _examine(
        self, host: values.Host, found: list[values.Finding]
    ) -> values.DoctorInput:
        # Not at the top: importing oslo.config is slow.
        from nova_vgpu.conf import sources

        examined = values.DoctorInput(host)
        if self.source.is_this_machine:
            examined = dataclasses.replace(
                examined,
                surroundings=environment.read(
                    files.Files(environment.DEFAULT_ROOT)
                ),
                modes=self.source.read_modes(host),
            )
        where = self.options.config_file, self.options.config_dir
        try:
            loaded = self.load_configuration()
            post_copy = sources.find_post_copy(*where)
        except exception.ConfigFileError as error:
            found.append(_unreadable(error))
            loaded, post_copy = values.Configuration(), None
            if self.state_dir is not None:
                loaded = state_files.recall(loaded, self.state_dir)
        modes = examined.modes or values.ModesRead()
        return dataclasses.replace(
            examined,
            declaration=loaded.declaration,
            plan=mapper.make_plan(loaded.plan_input(host, modes)),
            post_copy=post_copy,
            remembered=loaded.type_names,
        )

    def _remember(
        self, examined: values.DoctorInput
    ) -> Iterator[values.Finding]:
        """Store the current names of type ids, for the next run.

        A failure does not stop the doctor: it becomes a finding.
        """
        directory = state.StateDirectory(self.options.state_dir)
        names = type_matching.list_names_to_store(
            examined.remembered, examined.host, examined.declaration
        )
        try:
            before = state_files.update_types(directory, names)
        except exception.StateUnusable as error:
            yield values.Finding(
                values.Severity.NOTE,
                'type-memory-not-written',
                state_files.TYPES_FILE,
                'The names of type ids could not be stored for the next run.',
                (values.Evidence(directory.path, str(error)),),
                'Run the command as root, with free disk space, or with '
                'another --state-dir.',
            )
            return
        if before.lost is not None:
            path = f'{directory.path}/{state_files.TYPES_FILE}'
            yield values.Finding(
                values.Severity.WARNING,
                'type-memory-lost',
                state_files.TYPES_FILE,
                'The stored names of type ids cannot be read: changes since '
                'the last run are not detected.',
                (values.Evidence(path, before.lost),),
                'Check the ids in nova.conf with "nova-vgpu type list". Names '
                'are safer than ids.',
            )

    def _print_modprobe(self, policy: values.SchedulerPolicy) -> int:
        present: tuple[values.Evidence, ...] = ()
        if self.source.is_this_machine:
            present = environment.read(
                files.Files(environment.DEFAULT_ROOT)
            ).modprobe_dwords
        self.app.stdout.write(
            vgpu_scheduler.render_modprobe(policy, (p.value for p in present))
        )
        for path in dict.fromkeys(p.source for p in present):
            self.say(
                f'{path} also sets {vgpu_scheduler.PARAMETER}: remove it '
                'there, because only one of them counts. Its other keys are '
                'above.'
            )
        return 0


def _unreadable(error: exception.ConfigFileError) -> values.Finding:
    return values.Finding(
        values.Severity.ERROR,
        'configuration-unreadable',
        'nova.conf',
        'The configuration cannot be read, and was not checked.',
        (values.Evidence('nova.conf', str(error)),),
        'Check that nova.conf exists and is readable; give another one with '
        '--config-file.',
    )


def _in_order(found: Iterable[values.Finding]) -> list[values.Finding]:
    ranks = list(values.Severity)
    return sorted(found, key=lambda finding: ranks.index(finding.severity))


def _row(finding: values.Finding) -> tuple[typing.Any, ...]:
    return (
        finding.severity.value,
        finding.code,
        finding.subject,
        finding.text,
        EvidenceColumn(finding.evidence),
        finding.cure,
    )
