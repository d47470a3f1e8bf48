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

"""Small text files, whatever is in their place."""

import errno
import os
import pathlib
import threading

import fixtures
import testtools

from nova_vgpu.host import files


class FilesTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = files.Files(str(self.root))

    def assertUnreadable(
        self, reason: str, gone: bool, case: str, *path: str
    ) -> None:
        error = self.assertRaises(
            files.Unreadable, self.files.read, *path or ('file',)
        )
        self.assertIn(reason, error.reason, case)
        self.assertEqual(gone, error.gone, case)
        self.assertIn(str(self.root), error.path, case)
        self.assertIn(error.path, str(error), case)


class TestRead(FilesTestCase):
    def test_text_comes_without_white_space_around_it(self) -> None:
        for case, data, expected in (
            ('a line', b'0x10de\n', '0x10de'),
            ('nothing', b'', ''),
            ('white space', b' \n\t\n', ''),
            ('lines', b'a\n b \n', 'a\n b'),
            ('more than ASCII', 'größe'.encode(), 'größe'),
            ('as large as may be', b'x' * 65536, 'x' * 65536),
        ):
            (self.root / 'file').write_bytes(data)
            self.assertEqual(expected, self.files.read('file'), case)

    def test_bytes_are_read_as_they_are(self) -> None:
        for data in (b'', b'\xff\xfe\x00\n', b' x ' * 5000):
            (self.root / 'file').write_bytes(data)
            self.assertEqual(data, self.files.read_binary('file'))
        (self.root / 'file').write_bytes(b'x' * 65537)
        for name in ('file', 'nothing'):
            self.assertRaises(files.Unreadable, self.files.read_binary, name)

    def test_what_is_no_text(self) -> None:
        for case, data, reason in (
            ('bytes', b'\xff\xfe\x00', 'not UTF-8 text'),
            ('a zero in between', b'nvidia\0', 'not UTF-8 text'),
            ('half a character', 'ß'.encode()[:1], 'not UTF-8 text'),
            ('too much', b'x' * 65537, 'more than 65536 bytes'),
        ):
            (self.root / 'file').write_bytes(data)
            self.assertUnreadable(reason, False, case)

    def test_what_is_no_file(self) -> None:
        self.assertUnreadable('no such file', True, 'nothing')
        (self.root / 'file').symlink_to('nowhere')
        self.assertUnreadable('no such file', True, 'a link to nowhere')
        (self.root / 'file').unlink()
        (self.root / 'file').symlink_to('file')
        self.assertUnreadable('symbolic links', False, 'a link to itself')
        (self.root / 'file').unlink()
        (self.root / 'file').mkdir()
        self.assertUnreadable('is a directory', False, 'a directory')
        self.assertUnreadable('no such file', True, 'below', 'file', 'x')
        (self.root / 'text').write_text('x')
        self.assertUnreadable(
            'not a directory', False, 'below a file', 'text', 'x'
        )

    def test_a_pipe_that_nobody_writes_to_does_not_hang(self) -> None:
        os.mkfifo(self.root / 'file')
        found: list[str] = []

        def read() -> None:
            try:
                self.files.read('file')
            except files.Unreadable as error:
                found.append(error.reason)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(timeout=20)
        self.assertEqual(['is not a regular file'], found)

    def test_nothing_stays_open(self) -> None:
        (self.root / 'directory').mkdir()
        (self.root / 'large').write_bytes(b'x' * 65537)
        before = os.listdir('/proc/self/fd')
        for name in ('directory', 'large', 'nothing'):
            self.assertRaises(files.Unreadable, self.files.read, name)
        self.assertEqual(before, os.listdir('/proc/self/fd'))

    def test_a_file_that_is_not_for_us(self) -> None:
        # Tests may run as root, who is refused nothing by a file's mode.
        def refuse(path: str, flags: int) -> int:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        (self.root / 'file').write_text('secret')
        self.useFixture(fixtures.MonkeyPatch('os.open', refuse))
        self.assertUnreadable('permission denied', False, 'file')


class TestPaths(FilesTestCase):
    def test_nothing_leads_out_of_the_directory(self) -> None:
        outside = self.root.parent / f'{self.root.name}-outside'
        outside.write_text('secret')
        self.addCleanup(outside.unlink)
        for case, parts in (
            ('up', ('..', outside.name)),
            ('up within a part', (f'../{outside.name}',)),
            ('from the top', (str(outside),)),
            ('here', ('.',)),
            ('nothing', ('',)),
        ):
            for ask in (self.files.read, self.files.list, self.files.link):
                error = self.assertRaises(files.Unreadable, ask, *parts)
                self.assertIn('not below', error.reason, case)


class TestDirectories(FilesTestCase):
    def test_names_come_sorted(self) -> None:
        for name in ('b', 'a', 'C'):
            (self.root / name).touch()
        self.assertEqual(('C', 'a', 'b'), self.files.list())

    def test_a_directory_that_is_not_there(self) -> None:
        error = self.assertRaises(files.Unreadable, self.files.list, 'x')
        self.assertTrue(error.gone)
        (self.root / 'file').touch()
        error = self.assertRaises(files.Unreadable, self.files.list, 'file')
        self.assertFalse(error.gone)


class TestLinks(FilesTestCase):
    def test_a_link_is_not_followed(self) -> None:
        (self.root / 'driver').symlink_to('../../bus/pci/drivers/nvidia')
        self.assertEqual(
            '../../bus/pci/drivers/nvidia', self.files.link('driver')
        )

    def test_what_is_no_link(self) -> None:
        error = self.assertRaises(files.Unreadable, self.files.link, 'x')
        self.assertTrue(error.gone)
        (self.root / 'file').touch()
        error = self.assertRaises(files.Unreadable, self.files.link, 'file')
        self.assertFalse(error.gone)
