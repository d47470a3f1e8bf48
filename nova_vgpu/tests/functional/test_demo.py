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

"""The demonstration, run as its reader runs it."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys

import fixtures
import testtools

# A process that was started in the background, as tests may be, ignores the
# signal of Ctrl-C, and so would its children.
_AS_ON_A_TERMINAL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from nova_vgpu.cmd import main
sys.exit(main.main(['demo']))
"""


class DemoTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # Should the demonstration hang, the tests must not.
        self.useFixture(fixtures.Timeout(180, gentle=True))
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    @contextlib.contextmanager
    def demo(self) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [sys.executable, '-c', _AS_ON_A_TERMINAL],
            env={**os.environ, 'TMPDIR': str(self.directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def stop_after(self, words: str, number: signal.Signals) -> int:
        """Send a signal once the demonstration has said the words."""
        with self.demo() as process:
            assert process.stdout is not None
            for line in process.stdout:
                if words in line:
                    self.server = self.find_server()
                    process.send_signal(number)
                    break
            else:
                self.fail(f'the demonstration never said {words!r}')
            rest = process.stdout.read()
            self.assertNotIn('Traceback', rest)
            return process.wait()

    def find_server(self) -> int:
        """The process id of the Placement below this test's directory."""
        wanted = str(self.directory).encode()
        for entry in pathlib.Path('/proc').iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                words = (entry / 'cmdline').read_bytes().split(b'\0')
                if words[-2:-1] and words[-2].startswith(wanted):
                    return int(entry.name)
        return self.fail('no Placement is running')

    def wait_for_end(self, process_id: int) -> None:
        """Wait until a process is gone; not for a fixed time."""
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process_id)
            self.addCleanup(os.close, descriptor)
            poller = select.poll()  # a pidfd becomes readable at the end
            poller.register(descriptor, select.POLLIN)
            self.assertTrue(poller.poll(30_000), 'Placement lives on')

    def test_it_walks_the_whole_job_and_leaves_nothing_behind(self) -> None:
        with self.demo() as process:
            text, _ = process.communicate()
        self.assertEqual(0, process.returncode, text)
        for expected in (
            'vendor VFIO',
            'nova-vgpu sriov enable 0000:c1:00.0',
            'compute1_pci_0000_41_00_0',
            'Second time: 0 requests',
            'trait:CUSTOM_VGPU_TYPE_A40_8Q=required\n'
            '    -> compute1_pci_0000_41_00_0\n',
            'GPU 0000:85:00.0 is listed',
            'Did you mean 0000:84:00.0?',
            'InvalidLibvirtGPUConfig: nova-compute does not start',
        ):
            self.assertIn(expected, text)
        self.assertNotIn('Traceback', text)
        self.assertEqual([], list(self.directory.iterdir()))

    def test_ctrl_c_stops_what_it_started(self) -> None:
        code = self.stop_after('First time', signal.SIGINT)
        self.assertEqual(130, code)
        self.wait_for_end(self.server)
        self.assertEqual([], list(self.directory.iterdir()))

    def test_sigterm_stops_what_it_started(self) -> None:
        self.stop_after('First time', signal.SIGTERM)
        self.wait_for_end(self.server)
        self.assertEqual([], list(self.directory.iterdir()))

    def test_placement_does_not_outlive_a_demo_that_was_killed(self) -> None:
        self.stop_after('First time', signal.SIGKILL)
        self.wait_for_end(self.server)
