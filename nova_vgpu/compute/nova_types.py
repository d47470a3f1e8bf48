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

"""What is used of Nova's objects, for who gets them passed in.

Nova has no type hints that mypy could follow. These protocols say which part
of it each collaborator of the driver depends on; none of them imports Nova for
that.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import typing

from nova_vgpu.compute import hotplug
from nova_vgpu.host import guests
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.host import mdevs

#: ``nova.context.RequestContext``: only handed on to Nova.
Context = object
#: What consumers have of providers, by the UUIDs of the providers.
Allocations = dict[str, dict[str, dict[str, int]]]
#: vGPUs that Nova noted for servers, by the UUIDs of the servers.
Notes = dict[str, list[str]]


class Flavor(typing.Protocol):
    extra_specs: Mapping[str, str]


class Instance(typing.Protocol):
    """A server, as Nova has it."""

    uuid: str
    flavor: Flavor
    vm_state: str


class Guest(hotplug.Guest, typing.Protocol):
    """``nova.virt.libvirt.guest.Guest``."""

    id: int
    uuid: str

    def is_active(self) -> bool: ...

    def get_power_state(self, host: 'Host') -> int: ...


class NodeDevice(mdevs.NodeDevice, typing.Protocol):
    """A node device of libvirt."""

    def parent(self) -> str: ...


class Connection(guests.Connection, libvirt_nodes.Connection, typing.Protocol):
    """libvirt's connection, as Nova wraps it."""


class Host(typing.Protocol):
    """``nova.virt.libvirt.host.Host``."""

    def get_connection(self) -> Connection: ...

    def get_hostname(self) -> str: ...

    def get_guest(self, instance: Instance) -> Guest: ...

    def has_min_version(
        self,
        lv_ver: tuple[int, int, int] | None = None,
        hv_ver: tuple[int, int, int] | None = None,
    ) -> bool: ...

    def list_instance_domains(
        self, only_running: bool = True
    ) -> Iterable[guests.Domain]: ...

    def list_mediated_devices(self) -> list[str] | None: ...

    def list_all_devices(self, flags: int) -> Iterable[NodeDevice]: ...

    def device_lookup_by_name(self, name: str) -> NodeDevice: ...

    def device_start(self, dev: NodeDevice) -> None: ...


#: What a provider offers, by resource class.
Inventories = dict[str, dict[str, typing.Any]]
#: The allocations of consumers, by their UUIDs, as Placement tells it.
Consumers = dict[str, dict[str, typing.Any]]


class Provider(typing.Protocol):
    """``nova.compute.provider_tree.ProviderData``."""

    uuid: str
    name: str
    generation: int | None
    parent_uuid: str
    inventory: Inventories
    traits: set[str]


class ProviderTree(typing.Protocol):
    """``nova.compute.provider_tree.ProviderTree``."""

    lock: contextlib.AbstractContextManager[object]
    roots_by_uuid: dict[str, Provider]
    roots_by_name: dict[str, Provider]

    def exists(self, name_or_uuid: str) -> bool: ...

    def data(self, name_or_uuid: str) -> Provider: ...

    def get_provider_uuids(self, name_or_uuid: str) -> list[str]: ...

    def new_child(self, name: str, parent: str | None, uuid: str) -> str: ...

    def remove(self, name_or_uuid: str) -> None: ...

    def update_inventory(
        self, name_or_uuid: str, inventory: Inventories
    ) -> bool: ...

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str]
    ) -> bool: ...


class ProviderAllocations(typing.Protocol):
    """``nova.scheduler.client.report.ProviderAllocInfo``."""

    allocations: Consumers


class ReportClient(typing.Protocol):
    """``nova.scheduler.client.report.SchedulerReportClient``."""

    def get_allocations_for_consumer(
        self, context: Context, consumer: str
    ) -> Allocations: ...

    def get_allocations_for_resource_provider(
        self, context: Context, rp_uuid: str
    ) -> ProviderAllocations: ...

    def get_allocations_for_provider_tree(
        self, context: Context, nodename: str
    ) -> Consumers: ...

    def update_from_provider_tree(
        self,
        context: Context,
        new_tree: ProviderTree,
        allocations: Consumers | None,
    ) -> None: ...

    def get_provider_tree_and_ensure_root(
        self, context: Context, rp_uuid: str, name: str
    ) -> ProviderTree: ...


class VirtAPI(typing.Protocol):
    reportclient: ReportClient


class Tables(typing.Protocol):
    """The attributes of Nova's driver that hold what it makes of nova.conf."""

    #: Ids of types, and resource classes, by the addresses of functions.
    pgpu_type_mapping: dict[str, str]
    mdev_class_mapping: dict[str, str]
    #: GPUs that are not PCI devices, by name.
    virtual_mdevs: set[str]
    #: The types that a guest may have that migrates to this host.
    supported_vgpu_types: list[str]


class Driver(Tables, typing.Protocol):
    """What Nova's driver has and the collaborators ask of it."""

    _host: Host
    virtapi: VirtAPI
    #: None until the providers are first updated.
    provider_tree: ProviderTree | None
    instance_claimed_mdevs: Notes

    def _create_mdev(
        self, dev_name: str, mdev_type: str, uuid: str
    ) -> str: ...

    def _get_supported_mdev_resource_classes(self) -> set[str]: ...

    def _vgpu_allocations(self, allocations: Allocations) -> Allocations: ...

    def _allocate_mdevs(self, allocations: Allocations) -> list[str]: ...

    def _detach_sync(
        self,
        dev: hotplug.Device,
        guest: Guest,
        instance_uuid: str,
        device_name: str,
        persistent: bool,
        live: bool,
    ) -> None: ...
