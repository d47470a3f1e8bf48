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

import subprocess
import sys

import testtools

from nova_vgpu.tests.functional import two_processes


class TestTwoProcesses(testtools.TestCase):
    def test_no_vgpu_is_lost_or_given_twice_and_nobody_waits(self) -> None:
        done = subprocess.run(
            [sys.executable, two_processes.__file__],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=two_processes.SECONDS + 2 * two_processes.PATIENCE,
        )
        self.assertEqual(0, done.returncode, done.stdout)
        sys.stdout.write(done.stdout)
