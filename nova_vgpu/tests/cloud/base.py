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

"""A cloud for all tests of a class, and ``openstack`` as users run it."""

import os
import pathlib
import subprocess
import sys
import textwrap
import typing

from openstack import connection as sdk_connection
import testtools

from nova_vgpu.cloud import reader
from nova_vgpu.tests import placements
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import running

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = ROOT / 'doc' / 'source' / 'examples'
OPENSTACK = pathlib.Path(sys.executable).with_name('openstack')


class CloudTest(testtools.TestCase):
    """One cloud for all tests of the class, which leave it as it was.

    Some run the program, each time in a process of its own. The others use
    the reader of the commands, which takes less time.
    """

    #: Whether the cloud has Glance.
    has_images = False
    cloud: typing.ClassVar[running.RunningCloud]
    connection: typing.ClassVar[sdk_connection.Connection]
    placement: typing.ClassVar[filling.Placement]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cloud = running.RunningCloud(cls.has_images)
        cls.cloud.setUp()
        cls.addClassCleanup(cls.cloud.cleanUp)
        cls.connection = cls.cloud.connect()
        cls.placement = filling.Placement(cls.connection)
        filling.fill(cls.connection)

    def setUp(self) -> None:
        super().setUp()
        self.reader = reader.Cloud(self.connection, placements.PATIENT)
        for each in self.cloud.proxies.values():
            each.reset()

    def run_command(
        self,
        *words: str,
        user: str = accounts.ADMIN,
        project: str = accounts.ADMIN,
    ) -> tuple[int, str, str]:
        """The exit code, what is data, and what is said beside it."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith('OS_')
        }
        done = subprocess.run(
            [str(OPENSTACK), 'vgpu', *words],
            env=environment
            | self.cloud.environment(user, project)
            | {'COLUMNS': '80', 'PYTHONWARNINGS': 'ignore'},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        self.assertNotIn('Traceback', done.stdout + done.stderr)
        return done.returncode, done.stdout, done.stderr

    def compare(self, name: str, *words: str) -> None:
        """A command on the page, and what it prints here."""
        if not EXAMPLES.is_dir():
            self.skipTest('the documentation is not part of a wheel')
        code, stdout, stderr = self.run_command(*words)
        self.assertEqual((0, ''), (code, stderr))
        lines = textwrap.wrap(
            f'$ openstack vgpu {" ".join(words)}',
            77,
            subsequent_indent='    ',
            break_on_hyphens=False,
        )
        text = ' \\\n'.join(lines) + f'\n{stdout}'
        path = EXAMPLES / name
        # To write them again, empty the files and run this test.
        if path.exists() and not path.read_text():
            path.write_text(text)
        self.assertEqual(path.read_text(), text)
        self.assertLessEqual(max(map(len, stdout.splitlines())), 80)
