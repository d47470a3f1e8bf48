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

"""The commands as an operator runs them, on a host that is not there."""

import csv
import dataclasses
import io
import json
import pathlib
import typing

import fixtures
import testtools

from nova_vgpu.cmd import main
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts

CARDS = (
    hosts.gpu('41:00.0', boards.A40, 'nvidia-562', vfs=4),
    hosts.gpu('84:00.0', boards.T4),
    hosts.gpu('85:00.0', boards.T4, 'nvidia-231', 'nvidia-231'),
    hosts.gpu('c1:00.0', boards.A40),
    hosts.gpu('e1:00.0', boards.NETWORK_CARD),
    hosts.gpu(
        '0001:c8:00.0', boards.L40S, 'nvidia-1155', vfs=4, vendor_vfio=True
    ),
)
CONFIGURATION = """
[devices]
enabled_vgpu_types = T4-2Q, A40-8Q, L40S-24Q
unlisted_gpus = ignore
[vgpu_T4-2Q]
device_addresses = 84:00.0, 85:00.0
[vgpu_A40-8Q]
device_addresses = 41:00.0
[vgpu_L40S-24Q]
device_addresses = 00000001:C8:00.0
"""
COMMANDS: tuple[tuple[str, ...], ...] = (
    ('gpu', 'list'),
    ('gpu', 'show', '84:00.0'),
    ('type', 'list'),
    ('device', 'list'),
    ('check',),
    ('plan', '--node', 'compute1'),
)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a run of the program left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> typing.Any:
        return json.loads(self.stdout)


class CommandTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.sysfs = self.directory / 'sys'
        self.config = self.directory / 'nova.conf'
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS'))
        self.useFixture(fixtures.FakeLogger())
        # Never the configuration of the machine that runs the tests.
        for finder in ('find_config_files', 'find_config_dirs'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'oslo_config.cfg.{finder}', lambda *_a, **_k: []
                )
            )
        tree.write_tree(simulation.SimulatedHost(CARDS), self.sysfs)
        self.config.write_text(CONFIGURATION)

    def run_bare(self, *arguments: str) -> Answer:
        """Run the program with these arguments and nothing else."""
        stdout, stderr = io.StringIO(), io.StringIO()
        with (
            fixtures.MonkeyPatch('sys.stdout', stdout),
            fixtures.MonkeyPatch('sys.stderr', stderr),
        ):
            try:
                program = main.NovaVGPU(stdout=stdout, stderr=stderr)
                code = program.run(list(arguments))
            except SystemExit as ended:  # argparse, about --help or a mistake
                code = int(ended.code or 0)
        answer = Answer(code, stdout.getvalue(), stderr.getvalue())
        self.assertNotIn('Traceback', answer.stdout + answer.stderr)
        return answer

    def run_on_host(self, *arguments: str, config: bool = True) -> Answer:
        """Run a command on the simulated host."""
        options = ['--sysfs-root', str(self.sysfs)]
        if config:
            options += ['--config-file', str(self.config)]
        return self.run_bare(*options, *arguments)

    def rows(self, *arguments: str) -> list[dict[str, typing.Any]]:
        answer = self.run_on_host(*arguments, '-f', 'json')
        self.assertEqual((0, ''), (answer.code, answer.stderr))
        found: list[dict[str, typing.Any]] = answer.json
        return found


class TestAnswers(CommandTestCase):
    def test_gpu_list(self) -> None:
        found = {row.pop('GPU'): row for row in self.rows('gpu', 'list')}
        self.assertEqual(
            [
                '0000:41:00.0',
                '0000:84:00.0',
                '0000:85:00.0',
                '0000:c1:00.0',
                '0001:c8:00.0',
            ],
            list(found),
        )
        self.assertEqual(
            {
                'Model': 'A40',
                'Driver': 'nvidia',
                'Framework': 'mdev on VFs',
                'VFs': '4/32',
                'Types': 29,
                'vGPUs': 1,
                'Role': 'vGPU',
                'State': 'ready',
            },
            found['0000:41:00.0'],
        )
        self.assertEqual(
            {
                'Model': 'A40',
                'Driver': 'nvidia',
                'Framework': '-',
                'VFs': '0/32',
                'Types': 0,
                'vGPUs': 0,
                'Role': 'unused',
                'State': 'vfs-off',
            },
            found['0000:c1:00.0'],
        )
        self.assertEqual('vendor VFIO', found['0001:c8:00.0']['Framework'])
        self.assertEqual('mdev', found['0000:84:00.0']['Framework'])

    def test_gpu_show_has_the_cure(self) -> None:
        for spelling in ('c1:00.0', '00000000:C1:00.0', 'pci_0000_c1_00_0'):
            found = self.run_on_host('gpu', 'show', spelling, '-f', 'json')
            self.assertEqual(0, found.code, spelling)
            self.assertEqual('0000:c1:00.0', found.json['gpu'])
            self.assertEqual('10de:2235', found.json['PCI ids'])
            self.assertIn('not enabled (0 of 32)', found.json['finding'])
            self.assertIn(
                'nova-vgpu sriov enable 0000:c1:00.0', found.json['cure']
            )

    def test_type_list(self) -> None:
        rows = self.rows('type', 'list', '--gpu', '85:00.0')
        self.assertEqual({'0000:85:00.0'}, {row['GPU'] for row in rows})
        found = {row['Name']: row for row in rows}
        self.assertEqual(len(boards.T4.types), len(found))
        self.assertEqual(
            {
                'GPU': '0000:85:00.0',
                'ID': 'nvidia-231',
                'Name': 'GRID T4-2Q',
                'Free': 6,
                'vGPUs': 2,
                'Max': 8,
                'MiB': 2048,
            },
            found['GRID T4-2Q'],
        )
        self.assertEqual(6, found['GRID T4-2B']['Free'])
        self.assertEqual(0, found['GRID T4-4Q']['Free'])

    def test_type_list_knows_the_maximum_without_a_description(self) -> None:
        (row,) = (
            row
            for row in self.rows('type', 'list', '--gpu', '0001:c8:00.0')
            if row['Name'] == 'NVIDIA L40S-24Q'
        )
        self.assertEqual(
            (1, 1, 2, 24576),
            (row['Free'], row['vGPUs'], row['Max'], row['MiB']),
        )

    def test_device_list(self) -> None:
        rows = self.rows('device', 'list')
        by_gpu: dict[str, list[tuple[str, str]]] = {}
        for row in rows:
            by_gpu.setdefault(row['GPU'], []).append(
                (row['State'], row['Type'])
            )
        self.assertEqual(
            {
                '0000:41:00.0': [
                    ('taken', '-'),
                    ('vGPU', 'A40-8Q'),
                    ('free', '-'),
                    ('free', '-'),
                    ('free', '-'),
                ],
                '0000:85:00.0': [('vGPU', 'T4-2Q'), ('vGPU', 'T4-2Q')],
                '0001:c8:00.0': [
                    ('vGPU', 'L40S-24Q'),
                    ('free', '-'),
                    ('free', '-'),
                    ('free', '-'),
                ],
            },
            by_gpu,
        )

    def test_device_list_of_one_gpu(self) -> None:
        for row in self.rows('device', 'list', '--gpu', '0001:C8:00.0'):
            self.assertEqual('0001:c8:00.0', row['Parent'])

    def test_plan(self) -> None:
        rows = self.rows('plan', '--node', 'compute1')
        self.assertEqual(
            [
                ('0000:41:00.0', 'A40-8Q', 4, 'compute1_pci_0000_41_00_0'),
                ('0000:84:00.0', 'T4-2Q', 8, 'compute1_pci_0000_84_00_0'),
                ('0000:85:00.0', 'T4-2Q', 8, 'compute1_pci_0000_85_00_0'),
                ('0000:c1:00.0', '-', 0, '-'),
                ('0001:c8:00.0', 'L40S-24Q', 2, 'compute1_pci_0001_c8_00_0'),
            ],
            [
                (row['GPU'], row['Type'], row['Total'], row['Provider'])
                for row in rows
            ],
        )
        last = rows[-1]
        self.assertEqual('[vgpu_L40S-24Q]', last['Section'])
        self.assertEqual('nvidia-1155', last['Type ID'])
        self.assertEqual('type maximum', last['Bound by'])
        self.assertIn('CUSTOM_VGPU_TYPE_L40S_24Q', last['Traits'])
        self.assertIn('left alone', rows[3]['Why'])

    def test_plan_says_why(self) -> None:
        self.config.write_text(
            '[devices]\nenabled_vgpu_types = T4-2Q, T4-4Q\n'
            '[vgpu_T4-4Q]\ndevice_addresses = 84:00.0\n'
        )
        answer = self.run_on_host('plan', '--node', 'x', '-f', 'json')
        why = {row['GPU']: row['Why'] for row in answer.json}
        self.assertEqual('listed', why['0000:84:00.0'])
        self.assertIn('first type', why['0000:85:00.0'])
        # Errors do not keep the service from starting; they are told.
        self.assertEqual(0, answer.code)
        self.assertIn('error: GPU 0000:41:00.0', answer.stderr)

    def test_plan_takes_the_hosts_own_name(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('socket.gethostname', lambda: 'a.example.org')
        )
        row = self.rows('plan', '--gpu', '84:00.0')[0]
        self.assertEqual('a.example.org_pci_0000_84_00_0', row['Provider'])


class TestFormats(CommandTestCase):
    def test_every_command_in_every_format(self) -> None:
        for command in COMMANDS:
            for format_ in ('table', 'json', 'yaml', 'csv', 'value'):
                if command[:2] == ('gpu', 'show') and format_ == 'csv':
                    continue  # one thing is no table
                answer = self.run_on_host(*command, '-f', format_)
                case = f'{command} {format_}'
                self.assertEqual(0, answer.code, case)
                if command == ('check',):
                    self.assertEqual('No problems found.\n', answer.stderr)
                    continue
                self.assertEqual('', answer.stderr, case)
                self.assertIn('0000:84:00.0', self.spoken(answer), case)

    def spoken(self, answer: Answer) -> str:
        # "device list" has nothing on a GPU without vGPUs and VFs.
        return answer.stdout.replace('0000:85:00.0', '0000:84:00.0')

    def test_machines_get_all_columns(self) -> None:
        for command in COMMANDS:
            if command[0] == 'check' or command[1] == 'show':
                continue
            as_json = self.run_on_host(*command, '-f', 'json').json
            text = self.run_on_host(*command, '-f', 'csv').stdout
            as_csv = list(csv.DictReader(io.StringIO(text)))
            self.assertEqual(len(as_json), len(as_csv), str(command))
            self.assertEqual(list(as_json[0]), list(as_csv[0]), str(command))

    def test_a_table_fits_the_terminal(self) -> None:
        self.config.write_text(
            '[devices]\nenabled_vgpu_types = T4-3Q, nonsense\n'
            '[vgpu_T4-4Q]\ndevice_addresses = 99:00.0\n'
        )
        for columns in (80, 120):
            self.useFixture(
                fixtures.EnvironmentVariable('COLUMNS', str(columns))
            )
            for command in COMMANDS:
                answer = self.run_on_host(*command)
                lines = answer.stdout.splitlines()
                self.assertNotEqual([], lines, str(command))
                self.assertLessEqual(
                    max(map(len, lines)), columns, str(command)
                )
