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

"""Creates a flavor that asks for vGPUs or whole GPUs, or completes one.

Everything is checked before the first change. The same request again finds
the flavor and changes nothing; after an interruption it does what is left.
"""

from collections.abc import Iterator
import dataclasses

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.cloud.orders import flavor_change
from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.cloud.orders import flavor_store
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_order

_LONGEST_NAME = 255
# Placement answers in some seconds.
_MANY_COMBINATIONS = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorRequest:
    """A flavor as an administrator asks for it.

    It is for vGPUs of a ``type``, or for whole GPUs of the model
    ``passthrough``.
    """

    name: str
    type: str | None
    size: flavors.Size
    count: int = 1
    policy: flavor_order.Policy | None = None
    resource_class: str | None = None
    page_size: str | None = None
    is_public: bool = True
    passthrough: str | None = None


Served = type_choice.ServedType | whole_gpu_order.WholeModel


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, or would be."""

    flavor: flavors.Flavor
    served: Served
    change: flavor_change.Change
    warnings: tuple[str, ...] = ()


def ensure_flavor(
    cloud: reader.Cloud,
    store: flavor_store.FlavorStore,
    request: FlavorRequest,
    is_dry_run: bool = False,
) -> Outcome:
    """Make Nova have the flavor.

    :raises UsageError: if the request is invalid.
    :raises NotInCloud: if no GPU could serve it.
    :raises FlavorConflict: if another flavor has the name, or servers use it.
    """
    require_valid(request)
    served = _find_served(cloud, request)
    wanted = make_flavor(request, served)
    existing = next(
        (f for f in cloud.list_flavors() if f.name == wanted.name), None
    )
    change = flavor_change.plan_change(wanted, existing)
    if change.result is not flavor_change.Result.UNCHANGED:
        _require_live(served)
    if change.result is flavor_change.Result.UPDATED and existing is not None:
        _require_unused(store, existing)
    identity = existing.id if existing else ''
    if not is_dry_run:
        if existing is None:
            identity = store.create(wanted)
        else:
            store.update(existing, change)
    made = dataclasses.replace(wanted, id=identity)
    return Outcome(made, served, change, find_warnings(request, served))


def _find_served(cloud: reader.Cloud, request: FlavorRequest) -> Served:
    """The GPUs that can serve a request.

    :raises NotInCloud: if there are none.
    """
    if request.passthrough is not None:
        model = whole_gpu_order.find_model(
            cloud.list_every_gpu(), request.passthrough
        )
        whole_gpu_order.require_possible(model, request.count)
        return model
    served = type_choice.find_type(
        cloud.list_gpus(), request.type or '', request.resource_class
    )
    policy = request.policy or flavor_order.DEFAULT_POLICY
    flavor_order.require_possible(served, request.count, policy)
    return served


def _require_live(served: Served) -> None:
    if isinstance(served, whole_gpu_order.WholeModel):
        whole_gpu_order.require_live(served)
    else:
        flavor_order.require_live(served)


def require_valid(request: FlavorRequest) -> None:
    """Check what does not depend on the cloud.

    :raises UsageError: with everything that is wrong.
    """
    name, size = request.name, request.size
    found = list(_find_misused(request))
    if not name.strip() or not name.isprintable() or name != name.strip():
        found.append(
            f'The name "{names.printable(name)}" is not valid: Nova takes '
            'printable characters without spaces around them.'
        )
    if len(name) > _LONGEST_NAME:
        found.append(f'The name is longer than {_LONGEST_NAME} characters.')
    for option, value, least in (
        ('--count', request.count, 1),
        ('--vcpus', size.vcpus, 1),
        ('--ram', size.ram_mib, 1),
        ('--disk', size.disk_gib, 0),
        ('--ephemeral', size.ephemeral_gib, 0),
        ('--swap', size.swap_mib, 0),
    ):
        if value < least:
            found.append(f'{option} {value} is too small: at least {least}.')
    pages = request.page_size
    if pages is not None and not flavor_order.is_page_size(pages):
        found.append(
            f'--page-size {names.printable(pages)} is not valid: give large, '
            'small, any, or a size as 2MB or 1GB.'
        )
    if found:
        raise exception.UsageError('\n'.join(found))


def _find_misused(request: FlavorRequest) -> Iterator[str]:
    """Options that do not go together."""
    if (request.type is None) == (request.passthrough is None):
        yield 'Give either --type or --passthrough.'
    if request.passthrough is None:
        return
    for option, value in (
        ('--policy', request.policy),
        ('--resource-class', request.resource_class),
    ):
        if value is not None:
            yield f'{option} is for vGPUs, not for whole GPUs: leave it out.'


def make_flavor(request: FlavorRequest, served: Served) -> flavors.Flavor:
    """The flavor as Nova is to have it."""
    if isinstance(served, whole_gpu_order.WholeModel):
        specs = whole_gpu_order.make_extra_specs(served.names, request.count)
        specs |= flavor_order.make_memory_specs(request.page_size)
    else:
        specs = flavor_order.make_extra_specs(
            flavor_order.Order(
                served.trait,
                served.resource_class,
                request.count,
                request.policy or flavor_order.DEFAULT_POLICY,
                request.page_size,
            )
        )
    return flavors.parse(request.name, specs, request.size, request.is_public)


def _require_unused(
    store: flavor_store.FlavorStore, existing: flavors.Flavor
) -> None:
    server = store.find_server(existing)
    if server is not None:
        raise exception.FlavorConflict(
            f'Flavor {existing.name} has other extra specs and is in use, for '
            f'example by server {server}. Servers keep the extra specs that '
            'they were built with. Use another name for the new flavor.'
        )


def find_warnings(request: FlavorRequest, served: Served) -> tuple[str, ...]:
    """What the administrator should know of a flavor that is possible."""
    policy = request.policy or flavor_order.DEFAULT_POLICY
    cure = '--policy same-gpu or a smaller --count'
    if isinstance(served, whole_gpu_order.WholeModel):
        # Nova makes a group for each GPU, with the group policy "none".
        policy = flavor_order.Policy.ANY
        cure = 'a smaller --count'
    combinations = flavor_order.count_combinations(
        served.stocks, request.count, policy
    )
    if combinations < _MANY_COMBINATIONS:
        return ()
    return (
        f'Placement has up to {combinations} combinations of GPUs for a '
        'server with this flavor, and makes all of them for each request. Use '
        f'{cure}, or limit them with [placement]max_allocation_candidates.',
    )
