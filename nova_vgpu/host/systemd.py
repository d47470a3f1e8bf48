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

"""What the agent has of systemd: events of udev, and the notify protocol.

udev tells of PCI devices and mdevs. An event is only a reason to read the
host, which shows what happened. Parents of mdevs are PCI devices, which send
events when their types appear or disappear.

The notify protocol sends lines of text to a datagram socket. systemd names the
socket in ``NOTIFY_SOCKET``, and in ``WATCHDOG_USEC`` how often it wants to
hear that the service is alive. A name that begins with ``@`` is one in the
abstract namespace. Without a name nothing is sent: systemd did not start the
program.

Not oslo.service, which sends READY=1 only, and not sdnotify, which would save
ten lines: it lacks the watchdog's interval and reads os.environ itself.
"""

from collections.abc import Mapping
import contextlib
import errno
import os
import socket
import typing

_SUBSYSTEMS = ('pci', 'mdev')


class UdevEvents:
    """A source of events; ``fileno`` can be polled."""

    def __init__(self, monitor: typing.Any) -> None:
        self._monitor = monitor

    def fileno(self) -> int:
        return int(self._monitor.fileno())

    def drain(self) -> None:
        """Discard all events received so far."""
        while self._has_one():
            pass

    def _has_one(self) -> bool:
        try:
            return self._monitor.poll(timeout=0) is not None
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return True  # the buffer overflowed; all are discarded anyway


def listen_to_udev() -> UdevEvents | None:
    """Start to listen; None if pyudev or udev's library is missing.

    :raises OSError: if the kernel does not let this process listen_to_udev.
    """
    try:
        import pyudev

        context = pyudev.Context()  # here it loads the library
    except ImportError:
        return None
    monitor = pyudev.Monitor.from_netlink(context)
    for subsystem in _SUBSYSTEMS:
        monitor.filter_by(subsystem)
    monitor.start()
    return UdevEvents(monitor)


class Notifier:
    """Tells systemd the state of the service."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        name = environment.get('NOTIFY_SOCKET', '')
        self._address = ''
        if name.startswith(('/', '@')):
            self._address = f'\0{name[1:]}' if name[0] == '@' else name
        self.watchdog_seconds = _read_watchdog(environment)

    def ready(self, status: str) -> None:
        """The service is up."""
        self._send('READY=1', f'STATUS={_one_line(status)}')

    def status(self, status: str) -> None:
        """What the service is doing, for ``systemctl status``."""
        self._send(f'STATUS={_one_line(status)}')

    def stopping(self) -> None:
        """The service is stopping."""
        self._send('STOPPING=1', 'STATUS=stopping')

    def beat(self) -> None:
        """The service is alive."""
        if self.watchdog_seconds is not None:
            self._send('WATCHDOG=1')

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        family, kind = socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
        # The service continues if systemd does not listen: systemd acts on
        # missing messages.
        with (
            contextlib.suppress(OSError),
            socket.socket(family, kind) as sender,
        ):
            sender.connect(self._address)
            sender.send('\n'.join(lines).encode())


def _read_watchdog(environment: Mapping[str, str]) -> float | None:
    """The interval of systemd's watchdog; None if there is no watchdog."""
    owner = environment.get('WATCHDOG_PID', str(os.getpid()))
    text = environment.get('WATCHDOG_USEC', '')
    if owner != str(os.getpid()) or not text.isascii() or not text.isdigit():
        return None
    return int(text) / 1_000_000 or None


def _one_line(text: str) -> str:
    return ' '.join(text.split())
