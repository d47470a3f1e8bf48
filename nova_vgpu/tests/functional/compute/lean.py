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

"""Nova with as little around vGPUs as possible, for tests with many servers.

Most of the time of such a test goes into what it is not about.
"""

import logging
import typing

import fixtures
from nova import context
from nova.db.main import api as main_db

from nova_vgpu.tests.functional.compute import simulated
from nova_vgpu.tests.functional.compute import test_servers

_TARGET_CELL = context.target_cell


class LeanTestBase(test_servers.OurTestBase):
    """Small servers, each with a vGPU and no network."""

    type_name: str
    #: How the flavor asks for a vGPU.
    asking = 'resources:VGPU'

    def setUp(self) -> None:
        # Only vGPUs are to be short.
        self.flags(initial_cpu_allocation_ratio=16.0)
        self.flags(driver='nova.quota.NoopQuotaDriver', group='quota')
        self.flags(notification_format='versioned', group='notifications')
        super().setUp()
        # Nova's tests put every message into words, wanted or not.
        logging.disable(logging.INFO)
        self.addCleanup(logging.disable, logging.NOTSET)
        if not self.CAST_AS_CALL:
            self.useFixture(CellsByContext())
        self.flavor = self._create_flavor(
            memory_mb=64,
            vcpu=1,
            disk=0,
            ephemeral=0,
            extra_spec={self.asking: '1'},
        )
        self.declare(self.type_name)

    def request(self, host: str | None = None, **more: object) -> typing.Any:
        """Ask for a server, or for many of them."""
        body = self._build_server(
            image_uuid=simulated.IMAGE,
            flavor_id=self.flavor,
            networks='none',
            host=host,
        )
        return self.api.post_server({'server': {**body, **more}})


class CellsByContext(fixtures.Fixture):
    """The database of a cell goes by the context alone, as outside of tests.

    Nova's fixture for tests has one cell for the whole process at a time, and
    lets threads that want another one wait.
    """

    def _setUp(self) -> None:
        default = main_db.get_context_manager(context.get_admin_context())

        def get_context_manager(its_context: typing.Any) -> typing.Any:
            return getattr(its_context, 'db_connection', None) or default

        for owner, name, function in (
            (context, 'target_cell', _TARGET_CELL),
            (main_db, 'get_context_manager', get_context_manager),
        ):
            self.useFixture(fixtures.MockPatchObject(owner, name, function))
