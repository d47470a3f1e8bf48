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

"""The program as autoprogram-cliff is to describe it: by its options alone.

The description is laid out for a terminal; the page has a text of its own.
"""

import argparse
import typing

from nova_vgpu.cmd import main


class Program(main.NovaVGPU):
    """The program, with a parser whose texts are reStructuredText."""

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, typing.Any] | None = None,
    ) -> argparse.ArgumentParser:
        parser = super().build_option_parser(
            description, version, argparse_kwargs
        )
        parser.description = None
        for action in parser._actions:
            action.help = (action.help or '').replace('*', r'\*')
        return parser
