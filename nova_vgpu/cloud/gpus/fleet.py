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

"""The GPUs of a cloud.

Placement has no request for the inventories of all providers. But a request
for allocation candidates is answered with a summary of every provider in the
trees that have a candidate: capacity, usage and traits. The capacity leaves
out what is reserved, so a summary does not tell a GPU that is fenced from one
that is full: :func:`find_unclear` names the few whose inventory has to be
read.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum

from nova_vgpu import values
from nova_vgpu.cloud import names
from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.publish import providers


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """A provider in Placement's list of all of them."""

    uuid: str
    name: str
    parent: str | None
    root: str


@dataclasses.dataclass(frozen=True, slots=True)
class Stock:
    """What a provider has of one resource class.

    ``capacity`` is what Placement gives out, ``used`` what of it is allocated.
    ``reserved`` is None if the inventory was not read.
    """

    resource_class: str
    capacity: int
    used: int
    reserved: int | None = None

    @property
    def free(self) -> int:
        return max(self.capacity - self.used, 0)

    @property
    def total(self) -> int:
        return self.capacity + (self.reserved or 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """What Placement tells of a provider with allocation candidates."""

    stocks: tuple[Stock, ...] = ()
    traits: frozenset[str] = frozenset()


class State(enum.Enum):
    """Whether a GPU can serve one more vGPU, and if not, why."""

    FREE = 'free'
    FULL = 'full'
    #: All that is not in use is reserved. A GPU that has changed its resource
    #: class reserves what servers use of the other class: if these use all
    #: that it has, it is full.
    FENCED = 'fenced'


@dataclasses.dataclass(frozen=True, slots=True)
class GPU:
    """A GPU's provider in Placement; one of them, if the GPU is divided.

    ``host`` is the name of the compute node, ``device`` that of the node
    device, with the type if the GPU is divided. ``host_traits`` are the traits
    of the compute node's own provider.
    """

    uuid: str
    host: str
    device: str
    stocks: tuple[Stock, ...] = ()
    traits: frozenset[str] = frozenset()
    host_traits: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The provider's."""
        return f'{self.host}_{self.device}'

    @property
    def address(self) -> str:
        """The PCI address; of another device, its name."""
        device, _ = values.split_device(self.device)
        parsed = values.PciAddress.parse_node_device_name(device)
        if parsed is not None:
            return str(parsed)
        try:
            return str(values.PciAddress.parse(self.device))
        except values.MalformedAddress:
            return self.device

    @property
    def facts(self) -> provider_traits.Facts:
        return provider_traits.read(self.traits)

    @property
    def classes(self) -> frozenset[str]:
        """The resource classes that it has an inventory of."""
        return frozenset(stock.resource_class for stock in self.stocks)

    @property
    def used(self) -> int:
        return sum(stock.used for stock in self.stocks)

    @property
    def free(self) -> int:
        return sum(stock.free for stock in self.stocks)

    @property
    def total(self) -> int:
        return sum(stock.total for stock in self.stocks)

    @property
    def reserved(self) -> int:
        return sum(stock.reserved or 0 for stock in self.stocks)

    @property
    def state(self) -> State:
        if self.free:
            return State.FREE
        most = max((stock.total for stock in self.stocks), default=0)
        is_fenced = self.reserved and self.used < most
        return State.FENCED if is_fenced else State.FULL


def is_node_device(name: str) -> bool:
    """Whether this is how the devices of GPUs with vGPUs are named."""
    device, _ = values.split_device(name)
    return values.PciAddress.parse_node_device_name(device) is not None


def find_missing(
    listed: Iterable[Listed],
    summaries: Mapping[str, Summary],
    is_device: Callable[[str], bool] = is_node_device,
) -> tuple[Listed, ...]:
    """Providers of GPUs, by their names, that no summary tells of."""
    known = {provider.uuid: provider for provider in listed}
    return tuple(
        provider
        for provider in known.values()
        if provider.uuid not in summaries
        and is_device(_device_of(provider, known))
    )


def make_gpus(
    listed: Iterable[Listed], summaries: Mapping[str, Summary]
) -> tuple[GPU, ...]:
    """The GPUs that serve vGPUs, in the order of hosts and devices."""
    found = (
        gpu
        for gpu in make_devices(listed, summaries)
        if providers.is_named_as_gpu(
            gpu.name,
            gpu.host,
            gpu.traits,
            [stock.resource_class for stock in gpu.stocks],
        )
    )
    return sort(found)


def list_kinds(gpus: Iterable[GPU]) -> tuple[GPU, ...]:
    """One of all GPUs that flavors cannot tell apart, however large.

    GPUs of one type on hosts of one kind are alike.
    """
    return tuple(
        {
            (gpu.traits, gpu.host_traits, gpu.classes): gpu for gpu in gpus
        }.values()
    )


def sort(gpus: Iterable[GPU]) -> tuple[GPU, ...]:
    return tuple(
        sorted(gpus, key=lambda gpu: (gpu.host, gpu.address, gpu.device))
    )


def make_devices(
    listed: Iterable[Listed], summaries: Mapping[str, Summary]
) -> Iterator[GPU]:
    """Every provider just below a compute node's, as if it were a GPU's."""
    known = {provider.uuid: provider for provider in listed}
    for uuid, summary in summaries.items():
        provider = known.get(uuid)
        device = _device_of(provider, known) if provider else ''
        if provider is None or not device:
            continue  # the root of a tree, or made since the list
        root = known[provider.root]
        yield GPU(
            uuid,
            names.printable(root.name),
            names.printable(device),
            tuple(_in_order(summary.stocks)),
            summary.traits,
            summaries.get(root.uuid, Summary()).traits,
        )


def find_unclear(gpus: Iterable[GPU]) -> tuple[GPU, ...]:
    """GPUs that may be fenced, whose inventory would tell.

    That of a GPU with something free is not needed, nor that of a full one
    which gives out as many vGPUs as another one of its type. A GPU with two
    resource classes has changed its class and reserves what the other one
    uses. To be called again when inventories have been read: they tell how
    many vGPUs other GPUs of the type have.
    """
    groups: dict[tuple[object, ...], list[GPU]] = collections.defaultdict(list)
    unclear: list[GPU] = []
    for gpu in gpus:
        if len(gpu.stocks) == 1:
            groups[gpu.facts.types, gpu.stocks[0].resource_class].append(gpu)
        elif _is_unread(gpu):
            unclear.append(gpu)
    for group in groups.values():
        unclear.extend(_find_unclear_of_type(group))
    return tuple(unclear)


def _find_unclear_of_type(group: list[GPU]) -> Iterator[GPU]:
    usual = max(gpu.total for gpu in group)
    exhausted = [gpu for gpu in group if _is_unread(gpu) and not gpu.free]
    yield from (gpu for gpu in exhausted if gpu.total < usual)
    alike = [gpu for gpu in exhausted if gpu.total == usual]
    if len(exhausted) == len(group) and alike:
        yield alike[0]  # nothing tells yet how many vGPUs are usual


def _is_unread(gpu: GPU) -> bool:
    return any(stock.reserved is None for stock in gpu.stocks)


def complete(gpu: GPU, inventories: Iterable[values.Inventory]) -> GPU:
    """The GPU with what is reserved according to its inventories."""
    found = {i.resource_class: i.reserved for i in inventories}
    return dataclasses.replace(
        gpu,
        stocks=tuple(
            Stock(
                stock.resource_class,
                stock.capacity,
                stock.used,
                found.get(stock.resource_class, 0),
            )
            for stock in gpu.stocks
        ),
    )


def summarise(held: values.PlacementProvider) -> Summary:
    """The summary of a provider that was read by itself."""
    return Summary(
        tuple(
            Stock(
                i.resource_class,
                int((i.total - i.reserved) * i.allocation_ratio),
                held.used_of(i.resource_class),
                i.reserved,
            )
            for i in held.inventories
        ),
        held.traits,
    )


def _device_of(provider: Listed, known: Mapping[str, Listed]) -> str:
    """The device of a provider just below a compute node's, by its name."""
    root = known.get(provider.root)
    if root is None or provider.parent != root.uuid:
        return ''
    device = provider.name.removeprefix(f'{root.name}_')
    return '' if device == provider.name else device


def _in_order(stocks: Iterable[Stock]) -> list[Stock]:
    return sorted(stocks, key=lambda stock: stock.resource_class)
