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

"""A real small cloud on loopback: Keystone, Placement, nova-api, Glance."""

import os
import pathlib
import socket
import tempfile

import fixtures
import openstack
from openstack import connection as sdk_connection

from nova_vgpu.tests import proxy
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import service_process

#: The URL of Placement for services, whose requests the proxy is not to count.
ITSELF = 'placement-itself'
_SERVICES = {
    'identity': ('keystone_service', '/v3'),
    'placement': ('placement_service', ''),
    'compute': ('nova_service', '/v2.1'),
    'image': ('glance_service', ''),
}


class RunningCloud(fixtures.Fixture):
    """The services, and a proxy in front of those that are asked much.

    Glance is one of them only where images are asked for, and Nova has
    computes only where servers are to be booted.
    """

    def __init__(
        self, has_images: bool = False, has_computes: bool = False
    ) -> None:
        super().__init__()
        self._modules = {
            name: module
            for name, (module, _) in _SERVICES.items()
            if has_images or name != 'image'
        }
        if has_computes:
            self._modules['compute'] = 'whole_nova_service'
        self._services = list(self._modules)

    def _setUp(self) -> None:
        # In memory where that can be: waiting for a disk is not tested here.
        shm = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        directory = tempfile.TemporaryDirectory(dir=shm)
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        sockets = {
            name: socket.create_server(('127.0.0.1', 0))
            for name in self._services
        }
        own = {
            name: f'http://127.0.0.1:{listener.getsockname()[1]}'
            for name, listener in sockets.items()
        }
        self.proxies: dict[str, proxy.Proxy] = {}
        for name in self._services[1:]:
            running = proxy.run_proxy(own[name])
            self.proxies[name] = running.__enter__()
            self.addCleanup(running.__exit__, None, None, None)
        self.urls = {
            name: (self.proxies[name].url if name in self.proxies else url)
            + _SERVICES[name][1]
            for name, url in own.items()
        }
        self.urls[ITSELF] = own['placement']
        package = __name__.rpartition('.')[0]
        for name, listener in sockets.items():
            module = f'{package}.{self._modules[name]}'
            self.useFixture(
                service_process.ServiceProcess(
                    module, self.path, listener, self.urls
                )
            )

    def environment(self, user: str, project: str) -> dict[str, str]:
        """The variables by which the client logs in."""
        return {
            'OS_AUTH_URL': self.urls['identity'],
            'OS_IDENTITY_API_VERSION': '3',
            'OS_USERNAME': user,
            'OS_PASSWORD': user,
            'OS_PROJECT_NAME': project,
            'OS_USER_DOMAIN_NAME': 'Default',
            'OS_PROJECT_DOMAIN_NAME': 'Default',
            'OS_REGION_NAME': accounts.REGION,
        }

    def connect(
        self, user: str = accounts.ADMIN, project: str = accounts.ADMIN
    ) -> sdk_connection.Connection:
        connection: sdk_connection.Connection = openstack.connect(
            load_envvars=False,
            load_yaml_config=False,
            auth_url=self.urls['identity'],
            username=user,
            password=user,
            project_name=project,
            user_domain_name='Default',
            project_domain_name='Default',
            region_name=accounts.REGION,
        )
        return connection
