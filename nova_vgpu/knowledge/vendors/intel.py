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

"""Intel: GVT-g makes mdevs on the PF; newer GPUs share by SR-IOV alone.

A GVT-g type is called ``i915-GVTg_V5_4``: the graphics generation in the
kernel's counting and the share of the GPU. Not every kernel gives the type a
``name`` file; the name adds nothing to the id. (Linux kernel,
drivers/gpu/drm/i915/gvt.)
"""

import re

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors

_GVT_G = re.compile(r'i915-GVTg_V([0-9]{1,2})_([0-9]{1,3})', re.ASCII)


class Intel(vendors.Vendor):
    name = 'Intel'
    pci_id = 0x8086
    type_prefixes = ('i915',)

    def traits(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> tuple[str, ...]:
        if _GVT_G.fullmatch(vgpu_type.id) is None:
            return ()
        return (traits.custom('VGPU_SERIES', 'GVTG'),)


VENDOR = Intel()
