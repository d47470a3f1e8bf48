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

"""Events of PCI devices and mdevs, from udev.

An event is only a reason to read the host, which shows what happened. Parents
of mdevs are PCI devices, which send events when their types appear or
disappear.
"""

import errno
import typing

_SUBSYSTEMS = ('pci', 'mdev')


class Events:
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


def listen() -> Events | None:
    """Start to listen; None if pyudev or udev's library is missing.

    :raises OSError: if the kernel does not let this process listen.
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
    return Events(monitor)
