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

"""What GPUs offer, in the words of a message."""

from collections.abc import Iterable
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.decisions import nearest
from nova_vgpu.knowledge import capabilities

_SHOWN_TYPES = 12


def list_offers(
    gpu: values.PhysicalGPU, types: Sequence[values.VGPUType]
) -> str:
    """The types of a GPU; of many the first, and how to see the rest."""
    shown = [capabilities.short_name(t) for t in types]
    text = ', '.join(shown[:_SHOWN_TYPES])
    more = len(shown) - _SHOWN_TYPES
    if more > 0:
        command = f'nova-vgpu type list --gpu {gpu}'
        text += f' and {more} more ("{command}")'
    return text


def find_meant(text: str, types: Iterable[values.VGPUType]) -> str | None:
    """The name or the id that is most like what was written, if one is."""
    types = tuple(types)
    names = [
        name for t in types for name in (capabilities.short_name(t), t.id)
    ]
    return nearest.find_nearest(text, dict.fromkeys(names)) or next(
        # "231" is how the bare number of an id is written elsewhere.
        (t.id for t in types if t.id.endswith(f'-{text}')),
        None,
    )
