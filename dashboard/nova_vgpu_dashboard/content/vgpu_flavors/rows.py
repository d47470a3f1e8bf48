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

"""What a project may know of flavors with vGPUs: what they ask for."""

from collections.abc import Iterable
import dataclasses

from nova_vgpu.cloud.orders import flavors
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.vgpu_flavors import availability
from nova_vgpu_dashboard.content.vgpu_flavors import words


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A flavor; ``words`` say what it brings, ``count`` how many of it.

    ``free`` is None if the user may not know.
    """

    id: str
    name: str
    words: str
    count: int
    size: flavors.Size
    free: int | None = None
    is_over_limit: bool = False


RULES: listing.Rules[Row] = listing.Rules(
    filters={},
    orders={
        'name': lambda row: listing.natural(row.name),
        'words': lambda row: (row.count, listing.natural(row.words)),
        'available': lambda row: (not row.is_over_limit, row.free or 0),
        'vcpus': lambda row: row.size.vcpus,
        'ram': lambda row: row.size.ram_mib,
        'disk': lambda row: row.size.disk_gib,
    },
    default='name',
)


def make_rows(
    listed: Iterable[flavors.Flavor],
    known: availability.Known = availability.UNKNOWN,
) -> list[Row]:
    """The flavors that bring vGPUs or whole GPUs."""
    return [
        Row(
            flavor.id,
            flavor.name,
            words.describe(flavor),
            words.count(flavor),
            flavor.size,
            known.count_free(flavor),
            known.is_over_limit(flavor),
        )
        for flavor in listed
        if words.count(flavor)
    ]


def list_classes(listed: Iterable[flavors.Flavor]) -> frozenset[str]:
    """The resource classes of the vGPUs that flavors ask for."""
    return frozenset(
        name
        for flavor in listed
        for name in availability.count_classes(flavor)
    )
