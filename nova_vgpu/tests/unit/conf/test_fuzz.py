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

"""Configuration files that are none.

Whatever is in a file, its declaration is read or the operator is told which
file cannot be; nothing else comes out.
"""

import builtins
import errno
import os
import pathlib
import typing

import fixtures
import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import configuration
from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.plan import mapper

# The same examples on each run, and as long as they take on a busy machine.
SETTINGS = hypothesis.settings(
    derandomize=True,
    database=None,
    print_blob=True,
    max_examples=1000,
)

TYPE = b'[devices]\nenabled_vgpu_types = a\n[vgpu_a]\n'
DECLARED = (
    ('nothing', b''),
    ('blank lines', b'\n\n\r\n'),
    ('comments', b'# [devices\n; x\n'),
    ('a section twice', b'[devices]\n[vgpu_a]\n[devices]\n[vgpu_a]\n'),
    ('an option twice', TYPE + b'max_instances = 1\nmax_instances = 2\n'),
    ('a section of no type', b'[vgpu_]\ntraits = X\n[mdev_]\n'),
    ('another program', b'[DEFAULT]\ntransport_url = rabbit://\n[x]\ny = z\n'),
    (
        'strange keys',
        b'[devices]\n%$!: x\n"quoted" = y\nenabled\xc2\xa0 = z\n',
    ),
    ('NUL bytes', b'[devices]\nenabled_vgpu_types = a\0b, \0\n'),
    ('brackets', b'[devices]\nenabled_vgpu_types = [a], ]b[\n[vgpu_[a]]\n'),
    ('quotes', b'[devices]\nenabled_vgpu_types = "a, \'b, """\n'),
    ('commas', b'[devices]\nenabled_vgpu_types = ,,,\n'),
    ('a choice that is none', b'[devices]\nunlisted_gpus = maybe\n'),
    ('5000 digits', TYPE + b'max_instances = ' + b'9' * 5000 + b'\n'),
    ('a negative number', TYPE + b'max_instances = -1\n'),
    ('digits of Unicode', TYPE + 'max_instances = ٣\n'.encode()),
    ('no resource class', TYPE + b'resource_class = VCPU\n'),
    ('a resource class with a line', TYPE + b'resource_class = VGPU\n X\n'),
    ('traits of any letters', TYPE + 'traits = Ω, \u202e, x\ty\n'.encode()),
    ('a reference to nothing', b'[devices]\nenabled_vgpu_types = $no\n'),
    ('a reference to a group', b'[devices]\nenabled_vgpu_types = $devices\n'),
    (
        'a reference to itself',
        b'[devices]\nenabled_vgpu_types = $devices.enabled_vgpu_types\n',
    ),
    (
        'references in a circle',
        TYPE + b'max_instances = $vgpu_a.traits\n'
        b'traits = $vgpu_a.max_instances\n',
    ),
    ('a reference cut off', b'[devices]\nenabled_vgpu_types = ${, $, $$\n'),
    ('a long line', b'[devices]\nenabled_vgpu_types = ' + b'a' * 2**20),
    ('many lines', b'[devices]\n' + b'x = y\n' * 10**5),
)
REFUSED = (
    ('binary', bytes(range(256))),
    ('no UTF-8', b'[devices]\n# caf\xe9\n'),
    ('UTF-16', '[devices]\n'.encode('utf-16')),
    ('a byte order mark', b'\xef\xbb\xbf[devices]\n'),
    ('a surrogate', b'[devices]\nx = \xed\xa0\x80\n'),
    ('no section', b'enabled_vgpu_types = a\n'),
    ('a section without an end', b'[devices\nx = y\n'),
    ('a section without a name', b'[]\n'),
    ('no assignment', b'[devices]\nenabled_vgpu_types\n'),
    ('no key', b'[devices]\n= a\n'),
    ('a continuation of nothing', b' x\n'),
    ('huge, and no text', b'\xff' * 2**20),
)

# The stuff that files of this kind are made of.
_WORDS = st.sampled_from(
    (
        *('[devices]', '[vgpu_a]', '[mdev_a]', '[vgpu_', '[', ']', '=', ':'),
        *('enabled_vgpu_types = a', 'enabled_mdev_types = b, a', '$', '${'),
        *('unlisted_gpus', 'device_addresses = 84:00.0', 'max_instances = 1'),
        *('traits', 'mdev_class = VGPU', '$devices', '$vgpu_a.traits', '"'),
        *(',', '#', ';', ' ', '\t', '\n', '\r', '\0', '\n', '\n'),
    )
)
_FILES = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode('utf-8', 'replace')),
    st.lists(_WORDS, max_size=30).map(lambda words: ''.join(words).encode()),
)


class TestStrangeFiles(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.directory / 'nova.conf'

    def load(self, content: bytes) -> values.Configuration:
        self.path.write_bytes(content)
        return configuration.load([str(self.path)], [])

    def plan(self, loaded: values.Configuration) -> values.Plan:
        return mapper.make_plan(
            loaded.plan_input(values.Host(), values.ModesRead())
        )

    def refused(self, *, files: list[str], dirs: list[str]) -> str:
        error = self.assertRaises(
            exception.ConfigFileError,
            configuration.load,
            files,
            dirs,
        )
        self.assertNotIn('Traceback', str(error))
        return str(error)

    def test_odd_contents_are_a_declaration_all_the_same(self) -> None:
        for description, content in DECLARED:
            plan = self.plan(self.load(content))
            for problem in plan.problems:
                self.assertNotEqual('', problem.message, description)

    def test_contents_that_are_no_configuration_are_refused_by_name(
        self,
    ) -> None:
        for description, content in REFUSED:
            self.path.write_bytes(content)
            told = self.refused(files=[str(self.path)], dirs=[])
            self.assertIn(str(self.path), told, description)

    def test_the_bad_one_of_several_files_is_named(self) -> None:
        good = self.directory / 'good.conf'
        good.write_text('[devices]\n')
        self.path.write_bytes(b'\xff')
        told = self.refused(files=[str(good), str(self.path)], dirs=[])
        self.assertIn(str(self.path), told)
        self.assertNotIn(str(good), told)

    def test_a_bad_file_in_a_directory_is_told_with_the_directory(
        self,
    ) -> None:
        for content in (b'\xff', b'no section'):
            self.path.write_bytes(content)
            told = self.refused(files=[], dirs=[str(self.directory)])
            self.assertIn(str(self.directory), told)

    def test_what_is_no_file_is_refused_by_name(self) -> None:
        self.path.symlink_to(self.path)
        for description, path in (
            ('missing', str(self.directory / 'missing.conf')),
            ('a directory', str(self.directory)),
            ('a link in a circle', str(self.path)),
            ('below a file', f'{__file__}/nova.conf'),
            ('a name too long', str(self.directory / ('x' * 300))),
            ('a name like an option', '--help'),
            ('a name with a hyphen', '-x'),
        ):
            self.assertIn(
                path, self.refused(files=[path], dirs=[]), description
            )

    def test_a_directory_that_is_missing_is_refused_by_name(self) -> None:
        for path in (str(self.directory / 'missing'), '--help'):
            self.assertIn(path, self.refused(files=[], dirs=[path]))

    def test_a_file_that_cannot_be_read_is_refused_by_name(self) -> None:
        self.path.write_text('[devices]\n')
        for number in (errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE):

            def failing(
                path: typing.Any,
                *args: typing.Any,
                number: int = number,
                opened: typing.Any = builtins.open,
                **kwargs: typing.Any,
            ) -> typing.Any:
                if path == str(self.path):
                    raise OSError(number, os.strerror(number), path)
                return opened(path, *args, **kwargs)

            with fixtures.MonkeyPatch('builtins.open', failing):
                told = self.refused(files=[str(self.path)], dirs=[])
            self.assertIn(str(self.path), told, os.strerror(number))

    def test_a_reference_to_itself_is_a_value_to_correct(self) -> None:
        problem = self.load(
            b'[devices]\nenabled_vgpu_types = $devices.enabled_vgpu_types\n'
        ).problems[0]
        self.assertIs(values.Severity.FATAL, problem.severity)
        self.assertEqual('[devices]enabled_vgpu_types', problem.subject)

    @SETTINGS
    @hypothesis.given(content=_FILES)
    def test_any_file_is_a_declaration_or_refused_by_name(
        self, content: bytes
    ) -> None:
        try:
            loaded = self.load(content)
        except exception.ConfigFileError as error:
            self.assertIn(str(self.path), str(error))
        else:
            self.plan(loaded)
