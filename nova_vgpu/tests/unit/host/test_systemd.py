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

"""The agent hears of udev's events, and systemd of the agent."""

import collections
import errno
import os
import pathlib
import socket
import types
import typing
from unittest import mock
import uuid

import fixtures
import testtools

from nova_vgpu.host import systemd


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
    def listen(self, pyudev: object) -> systemd.UdevEvents | None:
        modules = typing.cast(typing.Any, {'pyudev': pyudev})
        with mock.patch.dict('sys.modules', modules):
            return systemd.listen_to_udev()

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
        systemd.UdevEvents(monitor).drain()
        self.assertEqual(0, len(monitor.queue))

    def test_other_errors_are_not_hidden(self) -> None:
        monitor = Monitor()
        monitor.queue.append(OSError(errno.EBADF, 'Bad file descriptor'))
        self.assertRaises(OSError, systemd.UdevEvents(monitor).drain)

    def test_it_need_not_be_installed(self) -> None:
        self.assertIsNone(self.listen(None))
        self.assertIsNone(self.listen(make_pyudev(Monitor(), library=False)))


class TestNotifier(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = str(directory / 'notify')
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.systemd.close)
        self.systemd.settimeout(60)

    def listen(self, address: str, name: str) -> systemd.Notifier:
        self.systemd.bind(address)
        return systemd.Notifier({'NOTIFY_SOCKET': name})

    def hear(self) -> list[str]:
        return self.systemd.recv(4096).decode().splitlines()

    def test_how_the_service_is(self) -> None:
        notifier = self.listen(self.path, self.path)
        notifier.ready('2 GPUs\nserve')
        self.assertEqual(['READY=1', 'STATUS=2 GPUs serve'], self.hear())
        notifier.status('1 GPU serves')
        self.assertEqual(['STATUS=1 GPU serves'], self.hear())
        notifier.stopping()
        self.assertEqual('STOPPING=1', self.hear()[0])

    def test_a_socket_without_a_file(self) -> None:
        name = f'nova-vgpu-{uuid.uuid4()}'
        notifier = self.listen(f'\0{name}', f'@{name}')
        notifier.status('up')
        self.assertEqual(['STATUS=up'], self.hear())

    def test_signs_of_life_only_where_they_are_wanted(self) -> None:
        self.systemd.bind(self.path)
        here = {'NOTIFY_SOCKET': self.path}
        for more, expected in (
            ({}, None),
            ({'WATCHDOG_USEC': '0'}, None),
            ({'WATCHDOG_USEC': 'soon'}, None),
            ({'WATCHDOG_USEC': '2500000'}, 2.5),
            ({'WATCHDOG_USEC': '1', 'WATCHDOG_PID': '1'}, None),
            (
                {'WATCHDOG_USEC': '1000000', 'WATCHDOG_PID': f'{os.getpid()}'},
                1.0,
            ),
        ):
            notifier = systemd.Notifier(here | more)
            self.assertEqual(expected, notifier.watchdog_seconds, str(more))
            notifier.beat()
            notifier.status('after')
            first = self.hear()
            if expected is not None:
                self.assertEqual(['WATCHDOG=1'], first)
                first = self.hear()
            self.assertEqual(['STATUS=after'], first)

    def test_without_systemd_nothing_happens(self) -> None:
        for name in ('', 'vsock:2:1234', self.path, '@nobody-listens-here'):
            systemd.Notifier({'NOTIFY_SOCKET': name}).ready('up')
        systemd.Notifier({}).stopping()
