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

"""The walks of one GPU and of one server through the driver."""

import pathlib
import subprocess
import sys
import typing
import unittest

import testtools

from nova_vgpu.tests import walks
from nova_vgpu.tests.functional.compute import test_servers

ROOT = pathlib.Path(__file__).parents[4]


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


class ServerWalkTest(test_servers.OurTestBase):
    #: Of the class: Nova's tests empty their instances in the end.
    walk: typing.ClassVar[walks.Walk]

    def setUp(self) -> None:
        self.recorder = walks.Recorder()
        installed = self.recorder.installed()
        installed.__enter__()
        self.addCleanup(installed.__exit__, None, None, None)
        super().setUp()

    def test_the_page_is_right(self) -> None:
        self.declare('T4-2Q')
        self.start_host('host1', test_servers.t4())
        with self.recorder.recording('.spawn') as walk:
            self.boot()
        type(self).walk = walk
        self.assertEqual([], walks.find_mistakes(walks.SERVER_TITLE, walk))


def walk_server() -> walks.Walk:
    """A server with a vGPU is built on a host with one GPU."""
    test: typing.Any = ServerWalkTest('test_the_page_is_right')
    test.run(unittest.TestResult())
    return ServerWalkTest.walk
