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

"""The benchmarks work, and what they count is what is promised.

How long things take is no matter of tests.
"""

import json
import os
import pathlib
import subprocess
import sys
import typing

import fixtures
import testtools

ROOT = pathlib.Path(__file__).parents[3]


class BenchmarksTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.output = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def run_quickly(self, *what: str) -> list[dict[str, typing.Any]]:
        """Run them on small hosts; gives what they have measured."""
        ended = subprocess.run(
            [
                *(sys.executable, '-m', 'benchmarks', *what),
                *('--quick', '--output', str(self.output)),
            ],
            cwd=ROOT,
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, ended.returncode, ended.stderr)
        table = (self.output / 'table.out').read_text()
        self.assertIn(table, ended.stdout)
        found: list[dict[str, typing.Any]] = json.loads(
            (self.output / 'measurements.json').read_text()
        )
        return found

    def test_inventory(self) -> None:
        measured = self.run_quickly('inventory')
        self.assertEqual(10, len(measured))
        for each in measured:
            stock, ours = each['stock']['counts'], each['ours']['counts']
            # A report reads sysfs alone.
            self.assertEqual(0, ours['libvirt calls'], each['what'])
            self.assertEqual(0, ours['bytes of XML'], each['what'])
            self.assertGreater(stock['libvirt calls'], each['scene']['VFs'])
            if not each['what'].startswith('first'):
                self.assertEqual(0, ours['providers changed'])
        plots = sorted(path.name for path in self.output.glob('*.png'))
        self.assertEqual(
            [
                f'inventory-{what}.png'
                for what in ('first', 'one', 'unchanged')
            ],
            plots,
        )

    def test_allocation(self) -> None:
        new, left, storm = self.run_quickly('allocation')
        ours = new['ours']['counts']
        # Whether there are inactive mdevs, and the parent of the new one.
        self.assertEqual(2, ours['libvirt calls'])
        self.assertEqual(0, ours['bytes of XML'])
        # All guests are asked before something that is there is given away.
        self.assertGreater(left['ours']['counts']['bytes of XML'], 0)
        self.assertEqual(0, storm['ours']['counts']['vGPUs given twice'])

    def test_weighing(self) -> None:
        reading, with_vgpu, plain = self.run_quickly('weighing')
        for each in (reading, with_vgpu, plain):
            self.assertEqual(10, each['scene']['hosts'])
            self.assertIsNotNone(each['ratio'])
        self.assertIn('without a vGPU', plain['what'])

    def test_what_there_is_not(self) -> None:
        ended = subprocess.run(
            [sys.executable, '-m', 'benchmarks', 'inventroy'],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(2, ended.returncode)
        self.assertIn('inventroy, not one of inventory', ended.stderr)
