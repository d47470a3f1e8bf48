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

"""What a project may know of flavors with vGPUs: what they ask for.

Placement tells only administrators which GPUs there are. So types are those
whose traits a flavor requires.
"""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.cloud.orders import flavor_listing
from nova_vgpu.cloud.orders import flavors
from nova_vgpu_dashboard import listing


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A flavor; without types it takes a vGPU of any."""

    id: str
    name: str
    vgpus: int
    types: tuple[str, ...]
    size: flavors.Size


RULES: listing.Rules[Row] = listing.Rules(
    filters={},
    orders={
        'name': lambda row: listing.natural(row.name),
        'types': lambda row: listing.natural(', '.join(row.types)),
        'vgpus': lambda row: row.vgpus,
        'vcpus': lambda row: row.size.vcpus,
        'ram': lambda row: row.size.ram_mib,
        'disk': lambda row: row.size.disk_gib,
    },
    default='name',
)


def make_rows(listed: Sequence[flavors.Flavor]) -> list[Row]:
    """The flavors that ask for vGPUs."""
    return [
        Row(
            found.flavor.id,
            found.flavor.name,
            found.vgpus,
            _list_types(found.flavor.groups),
            found.flavor.size,
        )
        for found in flavor_listing.list_vgpu_flavors(listed, ())
    ]


def _list_types(groups: Iterable[flavors.Group]) -> tuple[str, ...]:
    required = frozenset(trait for g in groups for trait in g.required)
    return provider_traits.read(required).types
