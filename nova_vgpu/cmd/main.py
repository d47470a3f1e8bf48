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

"""``nova-vgpu``: the program."""

import argparse
import functools
from importlib import metadata
import logging
import sys
import typing

from cliff import app
from cliff import command
from cliff import commandmanager

from nova_vgpu.host import files
from nova_vgpu.host import state
from nova_vgpu.host import sysfs

if typing.TYPE_CHECKING:
    from nova_vgpu import values
    from nova_vgpu.host import source as host_source
    from nova_vgpu.lifecycle import host_access

_DESCRIPTION = """\
Declare which vGPU type each physical GPU serves, and see the effect.

  nova-vgpu gpu list            list the GPUs, and whether they are ready
  nova-vgpu type list           list the vGPU types that they offer
  nova-vgpu topology            show how GPUs and network cards connect
  nova-vgpu config generate     print the lines of nova.conf for types
  nova-vgpu check               check nova.conf against this host
  nova-vgpu plan                show which GPU serves what, and its providers
  nova-vgpu doctor              show why a GPU or a type does not work
  nova-vgpu apply               bring the host to what nova.conf declares
  nova-vgpu restore             revert the last apply
  nova-vgpu sriov, device       manual changes of VFs and vGPUs
  nova-vgpu agent               watch the host, repair it, serve metrics
  nova-vgpu provider diff       compare Placement with the plan
  nova-vgpu provider sync       bring Placement to the plan
  nova-vgpu provider hand-back  return to the layout of Nova's own driver
  nova-vgpu guest facts         show the GPUs, driver and licence of a guest
  nova-vgpu guest cloud-init    print user data that sets up a guest's GPU
  nova-vgpu demo                try the commands, without a GPU

Only apply, restore, sriov, device and agent --enforce change the host, and
never a vGPU in use.
"""

_EXIT_NO_COMMAND = 2
_LIBVIRT = 'qemu:///system'


class NovaVGPU(app.App):
    """The program with its global options."""

    NAME = 'nova-vgpu'
    LOG = logging.getLogger('nova_vgpu.cmd')

    def __init__(
        self,
        stdout: typing.TextIO | None = None,
        stderr: typing.TextIO | None = None,
    ) -> None:
        super().__init__(
            description=_DESCRIPTION,
            version=metadata.version('nova-vgpu'),
            command_manager=commandmanager.CommandManager('nova_vgpu.cli'),
            deferred_help=True,
            stdout=stdout,
            stderr=stderr,
        )

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, typing.Any] | None = None,
    ) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=self.NAME,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
        )
        parser.add_argument(
            '-h',
            '--help',
            dest='deferred_help',
            action='store_true',
            help='Show this help, or that of the command, and exit.',
        )
        parser.add_argument(
            '--version', action='version', version=f'{self.NAME} {version}'
        )
        parser.add_argument(
            '--config-file',
            metavar='PATH',
            action='append',
            default=[],
            help='Configuration file to read; may be repeated. Default: the '
            'files that nova-compute reads. Its directories, such as '
            '/etc/nova/nova.conf.d, are read as well, unless --config-dir is '
            'given.',
        )
        parser.add_argument(
            '--config-dir',
            metavar='DIR',
            action='append',
            default=[],
            help='Directory whose *.conf files are read too; may be repeated. '
            'Default: the directories that nova-compute reads.',
        )
        parser.add_argument(
            '--libvirt',
            metavar='URI',
            help='Read the host from libvirt (qemu:///system) instead of '
            'sysfs alone.',
        )
        parser.add_argument(
            '--sysfs-root',
            metavar='DIR',
            help='Mount point of sysfs. Default: /sys.',
        )
        parser.add_argument(
            '--state-dir',
            metavar='DIR',
            default=state.DEFAULT_PATH,
            help='Directory for persistent state. '
            'Default: /var/lib/nova-vgpu.',
        )
        parser.add_argument(
            '--os-cloud',
            metavar='NAME',
            help='Cloud in clouds.yaml to log in to. Default: the section '
            '[placement] of the configuration, else the environment '
            '(OS_AUTH_URL and so on).',
        )
        parser.add_argument(
            '--debug',
            action='store_true',
            help='Log to standard error, and show tracebacks.',
        )
        return parser

    def configure_logging(self) -> None:
        """Errors to standard error; the log only with ``--debug``."""
        self.LOG.handlers.clear()
        self.LOG.propagate = False
        # Its own level, independent of the process around it.
        self.LOG.setLevel(
            logging.DEBUG if self.options.debug else logging.INFO
        )
        handler = logging.StreamHandler(self.stderr)
        handler.setFormatter(logging.Formatter(f'{self.NAME}: %(message)s'))
        self.LOG.addHandler(handler)
        root = logging.getLogger()
        if self.options.debug:
            _set_up_log()
        elif not root.handlers:
            # Warnings of libraries are for services with a log.
            root.addHandler(logging.NullHandler())

    def read_host(self, source: 'host_source.HostSource') -> 'values.Host':
        """The host that the options name."""
        return source.read_host()

    def make_host_access(
        self, timeout: float, sriov_manage: str, may_change: bool = True
    ) -> 'host_access.HostAccess':
        """The machine that the options name."""
        from nova_vgpu import configuration
        from nova_vgpu.host import source as host_source
        from nova_vgpu.lifecycle import host_access

        options = self.options
        source = host_source.HostSource(options.libvirt, options.sysfs_root)
        locks = configuration.find_lock_directory(
            options.config_file, options.config_dir, options.state_dir
        )
        return host_access.HostAccess(
            tree=files.Files(options.sysfs_root or sysfs.DEFAULT_ROOT),
            connect=functools.partial(
                host_access.open_libvirt,
                options.libvirt or _LIBVIRT,
                may_change,
            ),
            state=state.StateDirectory(options.state_dir),
            locks=locks,
            list_unshared=functools.partial(
                configuration.list_unshared,
                options.config_file,
                options.config_dir,
                locks,
            ),
            timeout=timeout,
            sriov_manage=sriov_manage,
            complete=source.complete,
            read_modes=source.read_modes,
            read_guest_drivers=source.read_guest_drivers,
            read_software=source.read_software,
            read_migration=source.read_migration,
        )

    def initialize_app(self, argv: list[str]) -> None:
        if not argv:  # no command: help, instead of cliff's interactive mode
            self.options.deferred_help = True

    def run_subcommand(self, argv: list[str]) -> int:
        if argv[0].startswith('-'):
            self._refuse_option(argv[0].partition('=')[0])
            return _EXIT_NO_COMMAND
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            # cliff would print it to standard output, which is for data.
            self.LOG.error(
                "%r is not a command. Did you mean: %s? See '%s --help'.",
                ' '.join(argv),
                ', '.join(self.get_fuzzy_matches(argv[0])),
                self.NAME,
            )
            return _EXIT_NO_COMMAND
        return super().run_subcommand(argv)

    def _refuse_option(self, name: str) -> None:
        """Report an unknown option before the command."""
        # Not at the top: most commands start without it.
        from nova_vgpu.plan import typos

        near = typos.find_nearest(name, self.parser._option_string_actions)
        self.LOG.error(
            "%s is not an option of the program. %s See '%s --help'.",
            name,
            f'Did you mean {near}?'
            if near
            else 'Options of a command go after the command.',
            self.NAME,
        )

    def prepare_to_run_command(self, cmd: command.Command) -> None:
        self.LOG.debug('running %s', cmd.cmd_name)


def _set_up_log() -> None:
    from oslo_config import cfg
    from oslo_log import log

    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([], project='nova-vgpu', default_config_files=[])
    conf.set_override('debug', True)
    conf.set_override('use_stderr', True)  # standard output is for data
    log.setup(conf, 'nova-vgpu')


def main(argv: list[str] | None = None) -> int:
    return NovaVGPU().run(sys.argv[1:] if argv is None else argv)
