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

import os
import pathlib
import subprocess
import sys
from unittest import mock

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.cloud.nodes import documents
from nova_vgpu.osc import output_files

FILES = (documents.Document('a.yaml', 'a\n'), documents.Document('b', 'b\n'))
OTHERS = (documents.Document('a.yaml', 'c\n'), documents.Document('b', 'd\n'))


class TestOutputFiles(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.top / 'new' / 'directory'

    def read(self) -> dict[str, str]:
        return {each.name: each.read_text() for each in self.path.iterdir()}

    def test_files_are_written_into_a_new_directory(self) -> None:
        paths = output_files.write(str(self.path), FILES)
        self.assertEqual({'a.yaml': 'a\n', 'b': 'b\n'}, self.read())
        self.assertEqual(0o644, (self.path / 'b').stat().st_mode & 0o777)
        self.assertEqual(
            (str(self.path / 'a.yaml'), str(self.path / 'b')), paths
        )

    def test_names_in_other_alphabets_are_written_in_any_locale(self) -> None:
        """Python writes files in the encoding of the locale by default."""
        script = (
            'import sys\n'
            'from nova_vgpu.cloud.nodes import documents\n'
            'from nova_vgpu.osc import output_files\n'
            'found = (documents.Document("a", "\\xfc\\u4e00"),)\n'
            'output_files.write(sys.argv[1], found)\n'
        )
        ascii_only = {
            'LC_ALL': 'C',
            'PYTHONCOERCECLOCALE': '0',
            'PYTHONUTF8': '0',
        }
        done = subprocess.run(
            [sys.executable, '-c', script, str(self.path)],
            env=os.environ | ascii_only,
            capture_output=True,
        )
        self.assertEqual((0, b''), (done.returncode, done.stderr))
        self.assertEqual(
            '\xfc\u4e00', (self.path / 'a').read_text(encoding='utf-8')
        )

    def test_nothing_is_replaced_unless_that_is_asked_for(self) -> None:
        self.path.mkdir(parents=True)
        (self.path / 'b').symlink_to('nowhere')
        error = self.assertRaises(
            exception.UsageError, output_files.write, str(self.path), FILES
        )
        self.assertIn(f'as these exist: {self.path}/b.', str(error))
        self.assertIn('--overwrite', str(error))
        self.assertEqual(['b'], os.listdir(self.path))
        output_files.write(str(self.path), FILES, may_replace=True)
        output_files.write(str(self.path), OTHERS, may_replace=True)
        self.assertEqual({'a.yaml': 'c\n', 'b': 'd\n'}, self.read())
        self.assertFalse((self.path / 'b').is_symlink())

    def test_a_file_that_came_meanwhile_stays(self) -> None:
        self.path.mkdir(parents=True)
        (self.path / 'a.yaml').write_text('mine')
        with mock.patch('os.path.lexists', return_value=False):
            error = self.assertRaises(
                exception.UsageError, output_files.write, str(self.path), FILES
            )
        self.assertIn('File exists', str(error))
        self.assertEqual({'a.yaml': 'mine'}, self.read())

    def test_a_directory_that_cannot_be_one(self) -> None:
        (self.top / 'new').write_text('a file')
        error = self.assertRaises(
            exception.UsageError, output_files.write, str(self.path), FILES
        )
        self.assertIn('Not a directory', str(error))
        error = self.assertRaises(
            exception.UsageError,
            output_files.write,
            f'{self.path}\x1b',
            FILES,
        )
        self.assertIn(r'directory\x1b cannot be written', str(error))
