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

"""The types that an operator requests, before there is a configuration."""

import dataclasses
import enum

from nova_vgpu.values import declaration as declarations
from nova_vgpu.values import gpu as gpus
from nova_vgpu.values import problem
from nova_vgpu.values import vgpu


class Reader(enum.Enum):
    """The driver that is to read a generated configuration."""

    NOVA_VGPU = 'nova-vgpu'
    NOVA = 'nova'
    PCI = 'pci'


@dataclasses.dataclass(frozen=True, slots=True)
class TypeRequest:
    """A type for one GPU, or without one for all GPUs that offer it.

    ``type`` is what the operator wrote: an id or a name.
    """

    type: str
    gpu: gpus.PhysicalGPU | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class MatchedRequest:
    """A GPU and the type that it is to serve.

    ``type`` is None while the GPU shows no types; its model is then known to
    offer one of this name.
    """

    gpu: gpus.PhysicalGPU
    name: str
    type: vgpu.VGPUType | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fragment:
    """A part of nova.conf, line by line.

    ``declaration`` is the meaning of the lines for this project; None if they
    are only for Nova. ``problems`` are those of its plan, ``warnings`` further
    ones.
    """

    lines: tuple[str, ...]
    declaration: declarations.Declaration | None = None
    problems: tuple[problem.Problem, ...] = ()
    warnings: tuple[str, ...] = ()
