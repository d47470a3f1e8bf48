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

"""The slots in the memory of a GPU that mixes vGPUs of several sizes."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class TypeSlots:
    """Where vGPUs of a type can begin, and how many slots each takes.

    NVML calls that the placements of a type in heterogeneous mode. ``name`` is
    that of the type, if NVML tells it.
    """

    type_id: str
    name: str | None
    size: int
    starts: tuple[int, ...]
