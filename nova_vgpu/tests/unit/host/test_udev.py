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

"""Events of udev, without the kernel of this machine."""

import collections
import errno
import types
import typing
from unittest import mock

import testtools

from nova_vgpu.host import udev


class Monitor:
    """What pyudev's monitor does, as far as it is used."""

    def __init__(self) -> None:
        self.subsystems: list[str] = []
        self.is_started = False
        self.queue: collections.deque[object] = collections.deque()

    def filter_by(self, subsystem: str) -> None:
        self.subsystems.append(subsystem)

    def start(self) -> None:
        self.is_started = True

    def fileno(self) -> int:
        return 42

    def poll(self, timeout: float | None = None) -> object | None:
        if timeout != 0:
            raise AssertionError('it would wait')
        first = self.queue.popleft() if self.queue else None
        if isinstance(first, OSError):
            raise first
        return first


def make_pyudev(
    monitor: Monitor, library: bool = True
) -> types.SimpleNamespace:
    def load() -> object:
        if not library:
            raise ImportError('No library named udev')
        return object()

    made = types.SimpleNamespace(from_netlink=lambda _context: monitor)
    return types.SimpleNamespace(Context=load, Monitor=made)


class TestEvents(testtools.TestCase):
    def listen(self, pyudev: object) -> udev.Events | None:
        modules = typing.cast(typing.Any, {'pyudev': pyudev})
        with mock.patch.dict('sys.modules', modules):
            return udev.listen()

    def test_pci_devices_and_mdevs_are_listened_to(self) -> None:
        monitor = Monitor()
        events = self.listen(make_pyudev(monitor))
        assert events is not None
        self.assertEqual(42, events.fileno())
        self.assertEqual(['pci', 'mdev'], monitor.subsystems)
        self.assertTrue(monitor.is_started)

    def test_all_that_came_is_forgotten(self) -> None:
        monitor = Monitor()
        lost = OSError(errno.ENOBUFS, 'No buffer space available')
        monitor.queue.extend(['add', lost, 'remove'])
        udev.Events(monitor).drain()
        self.assertEqual(0, len(monitor.queue))

    def test_other_errors_are_not_hidden(self) -> None:
        monitor = Monitor()
        monitor.queue.append(OSError(errno.EBADF, 'Bad file descriptor'))
        self.assertRaises(OSError, udev.Events(monitor).drain)

    def test_it_need_not_be_installed(self) -> None:
        self.assertIsNone(self.listen(None))
        self.assertIsNone(self.listen(make_pyudev(Monitor(), library=False)))
