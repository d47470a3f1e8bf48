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

"""Which kernels have DMA logging."""

import testtools

from nova_vgpu.knowledge import kernels

DEBIAN_13 = '# CONFIG_IOMMUFD is not set\nCONFIG_VFIO=m\n'
UBUNTU = 'CONFIG_IOMMUFD=m\nCONFIG_IOMMUFD_DRIVER=y\n'


class KernelsTest(testtools.TestCase):
    def test_dma_logging(self) -> None:
        for description, release, configuration, expected in (
            ('Debian 13', '6.12.117+deb13-amd64', DEBIAN_13, False),
            ('Ubuntu 24.04', '6.8.0-31-generic', UBUNTU, True),
            ('Debian 12, before IOMMUFD had it', '6.1.0-18', DEBIAN_13, True),
            ('the last one before', '6.6.9', None, True),
            ('Red Hat, backported', '5.14.0-503.el9', UBUNTU, True),
            ('Red Hat, not known', '5.14.0-427.el9', DEBIAN_13, None),
            ('before VFIO had it', '6.0.0', None, None),
            ('in a container, without /boot', '6.12.1', None, None),
            ('nothing of the kind', 'x', None, None),
        ):
            self.assertIs(
                expected,
                kernels.has_dma_logging(release, configuration),
                description,
            )
