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

"""Acme: GPUs that make mdevs on the PF, with types such as ``acme-ray-4``.

The number is the frame buffer in GiB. (Acme, "Sharing a Ray", table 2.)
"""

import dataclasses
import re

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors

_TYPE_ID = re.compile(r'acme-(?P<model>[a-z]+)-(?P<gib>[0-9]{1,3})', re.ASCII)
_MODELS = {0x0001: 'Ray'}
_MEMORY_GIB = 16  # of the Ray


class Acme(vendors.Vendor):
    name = 'Acme'
    pci_id = 0xACE0
    type_prefixes = ('acme',)

    def model_name(self, ids: values.PciIds) -> str | None:
        return _MODELS.get(ids.device)

    def makes_vgpus(self, ids: values.PciIds) -> bool:
        return ids.device in _MODELS

    def complete(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> values.TypeFacts:
        match = _TYPE_ID.fullmatch(vgpu_type.id)
        if match is None:
            return vgpu_type.facts
        facts, gib = vgpu_type.facts, int(match['gib'])
        return dataclasses.replace(
            facts,
            framebuffer_mib=facts.framebuffer_mib or gib * 1024,
            max_instances=facts.max_instances or _MEMORY_GIB // gib,
        )

    def traits(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> tuple[str, ...]:
        model = self.model_name(ids)
        return (traits.custom('GPU_MODEL', model),) if model else ()


VENDOR = Acme()
