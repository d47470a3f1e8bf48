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

"""A directive for the flavors of ``examples/flavors.ini``.

::

    .. flavor:: by-type

inserts the commands that set the properties of the flavor, and the providers
that can serve it. Both are in the file; a functional test builds a server with
each of its flavors and compares.
"""

import configparser

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import typing as sphinx_typing

FILE = '/examples/flavors.ini'
_IMAGE = 'image '


class Flavor(docutils.SphinxDirective):
    """One section of the file."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        relative, absolute = self.env.relfn2path(FILE)
        self.env.note_dependency(relative)
        parser = configparser.RawConfigParser(delimiters=('=',))
        # As configparser's documentation does it; mypy objects to that.
        parser.optionxform = str  # type: ignore[method-assign,assignment]
        parser.read(absolute)
        name = self.arguments[0]
        if name not in parser:
            raise self.error(f'{FILE} has no section {name}')
        properties = dict(parser[name])
        providers = properties.pop('providers').split()
        flavor = _command(
            'flavor',
            {
                key: value
                for key, value in properties.items()
                if not key.startswith(_IMAGE)
            },
        )
        image = _command(
            'image',
            {
                key.removeprefix(_IMAGE): value
                for key, value in properties.items()
                if key.startswith(_IMAGE)
            },
        )
        if not providers:
            return [self.block(flavor + image), _paragraph('No provider.')]
        return [
            self.block(flavor + image),
            _paragraph('Providers that can serve it:'),
            self.block(providers),
        ]

    def block(self, lines: list[str]) -> nodes.Node:
        text = '\n'.join(lines)
        block = nodes.literal_block(text, text, language='console')
        self.set_source_info(block)
        return block


def _command(what: str, properties: dict[str, str]) -> list[str]:
    if not properties:
        return []
    *others, last = [
        f'--property {key}={value}' for key, value in properties.items()
    ]
    words = [*others, f'{last} {what.upper()}']
    if len(words) == 1:
        return [f'$ openstack {what} set {words[0]}']
    lines = ' \\\n    '.join([f'$ openstack {what} set', *words])
    return lines.splitlines()


def _paragraph(text: str) -> nodes.Node:
    return nodes.paragraph(text, text)


def setup(app: Sphinx) -> sphinx_typing.ExtensionMetadata:
    app.add_directive('flavor', Flavor)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
