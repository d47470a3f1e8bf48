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

"""From the plan to Placement's resource providers."""

import uuid

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities

_NAMESPACE = uuid.UUID('8d0c1f4e-7c0b-5d57-9f3a-6b1d2f5a9c37')


def name_of(node: str, device: str) -> str:
    """The provider of a device, as Nova names it."""
    return f'{node}_{device}'


def uuid_of(parent: str | None, name: str) -> str:
    """The UUID of a provider that this project makes.

    It follows from where the provider is and what it is called. So a provider
    that was made by a request whose answer got lost is known again, and so is
    one that Nova made, which has a random UUID.
    """
    return str(uuid.uuid5(_NAMESPACE, f'{parent or ""}/{name}'))


def uuid_for_nova(parent: str, name: str) -> str:
    """The UUID of a provider that Nova looks after from then on.

    One that the driver makes, or one for Nova's own driver.
    """
    return str(uuid.uuid5(_NAMESPACE, f'for Nova: {parent}/{name}'))


def is_ours(held: values.PlacementProvider) -> bool:
    """Whether this project made the provider."""
    return held.uuid == uuid_of(held.parent, held.name)


def make_held(
    name: str, parent: str, is_novas: bool
) -> values.PlacementProvider:
    """A provider as Placement holds it when it was just made.

    :param is_novas: whether Nova looks after it.
    """
    uuid = uuid_for_nova(parent, name) if is_novas else uuid_of(parent, name)
    return values.PlacementProvider(uuid, name, 0, parent)


def list_functions(gpu: values.PhysicalGPU) -> frozenset[str]:
    """The node device names of the virtual functions that a GPU can have.

    Of those that are off now, too: Nova may have made providers of them.
    """
    addresses = {vf.address for vf in gpu.vfs}
    if gpu.sriov is not None and gpu.address is not None:
        addresses.update(gpu.sriov.addresses(gpu.address))
    return frozenset(address.node_device_name for address in addresses)


def list_names(gpu: values.PhysicalGPU, node: str) -> frozenset[str]:
    """What Nova may call the providers of a GPU: one, or one per function."""
    devices = {gpu.name, *list_functions(gpu)}
    return frozenset(name_of(node, device) for device in devices)


def list_awaited(plan: values.Plan) -> frozenset[str]:
    """Names of the devices that are to serve, whether they can now or not.

    Listed ones are awaited although they are not on the bus.
    """
    listed = (
        _parse(text)
        for declared in plan.types
        for text in declared.device_addresses
    )
    return plan.unreadable.union(
        (assigned.gpu.name for assigned in plan.assignments),
        (address.node_device_name for address in listed if address),
    )


def _parse(text: str) -> values.PciAddress | None:
    try:
        return values.PciAddress.parse(text)
    except values.MalformedAddress:
        return None


def make_provider(
    assigned: values.Assignment, node: str
) -> values.Provider | None:
    """The provider of one GPU, below the compute node's; None if idle."""
    if not assigned.serves or not assigned.type or not assigned.capacity:
        return None
    return values.Provider(
        name=name_of(node, assigned.gpu.name),
        parent=node,
        resource_class=assigned.declared.resource_class,
        total=assigned.capacity.total,
        traits=tuple(
            sorted(
                {
                    *capabilities.traits_of(assigned.gpu, assigned.type),
                    *assigned.declared.traits,
                }
            )
        ),
    )


def list_providers(
    plan: values.Plan, node: str
) -> tuple[values.Provider, ...]:
    """One provider per GPU that serves."""
    made = (make_provider(assigned, node) for assigned in plan.assignments)
    return tuple(provider for provider in made if provider is not None)
