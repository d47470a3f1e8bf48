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

"""nova-computes with this project's driver, in one process.

Each has simulated GPUs and a simulated libvirt. What such a host lacks beside
GPUs is what Nova's own functional tests take for it: disks, control groups,
ports of Neutron. Nova's configuration is one for the process: what differs
between hosts is set while a service starts.
"""

import io
import pathlib
import typing
from unittest import mock

import fixtures
from nova import conf
from nova import context
from nova import objects
from nova import service
from nova.compute import rpcapi
from nova.tests import fixtures as nova_fixtures
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt import node as virt_node
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import host as libvirt_host
import sqlalchemy
import sqlalchemy.event

from nova_vgpu.compute import planner
from nova_vgpu.conf import opts
from nova_vgpu.tests.cloud import fleet
from nova_vgpu.tests.cloud import scene
from nova_vgpu.tests.functional.compute import base
from nova_vgpu.tests.functional.compute import simulated_gpus
from nova_vgpu.tests.functional.compute import simulated_libvirt

_LIBVIRT_VERSION = 8000000
_QEMU_VERSION = 6002000
_DISK = {'total': 2048, 'used': 0, 'free': 2048}
_MEMORY_KB = 512 * 1024 * 1024
_CPUS = 64


class Computes(fixtures.Fixture):
    """The hosts of the process; none at first."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__()
        self._directory = directory
        #: The libvirt of each host by its name; its GPUs are ``pci_info``.
        self.connections: dict[str, typing.Any] = {}

    def _setUp(self) -> None:
        sqlalchemy.event.listen(sqlalchemy.Engine, 'begin', _begin)
        for fixture in (
            base.NovaWithOurDriver(),
            nova_fixtures.PrivsepNoHelperFixture(),
            nova_fixtures.ComputeNodeIdFixture(),
            nova_fixtures.LibvirtImageBackendFixture(),
            nova_fixtures.CGroupsFixture(),
            nova_fixtures.LibvirtFixture(),
            nova_fixtures.OSBrickFixture(),
            nova_fixtures.NeutronFixture(self),
        ):
            self.useFixture(fixture)
        for owner, name, answer in (
            (libvirt_driver.LibvirtDriver, '_create_image', (False, False)),
            (libvirt_driver.LibvirtDriver, '_get_local_gb_info', _DISK),
            (libvirt_driver.libvirt_utils, 'is_valid_hostname', True),
            (libvirt_host.Host, 'get_online_cpus', set(range(_CPUS))),
            (libvirt_host.Host, '_get_avail_memory_kb', _MEMORY_KB),
        ):
            self.useFixture(
                fixtures.MockPatchObject(owner, name, return_value=answer)
            )
        # Of the log of a console.
        self.stub_out(
            'nova.virt.libvirt.utils.file_open', lambda *_: io.BytesIO()
        )

    # -- what Nova's fixture of Neutron asks of a test ------------------------

    def flags(self, **options: object) -> None:
        for name, value in options.items():
            conf.CONF.set_override(name, value)

    def stub_out(self, name: str, value: object) -> None:
        self.useFixture(fixtures.MonkeyPatch(name, value))

    # -- hosts ----------------------------------------------------------------

    def start(self, host: fleet.Host) -> None:
        """Start nova-compute on a host, as Nova knows it from then on."""
        opts.register_opts(conf.CONF)
        conf.CONF.set_override('enabled_mdev_types', [host.type], 'devices')
        conf.CONF.set_override('host', host.name)
        admin = context.get_admin_context()
        cell = objects.CellMapping.get_by_uuid(admin, scene.CELL)
        objects.HostMapping(admin, host=host.name, cell_mapping=cell).create()
        state = str(self._directory / scene.uuid_of(host.name))
        connection = _connect(host)
        self.connections[host.name] = connection
        with (
            mock.patch.object(planner.Planner, 'own_state_path', state),
            mock.patch.object(planner.Planner, 'state_path', state),
            mock.patch.object(
                libvirt_host.Host, 'get_connection', return_value=connection
            ),
            mock.patch.object(
                virt_node,
                'get_local_node_uuid',
                return_value=scene.uuid_of(host.name),
            ),
        ):
            made = service.Service.create(
                host=host.name,
                binary='nova-compute',
                topic=rpcapi.RPC_TOPIC,
                topic_alt=rpcapi.RPC_TOPIC_ALT,
            )
            driver = made.manager.driver
            driver.vgpus.planner.own_state_path = state
            driver.vgpus.planner.state_path = state
            driver._host.get_connection = lambda: connection
            driver._host.get_node_uuid()
            made.start()


def _begin(connection: typing.Any) -> None:
    """Begin a transaction in place of oslo.db, for many threads.

    One that reads before it writes fails if another one writes meanwhile.
    SQLite lets it wait instead if it is known from the start.
    """
    if 'in_transaction' not in connection.info:
        connection.execute(sqlalchemy.text('BEGIN IMMEDIATE'))
        connection.info['in_transaction'] = True


def _connect(host: fleet.Host) -> typing.Any:
    return simulated_libvirt.SimulatedConnection(
        'qemu:///system',
        version=_LIBVIRT_VERSION,
        hv_version=_QEMU_VERSION,
        host_info=fakelibvirt.HostInfo(
            cpu_nodes=2, cpu_sockets=1, cpu_cores=16, cpu_threads=2
        ),
        pci_info=simulated_gpus.SimulatedGPUs(*host.gpus),
        hostname=host.name,
    )
