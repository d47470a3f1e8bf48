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

"""The directive of cliff, with the examples of commands as they are written.

The descriptions are laid out for a terminal. As reStructuredText, the lines of
an indented block are one paragraph, and a backslash at their end is lost.
"""

import argparse
import re

from cliff import command
from cliff import commandmanager
from cliff import sphinxext
from sphinx import application
from sphinx.util import typing as sphinx_typing

# An indented block behind a paragraph.
_BLOCK = re.compile(r'^(\S.*\n)\n(?= +\S)', re.MULTILINE)


def mark_blocks(description: str) -> str:
    """The description with its indented blocks as literal ones."""
    return _BLOCK.sub(r'\1\n::\n\n', description)


class Commands(sphinxext.AutoprogramCliffDirective):
    """Describes all commands of a namespace, or the program itself."""

    def _load_command(
        self, manager: commandmanager.CommandManager, command_name: str
    ) -> type[command.Command]:
        found = super()._load_command(manager, command_name)

        class Described(found):
            def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
                parser = super().get_parser(prog_name)
                parser.description = mark_blocks(parser.description or '')
                return parser

        return Described


def setup(app: application.Sphinx) -> sphinx_typing.ExtensionMetadata:
    app.setup_extension('cliff.sphinxext')
    app.add_directive('autoprogram-cliff', Commands, override=True)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
