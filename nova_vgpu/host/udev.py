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

"""What the kernel tells about PCI devices and mdevs, by way of udev.

An event says no more than that something happened: what, is seen when the
host is read. Parents of mdevs are PCI devices, which tell when their types
come and go.
"""

import errno
import typing

_SUBSYSTEMS = ('pci', 'mdev')


class Events:
    """Events that come in; ``fileno`` can be waited for."""

    def __init__(self, monitor: typing.Any) -> None:
        self._monitor = monitor

    def fileno(self) -> int:
        return int(self._monitor.fileno())

    def drain(self) -> None:
        """Forget all that came in so far."""
        while self._has_one():
            pass

    def _has_one(self) -> bool:
        try:
            return self._monitor.poll(timeout=0) is not None
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return True  # more came than fits: some are lost, as all will be


def listen() -> Events | None:
    """Begin to listen; None if pyudev or udev's library is missing.

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
