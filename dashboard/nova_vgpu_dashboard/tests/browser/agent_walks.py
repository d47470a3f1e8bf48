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

"""The pages about what agents know, in a browser."""

import json
import os
import pathlib

import fixtures
import testtools

from nova_vgpu.tests import certificates
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import running as cloud_running
from nova_vgpu.tests.cloud import scene
from nova_vgpu_dashboard.tests.browser import chromium
from nova_vgpu_dashboard.tests.browser import pages
from nova_vgpu_dashboard.tests.browser import running
from nova_vgpu_dashboard.tests.browser import scraping

_GPU = scene.GPUS[2]
PAGES = {
    'virtual-functions': '/admin/virtual_functions/',
    'gpu-with-agent': f'/admin/gpus/{_GPU.uuid}/',
}


class TestAgentPages(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        authority = certificates.Authority(directory, 'ca')
        started = self.useFixture(scraping.Agents(authority))
        ports = [started.start(_GPU.host)[0], started.start('old', 900)[0]]
        served = self.useFixture(
            scraping.RunningPrometheus(directory, authority, ports)
        )
        setting = {
            'url': served.url,
            'ca': authority.certificate,
            'username': scraping.USER,
            'password': scraping.HIDDEN,
        }
        self.useFixture(
            fixtures.EnvironmentVariable(
                'NOVA_VGPU_PROMETHEUS', json.dumps(setting)
            )
        )
        cloud = self.useFixture(cloud_running.RunningCloud())
        horizon = self.useFixture(running.RunningHorizon(cloud))
        filling.fill(cloud.connect())
        self.admin = self.useFixture(
            chromium.Chromium(horizon.url, accounts.ADMIN)
        )

    def test_pages_fit_the_window_and_have_no_barriers(self) -> None:
        axe = pathlib.Path(os.environ['NOVA_VGPU_AXE']).read_text()
        self.admin.read_errors()
        for name, path in PAGES.items():
            for size in pages.SIZES:
                self.admin.resize(size)
                self.admin.open(path)
                self.assertEqual([], self.admin.read_errors(), name)
                self.assertEqual(0, self.admin.overflow, f'{name} {size}')
                self.assertIn('0000:41:00.4', self.admin.text)
                self.assertIn('32 of 32 enabled', self.admin.text)
            self.assertEqual([], self.admin.find_barriers(axe), name)
        self.assertIn(
            scraping.SERVER,
            self.open_filtered('use=server'),
        )
        self.assertNotIn(scraping.SERVER, self.open_filtered('use=free'))

    def open_filtered(self, query: str) -> str:
        self.admin.open(f'{PAGES["virtual-functions"]}?{query}')
        return self.admin.text
