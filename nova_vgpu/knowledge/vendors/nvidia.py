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

"""NVIDIA: type names, and the facts that follow from them.

A name is ``[GRID |NVIDIA ]<GPU>-[<slices>-]<GB><series>[4][suffix]``; slices
are there when the type is backed by a MIG instance, 0 GB stands for 512 MB,
and types for gaming have no series. The suffix GFX is only written in
configurations and names the same type. (NVIDIA vGPU user guide, "Virtual GPU
Types"; NVIDIA/vgpu-device-manager, which reads the same names.)
"""

import dataclasses
import re

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors
from nova_vgpu.knowledge.vendors import _nvidia_catalogue as catalogue

_NAME = re.compile(
    r'(?:(?P<brand>GRID|NVIDIA)\s+)?'
    r'(?P<model>[A-Z0-9][A-Z0-9 ._]*(?:-[A-Z][A-Z0-9 ._]*)*)-'
    r'(?:(?P<slices>[0-9]{1,2})-)?'
    r'(?P<gigabytes>[0-9]{1,4})'
    r'(?:(?P<series>[QCBA])(?P<variant>4)?(?P<suffix>ME|NOME|MEALL|GFX)?)?',
    re.IGNORECASE | re.ASCII,
)

# "nvidia-558" is an id and not a 558 GB type of a GPU called nvidia.
_NOT_MODELS = frozenset({'nvidia', 'grid'})
_CONFIGURATION_ONLY_SUFFIX = 'GFX'

# NVIDIA AI Enterprise user guide 5.0, "Disabling and Enabling ECC Memory":
# the other GPUs allow it, and only these series use it.
_WITHOUT_ECC = frozenset({'M6', 'M60'})
_ECC_SERIES = frozenset('CQ')
# The first driver whose vGPUs support ECC. (NVIDIA vGPU release notes 9.0,
# R430, "New Features in Release 9.0".)
_FIRST_WITH_ECC = 430
# NVIDIA vGPU user guide, "Virtual GPU Types for Supported GPUs": the required
# license edition of each table.
_LICENCES = {
    'A': 'NVIDIA Virtual Applications (vApps)',
    'B': 'NVIDIA Virtual PC (vPC), or vWS',
    'C': 'NVIDIA AI Enterprise (vCS), or vWS',
    'Q': 'NVIDIA RTX Virtual Workstation (vWS)',
}


_ONE_SIZE_ARCHITECTURES = ('Maxwell', 'Pascal')


class NVIDIA(vendors.Vendor):
    name = 'NVIDIA'
    pci_id = 0x10DE
    type_prefixes = ('nvidia',)
    has_types_on_vfs = True
    vfs_off_cure = (
        'Enable them: nova-vgpu apply, or nova-vgpu sriov enable {gpu}'
    )
    no_types_cure = (
        'Check that the vGPU manager runs (nvidia-vgpu-mgr.service) and, on '
        'a GPU in MIG mode, that GPU instances exist: sriov-manage removes '
        'existing ones.'
    )

    def parse_type_name(self, text: str) -> vendors.TypeName | None:
        match = _NAME.fullmatch(' '.join(text.split()))
        if match is None:
            return None
        model = match['model'].strip()
        if model.casefold() in _NOT_MODELS:
            return None
        suffix = (match['suffix'] or '').upper()
        slices = match['slices']
        if slices and not (int(slices) and int(match['gigabytes'])):
            return None  # a MIG instance has at least one slice, and memory
        known = catalogue.model_by_token(model)
        if not (match['series'] or match['brand'] or known):
            return None  # "mtty-1" is not a 1 GB type for gaming
        return vendors.TypeName(
            # One spelling for a model that is known under several.
            model=catalogue.name_of(known) if known else model,
            framebuffer_mib=int(match['gigabytes']) * 1024 or 512,
            series=(match['series'] or '').upper(),
            slices=None if slices is None else int(slices),
            variant=match['variant'] or '',
            suffix='' if suffix == _CONFIGURATION_ONLY_SUFFIX else suffix,
            brand=(match['brand'] or '').upper(),
        )

    def model_name(self, ids: values.PciIds) -> str | None:
        model = self._model(ids)
        return catalogue.name_of(model) if model else None

    def find_model(self, text: str) -> str | None:
        words = text.split()
        if words and words[0].casefold() in _NOT_MODELS:
            words = words[1:]  # "NVIDIA A40" is how nvidia-smi says it
        known = catalogue.model_by_token(' '.join(words))
        if known is not None:
            return catalogue.name_of(known)
        # As a trait has it: in capitals, and with underscores.
        meant = traits.custom('GPU_MODEL', ' '.join(words))
        return next(
            (
                name
                for name in self.list_models()
                if traits.custom('GPU_MODEL', name) == meant
            ),
            None,
        )

    def list_models(self, device: int | None = None) -> tuple[str, ...]:
        return tuple(
            catalogue.name_of(model)
            for model in catalogue.MODELS
            if device is None or device in (ids[0] for ids in model.pci_ids)
        )

    def makes_vgpus(self, ids: values.PciIds) -> bool:
        return self._model(ids) is not None

    def complete(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> values.TypeFacts:
        facts = vgpu_type.facts
        name = self.parse_type_name(vgpu_type.name or '')
        if name is None:
            return facts
        framebuffer_mib = facts.framebuffer_mib or name.framebuffer_mib
        maximum = facts.max_instances
        model = catalogue.model_by_token(name.model)
        if maximum is None and model is not None:
            maximum = catalogue.max_per_gpu(
                model,
                framebuffer_mib=name.framebuffer_mib,
                slices=name.slices,
                series=name.series,
                suffix=name.suffix,
            )
        return dataclasses.replace(
            facts, framebuffer_mib=framebuffer_mib, max_instances=maximum
        )

    def may_have(self, name: vendors.TypeName) -> bool:
        model = catalogue.model_by_token(name.model)
        return model is None or catalogue.fits(
            model, name.framebuffer_mib, name.slices
        )

    def mig_shape(self, name: vendors.TypeName) -> vendors.MigShape | None:
        model = catalogue.model_by_token(name.model)
        if model is None or name.slices is None:
            return None
        found = catalogue.find_instance(
            model, name.framebuffer_mib, name.slices
        )
        if found is None:
            return None
        memory_slices, shared = found
        return vendors.MigShape(
            name.slices,
            model.mig_slices,
            memory_slices,
            catalogue.MEMORY_SLICES[model.mig_slices],
            shared,
        )

    def refuses_ecc(
        self, model: str | None, driver_version: str | None
    ) -> str | None:
        if model in _WITHOUT_ECC:
            return f'vGPUs of an {model} do not start while ECC is on'
        branch = (driver_version or '').partition('.')[0]
        if branch.isdecimal() and int(branch) < _FIRST_WITH_ECC:
            return (
                f'vGPUs of driver {driver_version} do not start while ECC is '
                'on'
            )
        return None

    def heeds_ecc(self, vgpu_type: str) -> bool | None:
        name = self.parse_type_name(vgpu_type)
        return name.series in _ECC_SERIES if name and name.series else None

    def licence_of(self, vgpu_type: str) -> str | None:
        name = self.parse_type_name(vgpu_type)
        return _LICENCES.get(name.series) if name else None

    def offers_cuda(self, vgpu_type: str) -> bool | None:
        name = self.parse_type_name(vgpu_type)
        model = catalogue.model_by_token(name.model) if name else None
        if name is None or model is None:
            return None
        return catalogue.offers_cuda(model, name.series, name.framebuffer_mib)

    def traits(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> tuple[str, ...]:
        name = self.parse_type_name(vgpu_type.name or '')
        model = catalogue.model_by_token(name.model) if name else None
        model = model or self._model(ids)
        found: list[str] = []
        if model is not None:
            found.append(traits.custom('GPU_ARCH', model.architecture))
        if name is None:
            return tuple(found)
        found.append(traits.custom('GPU_MODEL', name.model))
        if name.series:
            found.append(traits.custom('VGPU_SERIES', name.series))
            found.extend(catalogue.SERIES_APIS.get(name.series, ()))
        if name.slices is not None:
            found.append(traits.custom('VGPU_MIG_BACKED'))
        if model is not None and catalogue.offers_cuda(
            model, name.series, name.framebuffer_mib
        ):
            found.append(_cuda_trait(model))
        return tuple(found)

    def mixes_sizes(self, ids: values.PciIds) -> bool | None:
        """GPUs from Volta on have the heterogeneous mode.

        (User guide of NVIDIA AI Enterprise, "Heterogeneous vGPU".)
        """
        model = self._model(ids)
        if model is None:
            return None
        return model.architecture not in _ONE_SIZE_ARCHITECTURES

    def whole_traits(self, ids: values.PciIds) -> tuple[str, ...]:
        model = self._model(ids)
        if model is None:
            return ()
        return (
            traits.custom('GPU_ARCH', model.architecture),
            traits.custom('GPU_MODEL', catalogue.name_of(model)),
            _cuda_trait(model),
        )

    def _model(self, ids: values.PciIds) -> catalogue.Model | None:
        return catalogue.model_by_pci(ids.device, ids.subsystem_device)


def _cuda_trait(model: catalogue.Model) -> str:
    major, minor = model.compute_capability
    return traits.standard_or_custom(
        'GPU_CUDA_COMPUTE_CAPABILITY', f'V{major}_{minor}'
    )


VENDOR = NVIDIA()
