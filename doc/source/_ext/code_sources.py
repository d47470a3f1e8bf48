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

"""A directive that says which function writes the text of a problem.

::

    .. code-sources:: ../admin/problems.rst

has a row for every code that the page explains below a title of its own, and
the function in which it is passed on to something, which has the text beside
it. A code without such a function is a warning.
"""

import ast
from collections.abc import Iterator
import pathlib
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import logging
from sphinx.util import typing as sphinx_typing

import nova_vgpu

LOG = logging.getLogger(__name__)
_PACKAGE = pathlib.Path(nova_vgpu.__file__).parent
_TITLE = re.compile(r'^([a-z][a-z-]+)\n~{3,}$', re.MULTILINE)


class CodeSources(docutils.SphinxDirective):
    """A table of the codes of a page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        relative, absolute = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(relative)
        # The code may change without the page doing so.
        self.env.note_reread()
        codes = _TITLE.findall(pathlib.Path(absolute).read_text())
        sources = find_sources(frozenset(codes))
        lines = ['.. list-table::', '   :header-rows: 1', '']
        lines += ['   * - Code', '     - Function']
        for code in sorted(codes):
            found = sources.get(code)
            if not found:
                LOG.warning(
                    'nothing says %s', code, location=self.get_location()
                )
                continue
            lines += [f'   * - {code}', f'     - ``{"``, ``".join(found)}``']
        return self.parse_text_to_nodes('\n'.join(lines))


def find_sources(codes: frozenset[str]) -> dict[str, list[str]]:
    """The functions in which codes are arguments, by the code."""
    found: dict[str, list[str]] = {}
    for path in sorted(_PACKAGE.rglob('*.py')):
        parts = path.relative_to(_PACKAGE).with_suffix('').parts
        if parts[0] in ('sandbox', 'tests'):
            continue
        module = '.'.join(('nova_vgpu', *parts))
        for code, function in _list_codes(ast.parse(path.read_text()), module):
            if code in codes and function not in found.setdefault(code, []):
                found[code].append(function)
    return found


def _list_codes(node: ast.AST, where: str) -> Iterator[tuple[str, str]]:
    """Every text that is an argument, and what it is in."""
    for child in ast.iter_child_nodes(node):
        inside = where
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inside = f'{where}.{child.name}'
        elif isinstance(child, ast.Call):
            for argument in child.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value), where
        yield from _list_codes(child, inside)


def setup(app: Sphinx) -> sphinx_typing.ExtensionMetadata:
    app.add_directive('code-sources', CodeSources)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
