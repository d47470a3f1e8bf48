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

"""Nova's functional tests with this project's driver."""

import dataclasses
import re
import sys
import typing

import fixtures
import libvirt
from nova import context
from nova.tests.fixtures import libvirt as fakelibvirt
import nova.virt

from nova_vgpu import values
from nova_vgpu.compute import modes
from nova_vgpu.compute import planner
from nova_vgpu.compute import service
from nova_vgpu.compute import shim
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.host import files
from nova_vgpu.host import guests
from nova_vgpu.tests.functional.compute import pauses
from nova_vgpu.tests.functional.compute import quick

#: How long a thread may take, on a machine that does much else.
PATIENCE = 120.0


class NovaWithOurDriver(fixtures.Fixture):
    """What the wheel's shim does, for a checkout; and a fuller fake libvirt.

    Nova's fake libvirt lists mdevs by another call than the driver uses, and
    in one test without the GPUs that they are on; real libvirt lists mdevs by
    both calls, and knows none without its parent.
    """

    def _setUp(self) -> None:
        self.useFixture(quick.QuickNova())
        self.useFixture(pauses.GrowingPauses())
        self.useFixture(_Attribute(nova.virt, 'vgpu', shim))
        sys.modules['nova.virt.vgpu'] = shim
        self.addCleanup(sys.modules.pop, 'nova.virt.vgpu', None)
        # Tests never touch the machine's own sysfs, nor its state.
        for name in ('state_path', 'own_state_path'):
            self.useFixture(
                fixtures.MockPatchObject(
                    planner.Planner,
                    name,
                    self.useFixture(fixtures.TempDir()).path,
                )
            )
        self.useFixture(_Attribute(planner.Planner, 'sysfs', property(_sysfs)))
        self.useFixture(
            _Attribute(vgpu_devices.VGPUDevices, 'set_type', _set_type)
        )
        # Nor NVML.
        self.useFixture(
            _Attribute(vgpu_devices.VGPUDevices, 'read_modes', _read_modes)
        )
        self.proc = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            _Attribute(modes.KnownModes, 'proc', files.Files(self.proc))
        )
        # Its errors and constants are Nova's fake's.
        self.useFixture(_Attribute(guests, 'libvirt', fakelibvirt))
        self.useFixture(
            fixtures.MockPatchObject(
                fakelibvirt.Connection, 'listAllDevices', _list_all_devices
            )
        )
        self._end_threads()

    def _end_threads(self) -> None:
        """No thread of a driver outlives the test."""
        start = service.ReconcileThread.start

        def start_and_note(thread: service.ReconcileThread) -> None:
            start(thread)
            self.addCleanup(thread.stop, PATIENCE)

        self.useFixture(
            fixtures.MockPatchObject(
                service.ReconcileThread, 'start', start_and_note
            )
        )


def _sysfs(its_planner: typing.Any) -> files.Files | None:
    """The sysfs of the host that a driver is on; None in Nova's own tests."""
    pci_info = its_planner.connect().pci_info
    tree: files.Files | None = getattr(pci_info, 'sysfs', None)
    return tree


def _set_type(devices: typing.Any, function: str, type_id: str | None) -> None:
    """What Nova's privileged helper does on the host."""
    connection = devices.nova._host.get_connection()
    number = 0 if type_id is None else int(type_id.removeprefix('nvidia-'))
    connection.pci_info.set_type(function, number)


def _read_modes(devices: typing.Any, gpus: object) -> values.ModesRead:
    """What NVML tells on the host."""
    found = devices.nova._host.get_connection().pci_info.modes
    if isinstance(found, Exception):
        raise found
    return typing.cast(values.ModesRead, found)


class _Attribute(fixtures.Fixture):
    """An attribute for the time of a test; None is a value, too."""

    def __init__(self, owner: object, name: str, value: object) -> None:
        super().__init__()
        self._owner, self._name, self._value = owner, name, value

    def _setUp(self) -> None:
        if hasattr(self._owner, self._name):
            before = getattr(self._owner, self._name)
            self.addCleanup(setattr, self._owner, self._name, before)
        else:
            self.addCleanup(delattr, self._owner, self._name)
        setattr(self._owner, self._name, self._value)


_NOVAS_LIST = fakelibvirt.Connection.listAllDevices


_PARENT = """<device>
  <name>%(name)s</name><parent>computer</parent>
  <driver><name>nvidia</name></driver>
  <capability type='pci'>
    <class>0x030200</class>
    <domain>%(domain)d</domain><bus>%(bus)d</bus>
    <slot>%(slot)d</slot><function>%(function)d</function>
    <product id='0x0FFE'/><vendor id='0x10DE'/>
    <capability type='mdev_types'>
      <type id='%(type_id)s'>
        <name>GRID M60-0B</name><deviceAPI>vfio-pci</deviceAPI>
        <availableInstances>0</availableInstances>
      </type>
    </capability>
  </capability>
</device>"""


def _list_all_devices(connection: typing.Any, flags: int = 0) -> typing.Any:
    devices = {d.name(): d for d in _NOVAS_LIST(connection, flags)}
    if flags & libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV:
        for name, mdev in connection.mdev_info.devices.items():
            xml = mdev.XMLDesc(0)
            devices[name] = fakelibvirt.NodeDevice(connection, xml=xml)
            parent = devices[name].parent()
            if parent not in devices:
                devices[parent] = fakelibvirt.NodeDevice(
                    connection, xml=_parent_xml(parent, xml)
                )
    return list(devices.values())


def _parent_xml(name: str, mdev_xml: str) -> str:
    """The GPU of an mdev, which some of Nova's tests leave out."""
    address = values.PciAddress.parse(
        '{}:{}:{}.{}'.format(*name.removeprefix('pci_').split('_'))
    )
    (type_id,) = re.findall("<type id='([^']*)'", mdev_xml)
    return _PARENT % {
        'name': name,
        'type_id': type_id,
        **dataclasses.asdict(address),
    }


class OurDriver:
    """For a test of Nova's: its computes run this project's driver.

    What is above it is one of Nova's test cases, which mypy does not see.
    """

    #: Whether drivers reconcile vGPUs in threads of their own, as they do
    #: outside of tests.
    in_background = True

    def start_compute(self, *args: typing.Any, **kwargs: typing.Any) -> str:
        test: typing.Any = self
        test.flags(compute_driver='vgpu.LibvirtVGPUDriver')
        name = str(super().start_compute(*args, **kwargs))  # type: ignore[misc]
        if not self.in_background:
            self.stop_reconciling(name)
        self.reconcile()
        return name

    def restart_compute_service(
        self, hostname: str, *args: typing.Any, **kwargs: typing.Any
    ) -> typing.Any:
        self.stop_reconciling(hostname)
        return super().restart_compute_service(  # type: ignore[misc]
            hostname, *args, **kwargs
        )

    def reconcile(self) -> None:
        """Have the thread of each driver reconcile, and wait for that.

        Nova's periodic update wakes it, and goes on.
        """
        for name in self.__dict__['computes']:
            thread = self._thread_of(name)
            if thread and not thread.wait(thread.wake(), PATIENCE):
                raise AssertionError(f'{name} does not reconcile')

    def stop_reconciling(self, name: str) -> None:
        thread = self._thread_of(name)
        if thread:
            thread.stop(PATIENCE)

    def _thread_of(self, name: str) -> typing.Any:
        vgpus = getattr(self.__dict__['computes'][name].driver, 'vgpus', None)
        return vgpus.service.thread if vgpus else None

    def setUp(self) -> None:
        test: typing.Any = self
        # Before Nova's own set-up, which starts computes.
        fixture = NovaWithOurDriver()
        fixture.setUp()
        super().setUp()  # type: ignore[misc]
        test.addCleanup(fixture.cleanUp)
        self._tell_novas_fake_whose_mdevs_are_created()

    def _tell_novas_fake_whose_mdevs_are_created(self) -> None:
        """Nova's fake of ``_create_mdev`` is one for all hosts.

        It takes the host on which Nova's driver was last asked for the type
        of a GPU, which this project's driver knows by itself.
        """
        test: typing.Any = self
        create = vgpu_devices.VGPUDevices.create_mdev

        def create_mdev(devices: typing.Any, *args: str) -> str:
            test._current_host = devices.nova._host.get_hostname()
            return create(devices, *args)

        test.useFixture(
            fixtures.MockPatchObject(
                vgpu_devices.VGPUDevices, 'create_mdev', create_mdev
            )
        )

    def _run_periodics(self, raise_on_error: bool = False) -> None:
        """Replaces Nova's, unless errors are to be raised.

        What the driver's thread does in the meantime is done before the
        update, and again after it.

        Nova's has its fixture hold a lock on the cells meanwhile. In the
        middle of a migration the API, asked about it, waits for that lock, and
        then so does the driver, which the periodic task waits for.
        """
        self.reconcile()
        if raise_on_error:
            super()._run_periodics(True)  # type: ignore[misc]
        else:
            self._update_computes()
        self.reconcile()

    def _update_computes(self) -> None:
        test: typing.Any = self
        admin = context.get_admin_context()
        for name, compute in test.computes.items():
            mapping = test.host_mappings[name].cell_mapping
            with context.target_cell(admin, mapping) as targeted:
                pass
            compute.manager.update_available_resource(targeted)
