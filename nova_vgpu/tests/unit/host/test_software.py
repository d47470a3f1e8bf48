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

"""The versions of what a host runs guests with."""

import pathlib

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.host import software

RELEASE = '6.12.117+deb13-amd64'


class SoftwareTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path

    def write(self, path: str, text: str) -> None:
        full = pathlib.Path(self.root) / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def read(self) -> values.HostSoftware:
        return software.read_kernel(self.root)

    def test_a_host_with_nothing(self) -> None:
        self.assertEqual(values.UNKNOWN_SOFTWARE, self.read())

    def test_a_kernel_and_a_driver(self) -> None:
        self.write('proc/sys/kernel/osrelease', f'{RELEASE}\n')
        self.write('sys/module/nvidia/version', '550.144.02\n')
        self.assertEqual(
            values.HostSoftware(kernel=RELEASE, driver='550.144.02'),
            self.read(),
        )

    def test_where_distributions_have_the_configuration(self) -> None:
        self.write('proc/sys/kernel/osrelease', RELEASE)
        # As long as a real one.
        rest = '# CONFIG_A is not set\n' * 15000
        for path in (
            f'usr/lib/modules/{RELEASE}/config',
            f'boot/config-{RELEASE}',
        ):
            for line, expected in (
                ('CONFIG_IOMMUFD_DRIVER=y', True),
                ('# CONFIG_IOMMUFD is not set', False),
            ):
                self.write(path, f'{rest}{line}\n')
                self.assertIs(expected, self.read().dma_logging, path)

    def test_a_release_that_leads_elsewhere(self) -> None:
        self.write('proc/sys/kernel/osrelease', '../../etc')
        self.assertEqual(values.UNKNOWN_SOFTWARE, self.read())

    def test_versions_of_libvirt(self) -> None:
        self.assertEqual((8, 2, 2), software.parse_version(8002002))
        self.assertEqual((10, 0, 13), software.parse_version(10000013))
