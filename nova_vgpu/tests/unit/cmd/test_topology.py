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

"""``nova-vgpu topology`` as an operator runs it."""

import os
import pathlib
import subprocess
import sys
from xml.etree import ElementTree

import nova_vgpu
from nova_vgpu.sandbox import pcie_layout
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import layouts
from nova_vgpu.tests.unit.cmd import test_commands


class TopologyTestCase(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.svg = self.directory / 'topology.svg'

    def write(self, text: str) -> None:
        self.sysfs = self.directory / 'other'
        tree.write_tree(pcie_layout.parse(text), self.sysfs)

    def show(self, *arguments: str) -> test_commands.Answer:
        return self.run_on_host('topology', *arguments, config=False)


class TestAnswers(TopologyTestCase):
    def test_the_matrix_is_on_standard_output_and_notes_are_not(self) -> None:
        self.write(layouts.GPUS_AND_NIC.text)
        answer = self.show()
        self.assertEqual(0, answer.code)
        self.assertEqual(
            [
                '      GPU0  GPU1  NIC0',
                'GPU0  X     PIX   PIX',
                'GPU1  PIX   X     PIX',
                'NIC0  PIX   PIX   X',
            ],
            answer.stdout.splitlines()[:4],
        )
        self.assertIn('note: NVLink is not shown', answer.stderr)
        self.assertNotIn('note:', answer.stdout)

    def test_json_has_everything(self) -> None:
        self.write(layouts.ONE_ROOT_PORT.text)
        *_, third, nic, _ = self.show('-f', 'json').json
        self.assertEqual(
            {
                'Device': 'GPU2',
                'Kind': 'GPU',
                'Address': '0000:3a:00.0',
                'Name': 'A100D',
                'Driver': 'nvidia',
                'NUMA node': 0,
                'IOMMU groups': [],
                'ACS': 'redirects',
                'Redirected': ['GPU0', 'GPU1', 'NIC0'],
                'Traits': ['CUSTOM_PCIE_ISLAND_0'],
                'GPU0': 'PXB',
                'GPU1': 'PXB',
                'GPU2': 'X',
                'NIC0': 'PXB',
                'NIC1': 'PIX',
            },
            third,
        )
        self.assertEqual(('NIC', 'mlx5_0'), (nic['Kind'], nic['Name']))

    def test_every_format_has_every_device(self) -> None:
        self.write(layouts.GPUS_AND_NIC.text)
        for form in ('table', 'json', 'yaml', 'csv', 'value'):
            answer = self.show('-f', form)
            self.assertEqual(0, answer.code, form)
            for address in ('0000:9a:00.0', '0000:9b:00.0', '0000:9c:00.0'):
                self.assertIn(address, answer.stdout, form)

    def test_what_is_unknown_is_null(self) -> None:
        self.write('0000:01:00.0 INSTINCT_MI210\n')
        (row,) = self.show('-f', 'json').json
        self.assertEqual(
            (None, None, []),
            (row['NUMA node'], row['ACS'], row['IOMMU groups']),
        )

    def test_columns_can_be_chosen(self) -> None:
        self.write(layouts.GPUS_AND_NIC.text)
        answer = self.show('-f', 'value', '-c', 'Device', '-c', 'NIC0')
        self.assertEqual('GPU0 PIX\nGPU1 PIX\nNIC0 X\n', answer.stdout)
        answer = self.show('-c', 'Device', '-c', 'IOMMU groups')
        self.assertIn('| NIC0   | 7,8', answer.stdout)

    def test_the_width_is_kept(self) -> None:
        self.write(layouts.EIGHT_H100.text)
        for width in (80, 120):
            answer = self.show('--max-width', str(width))
            longest = max(map(len, answer.stdout.splitlines()))
            self.assertLessEqual(longest, width)

    def test_the_host_of_the_demonstration(self) -> None:
        rows = self.show('-f', 'json').json
        self.assertEqual(
            ['GPU0', 'GPU1', 'GPU2', 'GPU3', 'GPU4', 'NIC0'],
            [row['Device'] for row in rows],
        )
        self.assertEqual('NODE', rows[0]['NIC0'])

    def test_what_vgpus_cannot_do_is_said(self) -> None:
        self.assertIn('vGPUs of GPU0', self.show().stderr)

    def test_without_gpus(self) -> None:
        self.write('0000:01:00.0 NETWORK_CARD\n')
        answer = self.show()
        self.assertEqual((0, ''), (answer.code, answer.stdout))
        self.assertIn('No GPU', answer.stderr)
        self.assertEqual([], self.show('-f', 'json').json)

    def test_a_fault_is_told_and_the_rest_shown(self) -> None:
        self.write(layouts.GPUS_AND_NIC.text)
        (self.sysfs / 'bus/pci/devices/0000:99:01.0/vendor').write_text('x')
        answer = self.show()
        self.assertEqual(0, answer.code)
        self.assertIn('warning: pci_0000_99_01_0', answer.stderr)
        self.assertIn('GPU1', answer.stdout)


class TestPictures(TopologyTestCase):
    def test_it_is_written_beside_the_matrix(self) -> None:
        self.write(layouts.GPUS_AND_NIC.text)
        answer = self.show('--svg', str(self.svg))
        self.assertIn('GPU0', answer.stdout)
        root = ElementTree.parse(self.svg).getroot()  # noqa: S314 - our own
        self.assertEqual('{http://www.w3.org/2000/svg}svg', root.tag)

    def test_an_older_picture_is_replaced(self) -> None:
        self.write(layouts.GPUS_AND_NIC.text)
        self.show('--svg', str(self.svg))
        before = self.svg.read_text()
        self.write(layouts.SINGLE_SWITCH.text)
        self.assertEqual(0, self.show('--svg', str(self.svg)).code)
        self.assertNotEqual(before, self.svg.read_text())
        self.assertEqual(
            [self.svg.name], [p.name for p in self.directory.glob('*.svg*')]
        )

    def test_names_are_escaped_everywhere(self) -> None:
        self.write('0000:01:00.0 T4\n0000:02:00.0 CONNECTX_6\n')
        device = self.sysfs / 'bus/pci/devices/0000:02:00.0'
        (device / 'infiniband' / '<i>\x1b[2J').mkdir(parents=True)
        answer = self.show('--svg', str(self.svg))
        for text in (answer.stdout, self.svg.read_text()):
            self.assertNotIn('\x1b', text)
        ElementTree.parse(self.svg)  # noqa: S314 - our own
        self.assertNotIn('<i>', self.svg.read_text())
        row = self.show('-f', 'json').json[1]
        self.assertEqual('<i>\\x1b[2J', row['Name'])


class TestMistakes(TopologyTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.write(layouts.GPUS_AND_NIC.text)

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the program in a process of its own."""
        return subprocess.run(
            [
                *(sys.executable, '-m', 'nova_vgpu', '--sysfs-root'),
                *(str(self.sysfs), 'topology', *arguments),
            ],
            cwd=pathlib.Path(nova_vgpu.__path__[0]).parent,
            capture_output=True,
            text=True,
            check=False,
        )

    def assertRefused(self, *arguments: str) -> str:
        answer = self.show(*arguments)
        self.assertEqual((2, ''), (answer.code, answer.stdout), str(arguments))
        return answer.stderr

    def test_a_file_that_is_not_a_picture_stays(self) -> None:
        for content in (b'[DEFAULT]\n', b'\xff\x00', b''):
            self.svg.write_bytes(content)
            said = self.assertRefused('--svg', str(self.svg))
            self.assertIn(str(self.svg), said)
            self.assertEqual(content, self.svg.read_bytes())

    def test_what_is_not_a_file_stays(self) -> None:
        os.mkfifo(self.svg)
        for path in (str(self.svg), str(self.directory), '/dev/null', ''):
            self.assertRefused('--svg', path)
        self.assertTrue(self.svg.is_fifo())

    def test_a_directory_is_not_created(self) -> None:
        path = self.directory / 'none' / 'topology.svg'
        said = self.assertRefused('--svg', str(path))
        self.assertIn('the directory does not exist', said)
        self.assertFalse(path.parent.exists())

    def test_a_file_that_cannot_be_written(self) -> None:
        # A directory is in the place of the new file, also for root.
        (self.directory / 'topology.svg.new').mkdir()
        said = self.assertRefused('--svg', str(self.svg))
        self.assertIn('Is --svg right', said)
        self.assertFalse(self.svg.exists())

    def test_a_host_that_only_libvirt_shows(self) -> None:
        answer = self.run_bare(
            *('--libvirt', 'test:///default', 'topology', '--svg', 'x.svg')
        )
        self.assertEqual((2, ''), (answer.code, answer.stdout))

    def test_through_the_program_itself(self) -> None:
        for arguments, word in (
            (('--svg',), 'expected one argument'),
            (('--frobnicate',), '--frobnicate'),
            (('-c', 'GPU9'), "'GPU9'"),
            (('GPU0',), 'unrecognized arguments'),
        ):
            done = self.run_program(*arguments)
            self.assertEqual((2, ''), (done.returncode, done.stdout), word)
            self.assertIn(word, done.stderr)
            self.assertNotIn('Traceback', done.stderr)
