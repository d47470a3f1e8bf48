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

"""NVIDIA's GPUs that support vGPUs, and how many of a type one GPU serves.

A host shows most of this itself, but not always and not before a GPU is set
up. Memory and maximums are those of NVIDIA's tables of vGPU types: the vGPU
user guide (release 8 for Maxwell and Pascal, release 17 for the later ones),
NVIDIA AI Enterprise's "vGPU Types Reference" for the compute boards and
Blackwell, and the MIG user guide ("Supported MIG Profiles"). Maximums are
those of a GPU in equal-size mode: with sizes mixed, some types get fewer.
"""

from collections.abc import Mapping
import dataclasses
import types


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """A board and its limits for vGPUs.

    ``token`` is the GPU's part of its type names, ``memory_gib`` the frame
    buffer of one physical GPU (an A16 has four) by the name of its largest
    type. ``max_vgpus`` is the most time-sliced vGPUs, of whichever type, on
    one GPU. ``mig_slices`` counts compute slices and is 0 without MIG. A PCI
    id is that of the device and of the subsystem, None standing for any.
    """

    token: str
    architecture: str
    compute_capability: tuple[int, int]
    memory_gib: int
    max_vgpus: int
    mig_slices: int = 0
    pci_ids: tuple[tuple[int, int | None], ...] = ()


# Compute capability: NVIDIA's pages "CUDA GPU Compute Capability" and "Legacy
# CUDA GPU Compute Capability"; boards they leave out (M6, M10, P6, A800, H20,
# L2, RTX 6000D...) have that of their chip.
# PCI ids: pci.ids and NVIDIA/open-gpu-kernel-modules (compatible GPUs); which
# token goes with which id: NVIDIA/vgpu-device-manager (the default in its
# example configuration). A subsystem is given where boards share a device id.
# fmt: off
MODELS: tuple[Model, ...] = (
    Model('M6',          'Maxwell', (5, 2),  8, 16, 0, ((0x13F3, None),)),
    Model('M10',         'Maxwell', (5, 0),  8, 16, 0, ((0x13BD, 0x1160),)),
    Model('M60',         'Maxwell', (5, 2),  8, 16, 0, ((0x13F2, None),)),
    Model('P4',          'Pascal',  (6, 1),  8,  8, 0, ((0x1BB3, None),)),
    Model('P6',          'Pascal',  (6, 1), 16, 16, 0, ((0x1BB4, None),)),
    Model('P40',         'Pascal',  (6, 1), 24, 24, 0, ((0x1B38, None),)),
    Model('P100',        'Pascal',  (6, 0), 16, 16, 0, ((0x15F8, None),)),
    Model('P100C',       'Pascal',  (6, 0), 12, 12, 0, ((0x15F7, None),)),
    Model('P100X',       'Pascal',  (6, 0), 16, 16, 0, ((0x15F9, None),)),
    Model('V100',        'Volta',   (7, 0), 16, 16, 0, ((0x1DB4, None),)),
    Model('V100D',       'Volta',   (7, 0), 32, 32, 0, ((0x1DB6, None),)),
    Model('V100DX',      'Volta',   (7, 0), 32, 32, 0, ((0x1DB5, None),)),
    Model('V100L',       'Volta',   (7, 0), 16, 16, 0, ((0x1DB3, None),)),
    Model('V100S',       'Volta',   (7, 0), 32, 32, 0, ((0x1DF6, None),)),
    Model('V100X',       'Volta',   (7, 0), 16, 16, 0, ((0x1DB1, None),)),
    Model('T4',          'Turing',  (7, 5), 16, 16, 0, ((0x1EB8, None),)),
    Model('RTX6000',     'Turing',  (7, 5), 24, 24, 0, ((0x1E30, 0x12BA),)),
    Model('RTX6000P',    'Turing',  (7, 5), 24, 24, 0, ((0x1E78, 0x13D9),)),
    Model('RTX8000',     'Turing',  (7, 5), 48, 32, 0, ((0x1E30, 0x129E),)),
    Model('RTX8000P',    'Turing',  (7, 5), 48, 32, 0, ((0x1E78, 0x13D8),)),
    Model('A2',          'Ampere',  (8, 6), 16, 16, 0, ((0x25B6, 0x157E),)),
    Model('A10',         'Ampere',  (8, 6), 24, 24, 0, ((0x2236, None),)),
    Model('A16',         'Ampere',  (8, 6), 16, 16, 0, ((0x25B6, 0x14A9),)),
    Model('A40',         'Ampere',  (8, 6), 48, 32, 0, ((0x2235, None),)),
    Model('RTXA5000',    'Ampere',  (8, 6), 24, 24, 0, ((0x2231, None),)),
    Model('RTXA5500',    'Ampere',  (8, 6), 24, 24, 0, ((0x2233, None),)),
    Model('RTXA6000',    'Ampere',  (8, 6), 48, 32, 0, ((0x2230, None),)),
    Model('A30',         'Ampere',  (8, 0), 24,  6, 4,
          ((0x20B7, None), (0x20B9, None))),
    Model('A100',        'Ampere',  (8, 0), 40, 10, 7, ((0x20F1, None),)),
    Model('A100D',       'Ampere',  (8, 0), 80, 20, 7,
          ((0x20B5, None), (0x20B8, None))),
    Model('A100DX',      'Ampere',  (8, 0), 80, 20, 7, ((0x20B2, None),)),
    Model('A100X',       'Ampere',  (8, 0), 40, 10, 7, ((0x20B0, None),)),
    Model('A800',        'Ampere',  (8, 0), 40, 10, 7, ((0x20F6, None),)),
    Model('A800D',       'Ampere',  (8, 0), 80, 20, 7,
          ((0x20F5, None), (0x20FD, None))),
    Model('A800DX',      'Ampere',  (8, 0), 80, 20, 7, ((0x20F3, None),)),
    Model('L2',          'Ada',     (8, 9), 24, 24, 0, ((0x27B6, None),)),
    Model('L4',          'Ada',     (8, 9), 24, 24, 0, ((0x27B8, None),)),
    Model('L20',         'Ada',     (8, 9), 48, 32, 0, ((0x26BA, None),)),
    Model('L40',         'Ada',     (8, 9), 48, 32, 0, ((0x26B5, None),)),
    Model('L40S',        'Ada',     (8, 9), 48, 32, 0, ((0x26B9, None),)),
    Model('RTX5000-Ada', 'Ada',     (8, 9), 32, 32, 0, ((0x26B2, None),)),
    Model('RTX5880-Ada', 'Ada',     (8, 9), 48, 32, 0, ((0x26B3, None),)),
    Model('RTX6000-Ada', 'Ada',     (8, 9), 48, 32, 0, ((0x26B1, None),)),
    Model('H20',    'Hopper',    (9, 0),   96, 24, 7, ((0x2329, None),)),
    Model('H20X',   'Hopper',    (9, 0),  141, 32, 7, ((0x232C, None),)),
    Model('H100',   'Hopper',    (9, 0),   80, 20, 7, ((0x2331, None),)),
    Model('H100L',  'Hopper',    (9, 0),   94, 23, 7, ((0x2321, None),)),
    Model('H100XL', 'Hopper',    (9, 0),   94, 23, 7, ((0x2339, None),)),
    Model('H100XM', 'Hopper',    (9, 0),   80, 20, 7,
          ((0x2330, None), (0x2336, None))),
    Model('H100XS', 'Hopper',    (9, 0),   64, 16, 7, ((0x2337, None),)),
    Model('H200',   'Hopper',    (9, 0),  141, 32, 7, ((0x233B, None),)),
    Model('H200X',  'Hopper',    (9, 0),  141, 32, 7, ((0x2335, None),)),
    Model('H800',   'Hopper',    (9, 0),   80, 20, 7, ((0x2322, None),)),
    Model('H800L',  'Hopper',    (9, 0),   94, 23, 7, ((0x233A, None),)),
    Model('H800XM', 'Hopper',    (9, 0),   80, 20, 7, ((0x2324, None),)),
    Model('GH200',  'Hopper',    (9, 0),   96,  1, 7, ((0x2342, None),)),
    Model('GH200L', 'Hopper',    (9, 0),  144,  1, 7, ((0x2348, None),)),
    Model('B200X',  'Blackwell', (10, 0), 180,  1, 7, ((0x2901, None),)),
    Model('B300X',  'Blackwell', (10, 3), 269,  1, 7, ((0x3182, None),)),
    Model('GB200',  'Blackwell', (10, 0), 189,  1, 7, ((0x2941, None),)),
    Model('DC',     'Blackwell', (12, 0),  96, 32, 4, ((0x2BB5, None),)),
    Model('6000D',  'Blackwell', (12, 0),  84,  1, 2, ((0x2BB9, None),)),
    Model('RTX Pro 4500 Blackwell DC',
                    'Blackwell', (12, 0),  32, 32, 2, ((0x2C3A, None),)),
)
# fmt: on

# What the driver calls them; NVIDIA's tables and tools keep the last word. The
# RTX Pro 4500's types end in "DC", too: where nothing tells of which GPU they
# are, "DC" is taken for the RTX Pro 6000. That its driver spells them in the
# same way is inferred, no source at hand shows it.
_DRIVER_NAMES: Mapping[str, str] = types.MappingProxyType(
    {'DC': 'RTX Pro 6000 Blackwell DC', '6000D': 'RTX 6000D'}
)

_BY_TOKEN = {
    called.casefold(): model
    for model in MODELS
    for called in (model.token, _DRIVER_NAMES.get(model.token, model.token))
}
_BY_PCI = {ids: model for model in MODELS for ids in model.pci_ids}

# NVIDIA vGPU user guide, "API Support on NVIDIA vGPU": OpenGL 4.6, Vulkan,
# DirectX 11 and 12, Direct2D, DXVA, and the versions before them, without a
# difference between vWS (Q), vPC (B) and vApps (A). DirectX is for Windows
# guests. C is left out: the guide does not mention graphics there.
_GRAPHICS = (
    'HW_GPU_API_DIRECT2D',
    'HW_GPU_API_DIRECTX_V10',
    'HW_GPU_API_DIRECTX_V11',
    'HW_GPU_API_DIRECTX_V12',
    'HW_GPU_API_DXVA',
    'HW_GPU_API_OPENGL_V1_1',
    'HW_GPU_API_OPENGL_V1_2',
    'HW_GPU_API_OPENGL_V1_3',
    'HW_GPU_API_OPENGL_V1_4',
    'HW_GPU_API_OPENGL_V1_5',
    'HW_GPU_API_OPENGL_V2_0',
    'HW_GPU_API_OPENGL_V2_1',
    'HW_GPU_API_OPENGL_V3_0',
    'HW_GPU_API_OPENGL_V3_1',
    'HW_GPU_API_OPENGL_V3_2',
    'HW_GPU_API_OPENGL_V3_3',
    'HW_GPU_API_OPENGL_V4_0',
    'HW_GPU_API_OPENGL_V4_1',
    'HW_GPU_API_OPENGL_V4_2',
    'HW_GPU_API_OPENGL_V4_3',
    'HW_GPU_API_OPENGL_V4_4',
    'HW_GPU_API_OPENGL_V4_5',
    'HW_GPU_API_VULKAN',
)
SERIES_APIS: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {'Q': _GRAPHICS, 'B': _GRAPHICS, 'A': _GRAPHICS, 'C': ()}
)

# NVIDIA vGPU user guide, "NVIDIA CUDA Toolkit and OpenCL Support", for Q; the
# C-series is NVIDIA AI Enterprise's vGPU for compute.
CUDA_SERIES: frozenset[str] = frozenset('QC')

# MIG user guide, "Supported MIG Profiles": how many memory slices a GPU of so
# many compute slices has, and with how many each size of instance comes.
MEMORY_SLICES: Mapping[int, int] = types.MappingProxyType({7: 8, 4: 4, 2: 2})
_INSTANCES: Mapping[int, Mapping[int, tuple[int, ...]]] = (
    types.MappingProxyType(
        {
            7: {1: (1, 2), 2: (2,), 3: (4,), 4: (4,), 7: (8,)},
            4: {1: (1,), 2: (2,), 4: (4,)},
            2: {1: (1,), 2: (2,)},
        }
    )
)
# The same page: one instance only may have the media extensions, or all media
# engines; doing without (NOME) or adding graphics (GFX) changes no number.
_ONE_INSTANCE_SUFFIXES = frozenset({'ME', 'MEALL'})
_PLAIN_SUFFIXES = frozenset({'', 'NOME', 'GFX'})
# GPUs whose MIG instances are time-sliced in turn (NVIDIA AI Enterprise,
# "Blackwell Architecture vGPU Types").
_TIME_SLICED_INSTANCES = frozenset({'DC', 'RTX Pro 4500 Blackwell DC'})

# (token, MIG slices, frame buffer, series): what no rule gives. None is for
# types whose number is not known for sure.
_IRREGULAR: Mapping[tuple[str, int | None, int, str], int | None] = (
    types.MappingProxyType(
        {
            # 17 would fit (AI Enterprise, "Hopper Architecture vGPU Types").
            ('H20X', None, 8192, 'C'): 16,
            ('H200', None, 8192, 'C'): 16,
            ('H200X', None, 8192, 'C'): 16,
            # 12 would fit, and 12 it is for 4Q (NVIDIA/vgpu-device-manager,
            # example configuration). No source for the active board.
            ('RTX8000P', None, 4096, 'C'): 8,
            ('RTX8000', None, 4096, 'C'): None,
            # Only the RTX Pro 4500 has this size (see _DRIVER_NAMES).
            ('DC', 2, 8192, 'Q'): None,
            ('DC', 2, 8192, 'C'): None,
            ('DC', 2, 8192, 'A'): None,
        }
    )
)


def model_by_token(token: str) -> Model | None:
    """The model of a type's name, case-insensitively."""
    return _BY_TOKEN.get(token.casefold())


def name_of(model: Model) -> str:
    """The name of a model, as in the driver's names of its types."""
    return _DRIVER_NAMES.get(model.token, model.token)


def model_by_pci(device_id: int, subsystem_id: int | None) -> Model | None:
    """The model of a GPU, or None if the ids are ambiguous or unknown."""
    model = _BY_PCI.get((device_id, subsystem_id))
    return model or _BY_PCI.get((device_id, None))


def offers_cuda(model: Model, series: str, framebuffer_mib: int) -> bool:
    """Whether CUDA works on a type."""
    if model.architecture == 'Maxwell':
        # The same section: on M6, M10 and M60 with the whole GPU (8Q) only.
        return series == 'Q' and framebuffer_mib == model.memory_gib * 1024
    return series in CUDA_SERIES


def max_per_gpu(
    model: Model,
    *,
    framebuffer_mib: int,
    slices: int | None,
    series: str,
    suffix: str,
) -> int | None:
    """How many vGPUs of a type one GPU serves; None if unknown.

    ``slices`` is None for time-sliced types. The size is the one in the name:
    a guest sees a little less.
    """
    if series not in SERIES_APIS or framebuffer_mib <= 0:
        return None  # types for gaming are in none of the tables
    irregular = (model.token, slices, framebuffer_mib, series)
    if irregular in _IRREGULAR:
        return _IRREGULAR[irregular]
    if slices is not None:
        return _mig_backed(model, framebuffer_mib, slices, suffix)
    if suffix:
        return None
    fitting = model.memory_gib * 1024 // framebuffer_mib
    return min(fitting, model.max_vgpus) or None


def fits(model: Model, framebuffer_mib: int, slices: int | None) -> bool:
    """Whether a GPU is large enough for a type, and has such instances."""
    if framebuffer_mib > model.memory_gib * 1024:
        return False
    return slices is None or slices in _INSTANCES.get(model.mig_slices, {})


def find_instance(
    model: Model, framebuffer_mib: int, slices: int
) -> tuple[int, int] | None:
    """The memory slices of a type's GPU instance, and how many share it."""
    shapes = _INSTANCES.get(model.mig_slices, {}).get(slices)
    if shapes is None or framebuffer_mib <= 0:
        return None
    memory_slice_mib = (
        model.memory_gib * 1024 / MEMORY_SLICES[model.mig_slices]
    )
    for shape in shapes:
        # Names round to whole gigabytes: an eighth of 141 is called 18.
        if abs(framebuffer_mib - shape * memory_slice_mib) < 1024:
            return shape, 1
    if model.token not in _TIME_SLICED_INSTANCES:
        return None
    each, rest = divmod(shapes[0] * memory_slice_mib, framebuffer_mib)
    return None if rest or not each else (shapes[0], int(each))


def _mig_backed(
    model: Model, framebuffer_mib: int, slices: int, suffix: str
) -> int | None:
    found = find_instance(model, framebuffer_mib, slices)
    if found is None:
        return None
    shape, each = found
    if each == 1 and suffix in _ONE_INSTANCE_SUFFIXES:
        return 1
    if suffix not in (_PLAIN_SUFFIXES if each == 1 else {'', 'GFX'}):
        return None
    memory_slices = MEMORY_SLICES[model.mig_slices]
    return each * min(model.mig_slices // slices, memory_slices // shape)
