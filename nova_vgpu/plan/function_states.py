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

"""Whether a function can have one more vGPU now."""

import enum

from nova_vgpu import values


class FunctionState(enum.Enum):
    """What ``nova-vgpu device list`` and the metrics call it."""

    TAKEN = 'taken'
    FREE = 'free'
    FULL = 'full'
    NO_TYPES = 'no types'


def find_state(
    function: values.VirtualFunction | values.PhysicalGPU,
) -> FunctionState:
    """The state of a virtual function, or of a GPU's own function.

    A GPU without virtual functions has many vGPUs on its own function; a
    virtual function has one.
    """
    is_virtual = isinstance(function, values.VirtualFunction)
    if function.vgpus and is_virtual:
        return FunctionState.TAKEN
    if any(offer.available for offer in function.offers):
        return FunctionState.FREE
    shows_types = function.offers or function.vgpus
    if shows_types or getattr(function, 'vendor_vfio', False):
        return FunctionState.FULL
    return FunctionState.NO_TYPES
