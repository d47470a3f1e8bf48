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

"""The walk of one GPU through the driver."""

import pathlib
import subprocess
import sys

import testtools

ROOT = pathlib.Path(__file__).parents[3]


class GPUWalkTest(testtools.TestCase):
    def test_the_page_is_right(self) -> None:
        ended = subprocess.run(
            [sys.executable, '-m', 'nova_vgpu.tests.walks', 'gpu'],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, ended.returncode, ended.stderr)
