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


"""A directive that runs commands on a host that changes by them.

::

    .. live-session::
       :config: ../examples/several-types.conf
       :exit-codes: 0 1

       apply
       # The server "web" gets a vGPU
       !server web 0000:84:00.0 GRID T4-2Q
       apply

Every line is a command of nova-vgpu on one simulated machine, or something
that befalls the machine: ``!server NAME DEVICE TYPE``, ``!reboot``. A line
that starts with ``#`` is shown as it is, and a command after ``~`` is run but
not shown. Commands that end with another exit
code than the page says are a warning.
"""

import io
import os
import shlex
import typing
from unittest import mock

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import logging
from sphinx.util import typing as sphinx_typing

from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live

LOG = logging.getLogger(__name__)
COLUMNS = '80'


class LiveSession(docutils.SphinxDirective):
    """Commands and what they print, one after the other."""

    has_content = True
    option_spec: typing.ClassVar[sphinx_typing.OptionSpec] = {
        'config': directives.path,
        'exit-codes': directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        relative, config = self.env.relfn2path(self.options['config'])
        self.env.note_dependency(relative)
        self.env.note_reread()
        codes = iter(map(int, self.options.get('exit-codes', '').split()))
        host = live.LiveHost(
            hosts.gpu('0000:41:00.0', boards.A40),
            hosts.gpu('0000:84:00.0', boards.T4),
            hosts.gpu('0000:c1:00.0', boards.A40, vfs=32),
            hosts.gpu('0001:c8:00.0', boards.L40S, vendor_vfio=True),
        )
        with host, mock.patch.dict(os.environ, COLUMNS=COLUMNS):
            text = ''.join(
                self.take(host, line, config, codes) for line in self.content
            )
        text = text.rstrip().replace(str(host.path), '/var/lib/nova-vgpu')
        block = nodes.literal_block(text, text, language='console')
        self.set_source_info(block)
        return [block]

    def take(
        self,
        host: live.LiveHost,
        line: str,
        config: str,
        codes: typing.Iterator[int],
    ) -> str:
        match line.split():
            case ['!reboot']:
                host.machine.kernel.reboot()
                return ''
            case ['!server', name, device, *words]:
                host.boot(name, device, ' '.join(words))
                return ''
            case ['#', *_] | []:
                return f'{line}\n'
        is_hidden, line = line.startswith('~'), line.removeprefix('~')
        terminal = io.StringIO()
        program = live.Program(host, stdout=terminal, stderr=terminal)
        options = ['--config-file', config, '--config-dir', str(host.path)]
        code = program.run([*options, *shlex.split(line)])
        expected = next(codes, 0)
        if code != expected:
            LOG.warning(
                'nova-vgpu %s: exit code %s, not %s:\n%s',
                line,
                code,
                expected,
                terminal.getvalue(),
                location=self.get_location(),
            )
        if is_hidden:
            return ''
        return f'$ nova-vgpu {line}\n{terminal.getvalue()}'


def setup(app: Sphinx) -> sphinx_typing.ExtensionMetadata:
    app.add_directive('live-session', LiveSession)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
