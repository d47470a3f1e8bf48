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

"""A cloud as the pages see it, without services."""

from collections.abc import Iterator
import dataclasses
import functools
import types
import typing
import uuid

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.orders import flavors as cloud_flavors
from nova_vgpu.cloud.usage import consumers as cloud_consumers

A40 = (
    'CUSTOM_VGPU_TYPE_A40_8Q',
    'CUSTOM_GPU_MODEL_A40',
    'CUSTOM_VGPU_SERIES_Q',
    'CUSTOM_VGPU_FRAMEBUFFER_8G',
)
T4 = ('CUSTOM_VGPU_TYPE_T4_2Q', 'CUSTOM_GPU_MODEL_T4')
WHOLE = (
    'COMPUTE_MANAGED_PCI_DEVICE',
    'CUSTOM_GPU_MODEL_A40',
    'CUSTOM_GPU_VENDOR_NVIDIA',
    'OWNER_NOVA',
)
PROJECT = '4e5ea4c4000000000000000000000002'


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def gpu(
    host: str,
    bus: str = '41',
    capacity: int = 6,
    used: int = 0,
    reserved: int = 0,
    traits: tuple[str, ...] = A40,
    resource_class: str = 'VGPU',
) -> fleet.GPU:
    return fleet.GPU(
        uuid_of(f'{host} {bus}'),
        host,
        f'pci_0000_{bus}_00_0',
        (fleet.Stock(resource_class, capacity, used, reserved),),
        frozenset(traits),
    )


def whole(
    host: str,
    bus: str = 'C1',
    capacity: int = 1,
    used: int = 0,
    traits: tuple[str, ...] = WHOLE,
) -> fleet.GPU:
    """A GPU that Nova passes through."""
    return fleet.GPU(
        uuid_of(f'{host} {bus}'),
        host,
        f'0000:{bus}:00.0',
        (fleet.Stock('CUSTOM_GPU_A40', capacity, used, 0),),
        frozenset(traits),
    )


def flavor(name: str, **extra_specs: str) -> cloud_flavors.Flavor:
    """A flavor; "__" in a name is a colon."""
    return cloud_flavors.parse(
        name,
        {key.replace('__', ':'): text for key, text in extra_specs.items()},
        id=uuid_of(name),
    )


@dataclasses.dataclass
class Compute:
    """Nova, as far as flavors are created there."""

    created: list[dict[str, typing.Any]] = dataclasses.field(
        default_factory=list
    )
    extra_specs: list[dict[str, str]] = dataclasses.field(default_factory=list)
    deleted: list[str] = dataclasses.field(default_factory=list)
    #: What "create", "post" or "delete" raises.
    failures: dict[str, Exception] = dataclasses.field(default_factory=dict)

    def fail(self, what: str) -> None:
        if what in self.failures:
            raise self.failures[what]

    def create_flavor(self, **fields: typing.Any) -> typing.Any:
        self.fail('create')
        self.created.append(fields)
        return types.SimpleNamespace(id=uuid_of(fields['name']))

    def post(
        self, path: str, json: typing.Any, microversion: str
    ) -> typing.Any:
        self.fail('post')
        self.extra_specs.append(json['extra_specs'])
        return types.SimpleNamespace(status_code=200)

    def delete_flavor(self, identity: str, ignore_missing: bool) -> None:
        self.fail('delete')
        self.deleted.append(identity)


@dataclasses.dataclass
class Identity:
    """Keystone, as far as projects have names; ``failure`` is raised."""

    names: dict[str, str] = dataclasses.field(
        default_factory=lambda: {PROJECT: 'research'}
    )
    failure: Exception | None = None

    def projects(self) -> Iterator[typing.Any]:
        if self.failure is not None:
            raise self.failure
        for identity, name in self.names.items():
            yield types.SimpleNamespace(id=identity, name=name)


@dataclasses.dataclass
class Connection:
    compute: Compute = dataclasses.field(default_factory=Compute)
    identity: Identity = dataclasses.field(default_factory=Identity)


@dataclasses.dataclass
class Services:
    """Keystone, Placement and Nova, as far as they are asked directly.

    ``answers`` are those of paths; a failure is raised. ``failure`` is what
    Nova leads to. ``paths`` and ``asked`` are what they were asked for.
    """

    #: The compute nodes.
    nodes: tuple[str, ...] = ()
    names: dict[str, str] = dataclasses.field(
        default_factory=lambda: {PROJECT: 'research'}
    )
    records: list[dict[str, typing.Any]] = dataclasses.field(
        default_factory=list
    )
    asked: list[dict[str, str]] = dataclasses.field(default_factory=list)
    failure: exception.NovaVGPUError | None = None
    answers: dict[str, typing.Any] = dataclasses.field(
        default_factory=lambda: {
            '/usages': {'usages': {}},
            '/registered_limits': {'registered_limits': []},
            '/limits': {'limits': []},
        }
    )
    paths: list[str] = dataclasses.field(default_factory=list)

    def ask_placement(self, path: str, **_query: str) -> typing.Any:
        return self._answer(path)

    def ask_keystone(self, _what: str, path: str, **_query: str) -> typing.Any:
        if path != '/projects':
            return self._answer(path)
        listed = [{'id': i, 'name': name} for i, name in self.names.items()]
        return {'projects': listed}

    def _answer(self, path: str) -> typing.Any:
        self.paths.append(path)
        found = self.answers[path]
        if isinstance(found, Exception):
            raise found
        return found

    def ask_nova(
        self, _what: str, path: str, _version: str, **query: str
    ) -> object:
        if self.failure is not None:
            raise self.failure
        if path == '/os-hypervisors':
            nodes = () if 'marker' in query else self.nodes
            return {
                'hypervisors': [
                    {'id': node, 'hypervisor_hostname': node} for node in nodes
                ]
            }
        self.asked.append(query)
        return {'tenant_usages': [{'server_usages': self.records}]}


def record(
    name: str,
    flavor: str,
    hours: float,
    project: str = PROJECT,
    ended: str | None = None,
) -> dict[str, typing.Any]:
    """A server in Nova's usage records."""
    return {
        'instance_id': uuid_of(name),
        'name': name,
        'tenant_id': project,
        'flavor': flavor,
        'hours': hours,
        'ended_at': ended,
        'state': 'terminated' if ended else 'active',
    }


@dataclasses.dataclass
class Cloud:
    """In place of :class:`nova_vgpu.cloud.reader.Cloud`.

    ``failure`` is what Placement leads to, ``flavor_failure`` what Nova does.
    """

    gpus: tuple[fleet.GPU, ...] = ()
    flavors: tuple[cloud_flavors.Flavor, ...] = ()
    consumers: tuple[cloud_consumers.Consumer, ...] = ()
    failure: exception.NovaVGPUError | None = None
    flavor_failure: exception.NovaVGPUError | None = None
    connection: Connection = dataclasses.field(default_factory=Connection)
    #: The compute nodes; None for all hosts of GPUs.
    nodes: tuple[str, ...] | None = None
    consumer_failure: exception.NovaVGPUError | None = None
    whole: tuple[fleet.GPU, ...] = ()

    @functools.cached_property
    def services(self) -> Services:
        hosts = tuple(gpu.host for gpu in (*self.gpus, *self.whole))
        return Services(
            hosts if self.nodes is None else self.nodes,
            failure=self.flavor_failure,
        )

    def list_every_gpu(self) -> tuple[fleet.GPU, ...]:
        if self.failure is not None:
            raise self.failure
        return (*self.gpus, *self.whole)

    def list_gpus(self) -> tuple[fleet.GPU, ...]:
        if self.failure is not None:
            raise self.failure
        return tuple(g for g in self.gpus if not whole_gpu_fleet.is_gpu(g))

    def list_flavors(self) -> tuple[cloud_flavors.Flavor, ...]:
        if self.flavor_failure is not None:
            raise self.flavor_failure
        return self.flavors

    def read_inventory(self, found: fleet.GPU) -> fleet.GPU:
        return found

    def list_consumers(
        self, found: fleet.GPU
    ) -> tuple[cloud_consumers.Consumer, ...]:
        if self.consumer_failure is not None:
            raise self.consumer_failure
        return self.consumers
