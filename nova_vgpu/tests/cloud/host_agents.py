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

"""The agents of simulated hosts, each in a thread, with its metrics.

They read the host that a nova-compute of the same process uses: the devices
and servers in their metrics are those that the driver created.
"""

import contextlib
import pathlib
import sys
import threading
import typing

import fixtures

from nova_vgpu import values
from nova_vgpu.host import state
from nova_vgpu.host import systemd
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import metrics_server

_LOOPBACK = '127.0.0.1'
#: In seconds; a test says when it wants another round.
_INTERVAL = 3600


class HostAgents(fixtures.Fixture):
    """None at first."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__()
        self._directory = directory
        self._waiters: list[agent.Waiter] = []

    def start(
        self,
        name: str,
        connection: typing.Any,
        declaration: values.Declaration,
        tls: metrics_server.TLS,
    ) -> int:
        """Watch a host from now on; gives the port of the metrics.

        :param connection: the host's simulated libvirt, which has its GPUs.
        """
        own = self._directory / f'agent-{name}'
        own.mkdir()
        access = host_access.HostAccess(
            tree=connection.pci_info.sysfs,
            connect=lambda: contextlib.nullcontext(connection),
            state=state.StateDirectory(str(own)),
            locks=str(own),
            read_modes=lambda _host: values.ModesRead(),
            read_guest_drivers=lambda _host: (),
        )
        collector = exporter.Collector(name)
        notifier = systemd.Notifier({})
        waiter = agent.Waiter(notifier)
        running = agent.Agent(
            lambda: (access, values.Configuration(declaration)),
            agent.Settings(_INTERVAL),
            waiter,
            notifier,
            lambda text: print(f'{name}: {text}', file=sys.stderr),
            collector.show,
        )
        port: int = self.useFixture(_Served(collector, tls)).port
        thread = threading.Thread(target=running.run, name=name)
        self.addCleanup(thread.join)
        self.addCleanup(waiter.stop)
        thread.start()
        self._waiters.append(waiter)
        return port

    def read(self) -> None:
        """Have all of them read their hosts, without waiting for it."""
        for waiter in self._waiters:
            waiter.wake()


class _Served(fixtures.Fixture):
    def __init__(
        self, collector: exporter.Collector, tls: metrics_server.TLS
    ) -> None:
        super().__init__()
        self._collector = collector
        self._tls = tls

    def _setUp(self) -> None:
        serving = contextlib.ExitStack()
        self.addCleanup(serving.close)
        self.port = serving.enter_context(
            exporter.serve(self._collector, _LOOPBACK, 0, self._tls)
        )
