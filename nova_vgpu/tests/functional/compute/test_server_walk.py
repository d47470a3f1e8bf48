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

"""The walk of one server through the driver."""

import typing
import unittest

import fixtures

from nova_vgpu.tests import walks
from nova_vgpu.tests.functional.compute import test_servers


class ServerWalkTest(test_servers.OurTestBase):
    #: Of the class: Nova's tests empty their instances in the end.
    walk: typing.ClassVar[walks.Walk]

    def test_the_page_is_right(self) -> None:
        self.declare('T4-2Q')
        driver = self.start_host('host1', test_servers.t4()).driver
        spawn = driver.spawn

        def recorded(*args: object, **kwargs: object) -> None:
            # In the thread that Nova calls it in, and there only.
            type(self).walk = walks.record(lambda: spawn(*args, **kwargs))

        self.useFixture(fixtures.MockPatchObject(driver, 'spawn', recorded))
        self.boot()
        self.assertEqual(
            [], walks.find_mistakes(walks.SERVER_TITLE, self.walk)
        )


def walk_server() -> walks.Walk:
    """A server with a vGPU is built on a host with one GPU."""
    test: typing.Any = ServerWalkTest('test_the_page_is_right')
    test.run(unittest.TestResult())
    return ServerWalkTest.walk
