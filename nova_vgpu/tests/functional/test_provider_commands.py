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

"""The commands about providers, as an operator runs them.

What they print on the demonstration's host is in the documentation: it is kept
in ``doc/source/examples`` and compared here.
"""

import io
import json
import pathlib
import subprocess
import sys
import typing

import fixtures

from nova_vgpu.cmd import main
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import placement
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import placements

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = ROOT / 'doc' / 'source' / 'examples'
NODE = 'compute1'
GPUS = {
    'pci_0000_41_00_4': 1,
    'pci_0000_41_00_5': 1,
    'pci_0000_84_00_0': 8,
    'pci_0000_85_00_0': 8,
}
SECRET = 'admin:no-project'  # that of an administrator, too


class ProviderTestCase(placements.PlacementTestCase):
    #: Of the program, as a page has them.
    shown_options = ''
    #: Commands only read it: once for all tests of a class.
    sysfs: typing.ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        directory = fixtures.TempDir()
        directory.setUp()
        cls.addClassCleanup(directory.cleanUp)
        cls.sysfs = pathlib.Path(directory.path) / 'sys'
        tree.write_tree(cls.simulate(), cls.sysfs)

    @classmethod
    def simulate(cls) -> simulation.SimulatedHost:
        return simulation.demo_host()

    def setUp(self) -> None:
        super().setUp()
        if not EXAMPLES.is_dir():
            self.skipTest('the documentation is not part of a wheel')
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        # In place of what there is in /etc/nova.
        self.config_dir = self.directory / 'conf.d'
        self.config_dir.mkdir()
        (self.config_dir / 'placement.conf').write_text(
            placement.access(self.proxy.url, SECRET)
        )
        self.config = str(EXAMPLES / 'several-types.conf')
        self.codes: list[int] = []

    def options(self) -> list[str]:
        return [
            f'--sysfs-root={self.sysfs}',
            f'--config-file={self.config}',
            f'--config-dir={self.config_dir}',
        ]

    def run_command(
        self, *words: str, node: str = NODE
    ) -> tuple[int, str, str]:
        """The exit code, what is data, and what is said beside it."""
        stdout, stderr = io.StringIO(), io.StringIO()
        self.proxy.reset()
        code = main.NovaVGPU(stdout=stdout, stderr=stderr).run(
            [*self.options(), 'provider', *words, '--node', node]
        )
        both = stdout.getvalue() + stderr.getvalue()
        self.assertNotIn('Traceback', both)
        self.assertNotIn(SECRET, both)
        return code, stdout.getvalue(), stderr.getvalue()

    def compare(self, name: str, *words: str) -> None:
        """A command on the page, and what it prints here."""
        code, stdout, stderr = self.run_command(*words)
        shown = ' '.join(words)
        text = (
            f'$ nova-vgpu {self.shown_options}provider {shown} --node {NODE}\n'
            f'{stdout}{stderr}'
        )
        path = EXAMPLES / name
        # To write them anew, empty the files and run this test.
        if path.exists() and not path.read_text():
            path.write_text(text)
        self.assertEqual(path.read_text(), text)
        self.assertLessEqual(
            max(len(line) for line in stdout.splitlines() or ['']), 80
        )
        self.codes.append(code)

    def make_novas_tree(self) -> None:
        """What nova-compute made of the demonstration's host."""
        self.operator.create(NODE)
        self.operator.set_inventory(NODE, VCPU=64, MEMORY_MB=524288)
        self.operator.add_traits(NODE, 'COMPUTE_NODE', 'HW_CPU_X86_AVX2')
        for device, total in GPUS.items():
            name = f'{NODE}_{device}'
            self.operator.create(name, NODE)
            self.operator.set_inventory(name, VGPU=total)
            self.operator.add_traits(name, 'OWNER_NOVA')
        self.operator.add_traits(f'{NODE}_pci_0000_84_00_0', 'CUSTOM_RACK_7')
        self.operator.add_traits(
            f'{NODE}_pci_0000_85_00_0',
            'CUSTOM_VGPU_TYPE_T4_8C',
            'CUSTOM_VGPU_FRAMEBUFFER_8G',
        )
        self.operator.allocate(f'{NODE}_pci_0000_85_00_0', amount=2)


class ExamplesTest(ProviderTestCase):
    """In the order of the page, each on what the one before left."""

    def test_they_are_real(self) -> None:
        self.make_novas_tree()
        self.compare('provider-diff.console', 'diff')
        self.compare('provider-sync.console', 'sync')
        self.compare('provider-show.console', 'show')
        self.compare('provider-refused.console', 'sync', '--mode', 'full')
        self.assertEqual([1, 0, 0, 2], self.codes)


class CommandsTest(ProviderTestCase):
    def test_show_is_complete_for_machines(self) -> None:
        self.make_novas_tree()
        code, stdout, _ = self.run_command('show', '-f', 'json')
        self.assertEqual(0, code)
        found: dict[str, typing.Any] = {
            row['Provider']: row for row in json.loads(stdout)
        }
        self.assertEqual(NODE, next(iter(found)))
        self.assertEqual(
            ['COMPUTE_NODE', 'HW_CPU_X86_AVX2'], found[NODE]['Traits']
        )
        used = found[f'{NODE}_pci_0000_85_00_0']
        self.assertEqual(found[NODE]['UUID'], used['Parent UUID'])
        self.assertEqual(
            [
                {
                    'resource_class': 'VGPU',
                    'total': 8,
                    'reserved': 0,
                    'min_unit': 1,
                    'max_unit': 8,
                    'step_size': 1,
                    'allocation_ratio': 1.0,
                    'used': 2,
                }
            ],
            used['Inventory'],
        )

    def test_a_node_that_is_not_there(self) -> None:
        for words in (('diff',), ('sync',), ('sync', '--dry-run')):
            code, stdout, stderr = self.run_command(*words, node='other')
            self.assertEqual(2, code, str(words))
            self.assertIn('no provider other', stderr)
            self.assertEqual('', stdout.strip())
        code, _, stderr = self.run_command('show', node='other')
        self.assertEqual(2, code)
        self.assertIn('no provider other', stderr)
        self.assertEqual([], self.proxy.writes)

    def test_a_dry_run_says_what_a_sync_does_and_writes_nothing(self) -> None:
        self.make_novas_tree()
        code, said, stderr = self.run_command('sync', '--dry-run')
        self.assertEqual(0, code)
        self.assertIn('to make', stderr)
        self.assertEqual([], self.proxy.writes)
        code, done, _ = self.run_command('sync')
        self.assertEqual((0, said), (code, done))
        self.assertNotEqual([], self.proxy.writes)
        code, done, _ = self.run_command('sync')
        self.assertEqual((0, ''), (code, done))
        self.assertEqual([], self.proxy.writes)

    def test_diff_says_whether_they_agree(self) -> None:
        self.config = str(self.directory / 'nova.conf')
        pathlib.Path(self.config).write_text(
            '[devices]\nenabled_vgpu_types = T4-2Q\nunlisted_gpus = ignore\n'
            '[vgpu_T4-2Q]\ndevice_addresses = 84:00.0\n'
        )
        self.make_novas_tree()
        self.assertEqual(1, self.run_command('diff')[0])
        self.assertEqual(0, self.run_command('sync')[0])
        code, _, stderr = self.run_command('diff')
        self.assertEqual(0, code)
        self.assertIn('The traits in Placement agree', stderr)

    def test_inventories_are_compared_on_a_tree_of_novas_too(self) -> None:
        self.make_novas_tree()
        name = f'{NODE}_pci_0000_84_00_0'
        self.operator.set_inventory(name, VGPU=3)
        self.proxy.reset()
        code, stdout, _ = self.run_command('diff', '--mode', 'full')
        self.assertEqual(1, code)
        self.assertIn('VGPU: 3 -> ', stdout)
        self.assertEqual([], self.proxy.writes)
        self.assertEqual(2, self.run_command('sync', '--mode', 'full')[0])
        self.assertEqual([], self.proxy.writes)

    def test_a_mistake_in_the_configuration_is_refused(self) -> None:
        self.make_novas_tree()
        self.config = str(EXAMPLES / 'conflicting.conf')
        for command in ('diff', 'sync'):
            code, stdout, stderr = self.run_command(command)
            self.assertEqual((2, ''), (code, stdout))
            self.assertIn('0000:85:00.0', stderr)
        self.assertEqual([], self.proxy.seen)

    def test_full_mode_on_a_tree_of_our_own(self) -> None:
        full = ('--mode', 'full', '--create-root')
        self.assertEqual(1, self.run_command('diff', *full)[0])
        code, stdout, _ = self.run_command('sync', *full)
        self.assertEqual(0, code)
        self.assertIn('VGPU: none -> 6', stdout)
        self.assertEqual(0, self.run_command('diff', *full)[0])

    def test_options_of_the_full_mode_are_refused_without_it(self) -> None:
        self.make_novas_tree()
        for command in ('diff', 'sync'):
            for options in (('--force',), ('--create-root', '--force')):
                for mode in ((), ('--mode', 'traits')):
                    words = (command, *mode, *options)
                    code, stdout, stderr = self.run_command(*words)
                    self.assertEqual((2, ''), (code, stdout), str(words))
                    self.assertIn(' and '.join(options), stderr)
                    self.assertIn('--mode full', stderr)
        self.assertEqual([], self.proxy.seen)

    def test_a_cloud_by_name(self) -> None:
        self.make_novas_tree()
        (self.config_dir / 'placement.conf').unlink()
        clouds = self.directory / 'clouds.yaml'
        auth = {'endpoint': self.proxy.url, 'token': SECRET}
        cloud = {'auth_type': 'admin_token', 'auth': auth}
        clouds.write_text(json.dumps({'clouds': {'north': cloud}}))
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', str(clouds))
        )
        self.assertEqual(0, self.run_command('sync', '--os-cloud', 'north')[0])
        self.assertNotEqual([], self.proxy.writes)
        code, stdout, stderr = self.run_command('show', '--os-cloud', 'south')
        self.assertEqual((2, ''), (code, stdout))
        self.assertIn('south', stderr)

    def test_the_log_has_no_secrets(self) -> None:
        self.make_novas_tree()
        done = subprocess.run(
            [
                *(sys.executable, '-m', 'nova_vgpu', '--debug'),
                *(*self.options(), 'provider', 'sync', '--node', NODE),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertIn('/resource_providers', done.stderr)
        self.assertNotIn(SECRET, done.stdout + done.stderr)
