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

"""Directives that draw tables of traits from nova_vgpu.knowledge.

``trait-prefixes`` has one field for each of the project's prefixes, which says
what such a trait means and where it comes from. A prefix without a field, or a
field without a prefix, is a warning. ``trait-models`` and ``trait-series`` ask
the code for everything.
"""

from collections.abc import Iterable
from collections.abc import Sequence

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import logging
from sphinx.util import typing as sphinx_typing

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge.vendors import _nvidia_catalogue as catalogue
from nova_vgpu.knowledge.vendors import nvidia

LOG = logging.getLogger(__name__)

_ARCHITECTURE = ('CUSTOM_GPU_ARCH_',)
_MODEL = ('CUSTOM_GPU_MODEL_',)
_COMPUTE_CAPABILITY = (
    'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_',
    'HW_GPU_CUDA_COMPUTE_CAPABILITY_',
)
# What the driver calls a model, where that is not the catalogue's word.
_DRIVER_NAMES = {
    token: called for called, token in catalogue._DRIVER_NAMES.items()
}
_API = ('HW_GPU_API_', 'CUSTOM_GPU_API_')


class _Table(docutils.SphinxDirective):
    """A table made of text in reStructuredText."""

    def table(
        self, head: Sequence[str], rows: Iterable[Sequence[str]]
    ) -> list[nodes.Node]:
        # The code may change without the page doing so.
        self.env.note_reread()
        lines = ['.. list-table::', '   :header-rows: 1', '']
        for row in (head, *rows):
            for index, cell in enumerate(row):
                lines.append(f'   {" " if index else "*"} - {cell}')
        return self.parse_text_to_nodes('\n'.join(lines))


class TraitPrefixes(_Table):
    """What each of the project's prefixes is for."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        meanings: dict[str, str] = {}
        for line in self.content:
            if line.startswith(':'):
                prefix, _, meaning = line[1:].partition(':')
                meanings[prefix] = meaning.strip()
            elif line.strip():
                last = list(meanings)[-1]
                meanings[last] += f' {line.strip()}'
        if set(meanings) != set(traits.OWN_PREFIXES):
            LOG.warning(
                'the prefixes of the page and of the code differ: %s',
                sorted(set(meanings) ^ set(traits.OWN_PREFIXES)),
                location=self.get_location(),
            )
        return self.table(
            ('Trait', 'Meaning'),
            (
                (_codes([_shown(prefix)]), meanings.get(prefix, ''))
                for prefix in traits.OWN_PREFIXES
            ),
        )


class TraitModels(_Table):
    """Every model of the catalogue with the traits that follow from it."""

    def run(self) -> list[nodes.Node]:
        return self.table(
            ('Model', 'Memory', 'Architecture', 'CUDA compute capability'),
            (
                (
                    _codes(_starting(_MODEL, of_model)),
                    f'{model.memory_gib} GiB',
                    _codes(_starting(_ARCHITECTURE, of_model)),
                    _codes(_starting(_COMPUTE_CAPABILITY, of_model)),
                )
                for model, of_model in (
                    (model, _traits_of(model, 'Q'))
                    for model in catalogue.MODELS
                )
            ),
        )


class TraitSeries(_Table):
    """Every series of types, with what it offers to a guest."""

    def run(self) -> list[nodes.Node]:
        newest = catalogue.MODELS[-1]
        by_apis: dict[tuple[str, ...], list[str]] = {}
        with_cuda = []
        for series in catalogue.SERIES_APIS:
            found = _traits_of(newest, series)
            by_apis.setdefault(_starting(_API, found), []).append(series)
            if _starting(_COMPUTE_CAPABILITY, found):
                with_cuda.append(series)
        return self.table(
            ('Series', 'APIs', 'CUDA'),
            (
                (
                    _codes(traits.custom('VGPU_SERIES', s) for s in of_apis),
                    _codes(apis) or 'none',
                    ', '.join(s for s in of_apis if s in with_cuda) or 'none',
                )
                for apis, of_apis in by_apis.items()
            ),
        )


def _traits_of(model: catalogue.Model, series: str) -> tuple[str, ...]:
    """The traits of the type that takes the whole GPU."""
    device, subsystem = model.pci_ids[0]
    gpu = values.PhysicalGPU(
        'pci_0000_01_00_0',
        ids=values.PciIds(nvidia.VENDOR.pci_id, device, None, subsystem),
    )
    called = _DRIVER_NAMES.get(model.token.casefold(), model.token)
    name = f'NVIDIA {called}-{model.memory_gib}{series}'
    return capabilities.traits_of(gpu, values.VGPUType('nvidia-1', name))


def _starting(
    prefixes: tuple[str, ...], found: Iterable[str]
) -> tuple[str, ...]:
    return tuple(trait for trait in found if trait.startswith(prefixes))


def _shown(prefix: str) -> str:
    return f'{prefix}*' if prefix.endswith('_') else prefix


def _codes(of_traits: Iterable[str]) -> str:
    return ', '.join(f'``{trait}``' for trait in of_traits)


def setup(app: Sphinx) -> sphinx_typing.ExtensionMetadata:
    app.add_directive('trait-prefixes', TraitPrefixes)
    app.add_directive('trait-models', TraitModels)
    app.add_directive('trait-series', TraitSeries)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
