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

"""AMD: GPUs are shared by SR-IOV alone (MxGPU), without vGPU types.

The driver for hosts, GIM, enables virtual functions when it is loaded; an
option of its module has their number, and the GPU is divided equally among
them. An operator names the VF profile: ``MI300X-1of8``. Memory is divided by
the partition of the GPU, so that the size of a function is not known here.
"""

import re

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors

_VF_PROFILE = re.compile(
    r'(?P<model>MI[1-9][0-9]{2}[A-Z]?|V[1-9][0-9]{2})-'
    r'1OF(?P<count>[1-9][0-9]?)',
    re.ASCII | re.IGNORECASE,
)
# By PCI device id, the model and how many VFs GIM supports on it; none if its
# documentation does not tell. (ROCm/gpu-operator, gpu-nfd-default-rule.yaml;
# release notes of GIM 9.3.0.K, amd/MxGPU-Virtualization.)
_MODELS: dict[int, tuple[str, tuple[int, ...]]] = {
    0x740F: ('MI210', (1,)),
    0x7460: ('V710', tuple(range(1, 13))),
    0x74A1: ('MI300X', (1, 8)),
    0x74A2: ('MI308X', ()),
    0x74A5: ('MI325X', (1,)),
    0x74A8: ('MI308X', ()),
    0x75A0: ('MI350X', (1, 2, 8)),
    0x75A3: ('MI355X', (1, 2, 8)),
}


class AMD(vendors.Vendor):
    name = 'AMD'
    pci_id = 0x1002
    vf_driver = 'gim'
    vf_profile_form = 'the model and the number of VFs: MI300X-1of8'

    def parse_vf_profile(self, text: str) -> vendors.VFProfile | None:
        match = _VF_PROFILE.fullmatch(text.strip())
        if match is None:
            return None
        return vendors.VFProfile(match['model'].upper(), int(match['count']))

    def model_name(self, ids: values.PciIds) -> str | None:
        name, _ = _MODELS.get(ids.device, (None, ()))
        return name

    def vf_numbers(self, ids: values.PciIds) -> tuple[int, ...]:
        _, numbers = _MODELS.get(ids.device, (None, ()))
        return numbers

    def traits(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> tuple[str, ...]:
        model = self.model_name(ids)
        return (traits.custom('GPU_MODEL', model),) if model else ()


VENDOR = AMD()
