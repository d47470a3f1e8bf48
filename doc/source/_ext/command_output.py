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

"""A directive that runs nova-vgpu on a simulated host while Sphinx reads.

::

    .. command-output:: plan --node compute1
       :config: ../examples/several-types.conf
       :exit-code: 0
       :language: console
       :host: ../examples/gpudirect-host.txt

inserts the command and what it prints. The host is that of the demonstration
(:mod:`nova_vgpu.sandbox`), or one that a file describes
(:mod:`nova_vgpu.sandbox.pcie_layout`): a directory tree in a temporary
directory. The options that lead there are not shown. A command that ends with
another exit code than the page says is a warning.

::

    .. command-output:: guest facts
       :guest: t4-vgpu

runs it in one of the machines of :mod:`nova_vgpu.sandbox.guests`.

With ``:until: TEXT`` the output ends before the line that has this text.

::

    .. topology-picture:: ../examples/gpudirect-host.txt

inserts the picture of ``nova-vgpu topology --svg`` into pages in HTML.
"""

from collections.abc import Iterator
import contextlib
import io
import os
import pathlib
import runpy
import shlex
import shutil
import tempfile
import typing
from unittest import mock

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import logging
from sphinx.util import typing as sphinx_typing

from nova_vgpu.cmd import main
from nova_vgpu.sandbox import guests
from nova_vgpu.sandbox import pcie_layout
from nova_vgpu.sandbox import tree

LOG = logging.getLogger(__name__)
COLUMNS = '80'
# Operators are told to use it, too.
SIMULATED_HOST = pathlib.Path('examples', 'simulated_host.py')


class SimulatedSysfs:
    """The demonstration's host as a directory tree, for one build.

    It is there before the first page is read: the processes of a parallel
    build share it, and the one that made it takes it away.
    """

    def __init__(self) -> None:
        self.root = ''

    def write(self, app: Sphinx) -> None:
        self.root = tempfile.mkdtemp()
        program = str(app.srcdir / SIMULATED_HOST)
        with mock.patch('sys.argv', [program, self.root]):
            runpy.run_path(program)

    def remove(self, _app: Sphinx, _error: Exception | None) -> None:
        if self.root:
            shutil.rmtree(self.root)


SYSFS = SimulatedSysfs()


@contextlib.contextmanager
def write_host(description: str) -> Iterator[str]:
    """The host that a file describes, for as long as the context lasts."""
    simulated = pcie_layout.parse(pathlib.Path(description).read_text())
    with tempfile.TemporaryDirectory() as root:
        tree.write_tree(simulated, pathlib.Path(root))
        yield root


@contextlib.contextmanager
def write_guest(name: str) -> Iterator[str]:
    """A guest or host by its name, for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as root:
        guests.write_machine(guests.MACHINES[name], pathlib.Path(root))
        yield root


class CommandOutput(docutils.SphinxDirective):
    """A command and what it prints, on both streams, as a terminal has it."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: typing.ClassVar[sphinx_typing.OptionSpec] = {
        'config': directives.path,
        'exit-code': directives.nonnegative_int,
        # A # at the start of a line is root's prompt on a console.
        'language': directives.unchanged_required,
        'host': directives.path,
        'guest': directives.unchanged_required,
        'until': directives.unchanged_required,
    }

    def find_file(self, option: str) -> str | None:
        """The file of an option, which the page then depends on."""
        if option not in self.options:
            return None
        relative, absolute = self.env.relfn2path(self.options[option])
        self.env.note_dependency(relative)
        return absolute

    def block(self, text: str) -> list[nodes.Node]:
        # The code may change without the page doing so.
        self.env.note_reread()
        block = nodes.literal_block(
            text, text, language=self.options.get('language', 'console')
        )
        self.set_source_info(block)
        return [block]

    def warn(self, message: str) -> None:
        LOG.warning('%s', message, location=self.get_location())

    def run(self) -> list[nodes.Node]:
        if 'guest' in self.options:
            with write_guest(self.options['guest']) as root:
                where = ['--root', root]
                smi = pathlib.Path(root, 'usr/bin/nvidia-smi')
                if smi.exists():
                    where += ['--nvidia-smi', str(smi)]
                return self.run_command(root, [], where)
        host = self.find_file('host')
        if host is None:
            return self.run_on(SYSFS.root)
        with write_host(host) as root:
            return self.run_on(root)

    def run_on(self, root: str) -> list[nodes.Node]:
        options = ['--sysfs-root', root]
        config = self.find_file('config')
        if config is not None:
            # A directory without *.conf, in place of /etc/nova/nova.conf.d.
            options += ['--config-file', config, '--config-dir', root]
        return self.run_command(root, options, [])

    def run_command(
        self, root: str, before: list[str], after: list[str]
    ) -> list[nodes.Node]:
        """Run it with options that the page does not show."""
        command = self.arguments[0]
        terminal = io.StringIO()
        with mock.patch.dict(os.environ, COLUMNS=COLUMNS):
            code = main.NovaVGPU(stdout=terminal, stderr=terminal).run(
                [*before, *shlex.split(command), *after]
            )
        output = terminal.getvalue().rstrip()
        expected = self.options.get('exit-code', 0)
        if code != expected:
            self.warn(
                f'nova-vgpu {command}: exit code {code}, not {expected}:\n'
                f'{output}'
            )
        if root in output:
            self.warn(f'nova-vgpu {command} shows where the host is')
        if 'until' in self.options:
            output = self.cut(output, self.options['until'])
        return self.block(f'$ nova-vgpu {command}\n{output}')

    def cut(self, output: str, until: str) -> str:
        lines = output.splitlines()
        found = [at for at, line in enumerate(lines) if until in line]
        if not found:
            self.warn(f'nova-vgpu {self.arguments[0]} prints no {until}')
            return output
        return '\n'.join([*lines[: found[0]], '...'])


class TopologyPicture(docutils.SphinxDirective):
    """The PCIe tree of a host, drawn."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        relative, absolute = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(relative)
        self.env.note_reread()
        if self.env.app.builder.format != 'html':
            return []  # the matrix says the same
        terminal = io.StringIO()
        with write_host(absolute) as root:
            picture = pathlib.Path(root, 'topology.svg')
            code = main.NovaVGPU(stdout=terminal, stderr=terminal).run(
                ['--sysfs-root', root, 'topology', '--svg', str(picture)]
            )
            if code:
                raise self.error(terminal.getvalue())
            return [nodes.raw('', picture.read_text(), format='html')]


def setup(app: Sphinx) -> sphinx_typing.ExtensionMetadata:
    app.add_directive('command-output', CommandOutput)
    app.add_directive('topology-picture', TopologyPicture)
    app.connect('builder-inited', SYSFS.write)
    app.connect('build-finished', SYSFS.remove)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
