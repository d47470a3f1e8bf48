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

"""As much of nova-compute as there is without the rest of a cloud.

The driver is loaded by Nova from the installed wheel; libvirt, Placement and
Nova's privileged helper are real ones. There is no database, no message queue,
no Glance and no Neutron, so

* servers are objects that are never saved,
* images are not made by Nova, they are empty disks,
* servers have no network, so there are no events to wait for,
* and Nova does not listen to the events of libvirt: its threads for that never
  end, and would go to the database.
"""

from collections.abc import Iterator
import contextlib
import functools
import json
import pathlib
import typing
from unittest import mock
import uuid

from nova import config
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
import nova.conf
from nova.conf import neutron
from nova.scheduler.client import report
from nova.virt import driver as virt_driver
from nova.virt import virtapi
from nova.virt.libvirt import host as libvirt_host
from nova.virt.libvirt import utils as libvirt_utils

from lab.guest.tests import host

_STATE = pathlib.Path('/var/lib/nova')
_HOST = 'lab'
_IMAGE_BYTES = 1 << 20
#: How often Nova tries an update.
_UPDATES = 4

#: The whole of the nova.conf, but for the declaration and Placement.
_SETTINGS = f"""\
[DEFAULT]
compute_driver = vgpu.LibvirtVGPUDriver
host = {_HOST}
my_ip = 10.0.2.15
state_path = {_STATE}
[libvirt]
virt_type = qemu
cpu_mode = none
images_type = raw
hw_machine_type = x86_64=q35
[vnc]
enabled = False
[spice]
enabled = False
[oslo_concurrency]
lock_path = {_STATE}/locks
[nova_sys_admin]
helper_command = /opt/nova-vgpu/bin/privsep-helper --config-file \
{host.CONFIGURATION}
"""
SETTINGS = _SETTINGS + host.PLACEMENT

#: What Nova would find out about the image, and save.
_IMAGE = {
    'image_hw_machine_type': 'q35',
    'image_hw_cdrom_bus': 'sata',
    'image_hw_disk_bus': 'virtio',
    'image_hw_input_bus': 'usb',
    'image_hw_pointer_model': 'usbtablet',
    'image_hw_video_model': 'none',
    'image_hw_vif_model': 'virtio',
    'image_min_ram': '0',
    'image_min_disk': '0',
    'image_base_image_ref': '',
    'image_disk_format': 'raw',
    'image_container_format': 'bare',
}


class _VirtAPI(virtapi.VirtAPI):  # type: ignore[misc]
    """What the compute manager offers to its driver."""

    def __init__(self, client: typing.Any) -> None:
        self.reportclient = client

    @contextlib.contextmanager
    def wait_for_instance_event(
        self, instance: typing.Any, event_names: list[typing.Any], **_: object
    ) -> Iterator[None]:
        if event_names:
            raise AssertionError(f'{event_names} are never sent')
        yield


class Compute:
    """nova-compute of this host, from one start to the next."""

    def __init__(self) -> None:
        self.context = nova_context.get_admin_context()
        self.client = report.SchedulerReportClient()
        self.driver = virt_driver.load_compute_driver(_VirtAPI(self.client))
        with mock.patch.object(libvirt_host.Host, '_init_events'):
            self.driver.init_host(_HOST)
        ((self.node_uuid, self.node),) = (
            self.driver.get_nodenames_by_uuid().items()
        )

    def stop(self) -> None:
        """End what runs in the background."""
        self.driver.vgpus.service.thread.stop()

    def update(self) -> None:
        """As the resource tracker does, at each start and every minute.

        It repeats an update that the driver refuses after it moved
        allocations: what Nova knows of Placement is outdated then.
        """
        for _ in range(_UPDATES):
            tree = self.client.get_provider_tree_and_ensure_root(
                self.context, self.node_uuid, name=self.node
            )
            try:
                self._update(tree)
            except nova_exception.ResourceProviderUpdateConflict:
                self.client.clear_provider_cache()
            else:
                return
        raise AssertionError('the providers never become as they are to be')

    def _update(self, tree: typing.Any) -> None:
        allocations = None
        try:
            self.driver.update_provider_tree(tree, self.node)
        except nova_exception.ReshapeNeeded:
            allocations = self.client.get_allocations_for_provider_tree(
                self.context, self.node
            )
            self.driver.update_provider_tree(
                tree, self.node, allocations=allocations
            )
        self.client.update_from_provider_tree(
            self.context, tree, allocations=allocations
        )

    def providers(self) -> dict[str, str]:
        """What Placement has below the node: UUIDs by name."""
        found = self.client.get_providers_in_tree(self.context, self.node_uuid)
        return {
            provider['name'].removeprefix(f'{self.node}_'): provider['uuid']
            for provider in found
            if provider['uuid'] != self.node_uuid
        }

    def inventories(self) -> dict[str, dict[str, int]]:
        """Totals by class, of each provider below the node."""
        return {
            name: {
                resource_class: inventory['total']
                for resource_class, inventory in self.client.get(
                    f'/resource_providers/{uuid_}/inventories'
                )
                .json()['inventories']
                .items()
            }
            for name, uuid_ in self.providers().items()
        }

    # -- servers ------------------------------------------------------------

    def claim(self, server: typing.Any, gpu: str, share: str = '') -> bool:
        """Let the server have a vGPU of a GPU, as the scheduler does.

        :param share: the type, if the GPU is divided.
        """
        device = host.node_device(gpu) + (f'_{share}' if share else '')
        provider = self.providers()[device]
        return bool(
            self.client.claim_resources(
                self.context,
                server.uuid,
                {'allocations': {provider: {'resources': {'VGPU': 1}}}},
                server.project_id,
                server.user_id,
                '1.36',
            )
        )

    def spawn(self, server: typing.Any, power_on: bool = True) -> None:
        with mock.patch.multiple(
            type(self.driver),
            _create_image=_create_image,
            # Of networks and volumes, for the config drive.
            _build_device_metadata=lambda *_: None,
        ):
            self.driver.spawn(
                self.context,
                server,
                server.image_meta,
                [],
                None,
                self.client.get_allocations_for_consumer(
                    self.context, server.uuid
                ),
                network_info=[],
                power_on=power_on,
            )

    def delete(self, server: typing.Any) -> None:
        self.driver.destroy(self.context, server, [])
        self.client.delete_allocation_for_instance(
            self.context, server.uuid, force=True
        )


def configure() -> None:
    """Let Nova read the configuration that the host has, as a new process."""
    _parse_arguments()
    nova.conf.CONF.reload_config_files()


@functools.cache
def _parse_arguments() -> None:
    """What a process does once."""
    for name in ('instances', 'locks'):
        (_STATE / name).mkdir(parents=True, exist_ok=True)
    config.parse_args(
        ['nova-compute', '--config-file', str(host.CONFIGURATION)],
        configure_db=False,
        init_rpc=False,
    )
    neutron.register_dynamic_opts(nova.conf.CONF)
    objects.register_all()


def make_server(number: int) -> typing.Any:
    """A server as it comes from the conductor; there is none to save it."""
    flavor = objects.Flavor(
        id=1,
        flavorid='vgpu',
        name='vgpu',
        memory_mb=48,
        vcpus=1,
        root_gb=0,
        ephemeral_gb=0,
        swap=0,
        rxtx_factor=1.0,
        vcpu_weight=0,
        disabled=False,
        is_public=True,
        extra_specs={'resources:VGPU': '1'},
        projects=[],
    )
    known = {
        'id': number,
        'uuid': str(uuid.uuid4()),
        'flavor': flavor,
        'pci_devices': objects.PciDeviceList(objects=[]),
        'system_metadata': dict(_IMAGE),
        'metadata': {},
        'image_ref': str(uuid.UUID(int=1)),
        'display_name': f'vgpu-{number}',
        'project_id': str(uuid.UUID(int=2)),
        'user_id': str(uuid.UUID(int=3)),
        'host': _HOST,
        'node': _HOST,
        'cleaned': False,
        'memory_mb': flavor.memory_mb,
        'vcpus': flavor.vcpus,
        'root_gb': 0,
        'ephemeral_gb': 0,
    }
    return _Server(
        nova_context.get_admin_context(), **{**_list_unset(), **known}
    )


def _list_unset() -> dict[str, None]:
    """What need not be set; Nova would look for it in the database."""
    fields = objects.Instance.fields
    return {name: None for name in fields if fields[name].nullable}


class _Server(objects.Instance):  # type: ignore[misc]
    def save(self, *_: object, **__: object) -> None:
        """There is no database."""


def _create_image(
    _: object,
    context: typing.Any,
    server: typing.Any,
    *__: object,
    **___: object,
) -> tuple[bool, bool]:
    """Replaces Nova's, which asks Glance; see there for what is returned.

    It also notes the format of the image, which takes a program to find out.
    """
    directory = pathlib.Path(libvirt_utils.get_instance_path(server))
    directory.mkdir()
    disk = directory / 'disk'
    disk.write_bytes(bytes(_IMAGE_BYTES))
    (directory / 'disk.info').write_text(json.dumps({str(disk): 'raw'}))
    return True, True
