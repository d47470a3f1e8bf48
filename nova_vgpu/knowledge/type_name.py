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

"""The parts of a vGPU type's name."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class TypeName:
    """The parts of a name such as ``NVIDIA A100-2-10C``.

    ``brand`` is the driver's prefix (GRID, NVIDIA), which is not part of the
    type. ``slices`` is None unless the type is backed
    by a MIG instance. ``series`` is empty for types without a letter.
    """

    model: str
    framebuffer_mib: int
    series: str = ''
    slices: int | None = None
    variant: str = ''
    suffix: str = ''
    brand: str = ''

    @property
    def short(self) -> str:
        """The name without its brand: ``A100-2-10C``."""
        mib = self.framebuffer_mib
        parts = [self.model]
        if self.slices is not None:
            parts.append(str(self.slices))
        size = str(mib // 1024)
        parts.append(f'{size}{self.series}{self.variant}{self.suffix}')
        return '-'.join(parts)
