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

GPUs with SR-IOV have no types. The kernel provisions their virtual functions,
equally or by quotas of memory; an operator names the VF profile: ``B60-1of4``,
``B60-6G``.
Only the models that are meant for servers are named here; the names are those
of the PCI ID database.
"""

import re

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors

_GVT_G = re.compile(r'i915-GVTg_V([0-9]{1,2})_([0-9]{1,3})', re.ASCII)
_VF_PROFILE = re.compile(
    r'(?P<model>[A-Z][A-Z0-9 ]{0,30}[0-9])-'
    r'(?:1OF(?P<count>[1-9][0-9]{0,2})|(?P<gib>[1-9][0-9]{0,3})G)',
    re.ASCII | re.IGNORECASE,
)
# Model and memory by PCI device id.
_MODELS = {
    0x56C0: ('Flex 170', 16 * 1024),
    0x56C1: ('Flex 140', 6 * 1024),
    0xE211: ('B60', 24 * 1024),
    0xE212: ('B50', 16 * 1024),
}


class Intel(vendors.Vendor):
    name = 'Intel'
    pci_id = 0x8086
    type_prefixes = ('i915',)
    vf_driver = 'xe'
    vf_profile_form = (
        'a model that ends in a digit, and the number of VFs or the memory of '
        'each: B60-1of4, B60-6G'
    )

    def parse_vf_profile(self, text: str) -> vendors.VFProfile | None:
        match = _VF_PROFILE.fullmatch(' '.join(text.split()))
        if match is None:
            return None
        if match['gib']:
            return vendors.VFProfile(
                match['model'], vram_mib=int(match['gib']) * 1024
            )
        return vendors.VFProfile(match['model'], int(match['count']))

    def model_name(self, ids: values.PciIds) -> str | None:
        name, _ = _MODELS.get(ids.device, (None, None))
        return name

    def vram_mib(self, ids: values.PciIds) -> int | None:
        _, mib = _MODELS.get(ids.device, (None, None))
        return mib

    def traits(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> tuple[str, ...]:
        if _GVT_G.fullmatch(vgpu_type.id) is not None:
            return (traits.custom('VGPU_SERIES', 'GVTG'),)
        model = self.model_name(ids)
        return (traits.custom('GPU_MODEL', model),) if model else ()


VENDOR = Intel()
