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

"""On which GPUs the lost mdevs of a server are created again."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.plan import type_matching


def match_places(
    lost: Mapping[str, str | None], places: Sequence[values.Assignment]
) -> Iterator[tuple[str, values.Assignment]]:
    """Give each lost mdev one of the places that Placement has for the server.

    An mdev whose type was noted goes where that type is served. What is left
    goes to what is left: an mdev whose type is not known may be of any, and
    one whose type is not served any more can be reported.

    :param lost: the types that were noted, by the UUIDs of the mdevs.
    :param places: what GPUs serve, one for each vGPU that the server holds.
    """
    left, later = list(places), list[str]()
    # Those that are known first.
    for uuid in sorted(lost, key=lambda uuid: (lost[uuid] is None, uuid)):
        place = _find(lost[uuid], left)
        if place is None:
            later.append(uuid)
        else:
            left.remove(place)
            yield uuid, place
    yield from zip(later, left, strict=False)


def _find(
    type_name: str | None, places: Sequence[values.Assignment]
) -> values.Assignment | None:
    for place in places:
        served = [place.type] if place.type else []
        if type_name and type_matching.find_matches(type_name, served):
            return place
    return None
