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

"""sysfs, as nova-compute reads it."""

import errno

import testtools

from nova_vgpu.compute import host_files
from nova_vgpu.host import files

ADDRESS = '0000:0c:00.0'


class AsUser(host_files.HostFiles):
    """sysfs for a user who may read no file."""

    def _read(self, path: str) -> bytes:
        raise files.Unreadable(path, 'permission denied') from (
            PermissionError(path)
        )


class HostFilesTest(testtools.TestCase):
    """GIM's files are for root alone, and nova-compute is not root."""

    def setUp(self) -> None:
        super().setUp()
        self.asked: list[tuple[str, str]] = []

    def read_as_root(self, gpu: str, name: str) -> str:
        self.asked.append((gpu, name))
        return 'memory_partition_mode: NPS4'

    def test_novas_helper_reads_how_a_gpu_is_partitioned(self) -> None:
        tree = AsUser('/sys', self.read_as_root)
        where = (*files.PCI, ADDRESS)
        self.assertEqual(
            'memory_partition_mode: NPS4',
            tree.read(*where, 'memory_partition_mode'),
        )
        self.assertEqual([(ADDRESS, 'memory_partition_mode')], self.asked)

    def test_and_nothing_else(self) -> None:
        tree = AsUser('/sys', self.read_as_root)
        for name in ('vendor', 'reset_gpu'):
            where = (*files.PCI, ADDRESS, name)
            self.assertRaises(files.Unreadable, tree.read, *where)
        self.assertEqual([], self.asked)

    def test_without_the_helper_it_is_not_known(self) -> None:
        def fail(_gpu: str, _name: str) -> str:
            raise OSError(errno.EPERM, 'no helper')

        tree = AsUser('/sys', fail)
        where = (*files.PCI, ADDRESS, 'memory_partition_mode')
        self.assertRaises(files.Unreadable, tree.read, *where)
