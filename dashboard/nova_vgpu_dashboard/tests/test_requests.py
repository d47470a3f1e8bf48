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
"""How much the pages ask of services, in clouds of several sizes."""

import typing

from openstack_dashboard.test import helpers

from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds
from nova_vgpu_dashboard.tests import fake_services


class TestRequests(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        # Horizon's test case refuses all connections. These are on loopback.
        helpers.HTTPConnection.connect = self._real_conn_request

    def count(self, name: str, gpus: int, servers: int) -> int:
        """The requests of a page after the connection was made."""
        listed = [
            clouds.record(f'server-{number}', 'render', 1.0)
            for number in range(servers)
        ]
        with fake_services.Services(gpus, listed) as services:
            cloud: typing.Any = services.connect()
            self.cloud = cloud
            services.seen.clear()
            text = self.read(name).text
            self.assertIn('A40-8Q', text, 'there is something on the page')
            return len(services.seen)

    def test_they_do_not_grow_with_gpus_or_servers(self) -> None:
        for name in (base.TYPES, base.USAGE, base.CREATE):
            few = self.count(name, 10, 10)
            self.assertLess(few, 10, name)
            self.assertEqual(few, self.count(name, 100, 10), name)
            self.assertEqual(few, self.count(name, 100, 1000), name)

    def test_usage_records_come_in_pages_of_a_thousand_servers(self) -> None:
        few = self.count(base.USAGE, 10, 10)
        self.assertEqual(few + 2, self.count(base.USAGE, 10, 2001))
        self.assertEqual(
            self.count(base.TYPES, 10, 10), self.count(base.TYPES, 10, 2001)
        )
