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


"""The quickstart, followed word for word on a simulated host."""

import configparser
import io
import pathlib
import re
import shlex
import textwrap
import typing

import fixtures
import testtools

from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / 'doc' / 'source' / 'admin' / 'quickstart.rst'
UNITS = '/opt/nova-vgpu/lib/systemd/system/nova-vgpu-*.service'

# What a test cannot do: it installs packages, and talks to systemd.
NOT_RUN = (
    r'apt-get install [\w -]+',
    r'python3 -m venv --system-site-packages /opt/nova-vgpu',
    r"/opt/nova-vgpu/bin/pip install -c constraints.txt '.\[agent\]'",
    r'ln -st /usr/local/bin /opt/nova-vgpu/bin/nova-vgpu',
    r'systemctl (daemon-reload|disable --now [\w -]+)',
)


class Step(typing.NamedTuple):
    """A command, and what the page says that it prints."""

    command: str
    output: list[str]


def list_steps(text: str) -> list[Step]:
    """Every command of the page, in order."""
    found: list[Step] = []
    for _, block in re.findall(
        r'^( *)\.\. code-block:: console\n\n((?:\1   .*\n|\n)+)',
        text,
        re.MULTILINE,
    ):
        for line in textwrap.dedent(block).strip().splitlines():
            if line.startswith('# '):
                found.append(Step(line.removeprefix('# '), []))
            else:
                found[-1].output.append(line)
    return found


class TestQuickstart(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not PAGE.exists():
            self.skipTest('the documentation is not part of a wheel')
        self.host = self.useFixture(
            live.LiveHost(hosts.gpu('0000:41:00.0', boards.A40))
        )
        self.root = self.host.path / 'root'
        self.useFixture(fixtures.FakeLogger())
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))
        nova = self.root / 'etc' / 'nova'
        nova.mkdir(parents=True)
        (nova / 'nova.conf').write_text('[DEFAULT]\n')
        for finder, name in (
            ('find_config_files', 'nova.conf'),
            ('find_config_dirs', 'nova.conf.d'),
        ):
            path = nova / name
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'oslo_config.cfg.{finder}',
                    lambda *_a, path=path, **_k: [str(path)] * path.exists(),
                )
            )

    def run_program(self, line: str) -> str:
        """Run a command of nova-vgpu, perhaps into a file."""
        words, _, target = line.partition(' > ')
        stdout, terminal = io.StringIO(), io.StringIO()
        code = live.Program(
            self.host,
            stdout=stdout if target else terminal,
            stderr=terminal,
        ).run(shlex.split(words))
        printed = terminal.getvalue().replace(str(self.root), '')
        self.assertEqual(0, code, f'{line}:\n{printed}')
        if target:
            (self.root / target.lstrip('/')).write_text(stdout.getvalue())
        return printed

    def follow(self, command: str) -> str:
        """Do what a reader would do; returns what is printed."""
        program, _, rest = command.partition(' ')
        if program == 'nova-vgpu':
            return self.run_program(rest)
        if command.startswith('mkdir -p '):
            path = rest.removeprefix('-p ').lstrip('/')
            (self.root / path).mkdir(parents=True, exist_ok=True)
        elif command == f'cp {UNITS} /etc/systemd/system':
            setup = configparser.ConfigParser()
            setup.read(ROOT / 'setup.cfg')
            self.assertIn('lib/systemd/system', setup['files']['data_files'])
        elif command.startswith('systemctl enable --now '):
            for unit in rest.split()[2:]:
                file = ROOT / 'etc' / 'systemd' / f'{unit}.service'
                self.assertTrue(file.exists(), unit)
            self.run_program('apply')
        else:
            self.assertTrue(
                any(re.fullmatch(known, command) for known in NOT_RUN), command
            )
        return ''

    def test_every_command_works_and_prints_what_the_page_says(self) -> None:
        steps = list_steps(PAGE.read_text())
        self.assertGreater(len(steps), 12)
        for command, expected in steps:
            printed = self.follow(command).rstrip().splitlines()
            pattern = '\n'.join(
                r'(?:.*\n)*?.*' if line == '...' else re.escape(line)
                for line in expected
            )
            text = '\n'.join(printed)
            self.assertRegex(text, rf'\A{pattern}\Z', command)
        self.assertEqual(0, self.host.describe()['0000:41:00.0 VFs'])
