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

"""The slots of vGPU types in heterogeneous mode, read through NVML.

A vGPU begins at certain slots only, so that fewer of some sizes may fit than
the memory has room for. NVML tells that before the mode is set.
"""

import typing

from nova_vgpu import values
from nova_vgpu.host import nvml

# nvml.h: NVML_VGPU_PGPU_HETEROGENEOUS_MODE, and the version of the structure
# that has a mode.
_HETEROGENEOUS = 0
_VERSION = 2
_PREFIX = 'nvidia-'


def read_slots(
    library: nvml.Library, handle: typing.Any
) -> tuple[values.TypeSlots, ...] | None:
    """The slots of each type of a GPU; None if NVML does not tell them."""
    numbers = library.ask('nvmlDeviceGetSupportedVgpus', list, handle)
    found = [_read_type(library, handle, number) for number in numbers or ()]
    return tuple(slots for slots in found if slots) or None


def _read_type(
    library: nvml.Library, handle: typing.Any, number: int
) -> values.TypeSlots | None:
    size, *starts = library.ask(
        'nvmlDeviceGetVgpuTypeSupportedPlacements',
        lambda found: (
            found.placementSize,
            *found.placementIds[: found.count],
        ),
        handle,
        number,
        _HETEROGENEOUS,
        _VERSION,
    ) or (0,)
    if not size or not starts:
        return None
    name = library.ask('nvmlVgpuTypeGetName', nvml.parse_text, number)
    return values.TypeSlots(f'{_PREFIX}{number}', name, size, tuple(starts))
