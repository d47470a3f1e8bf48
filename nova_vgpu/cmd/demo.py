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

"""``nova-vgpu demo``: all commands, on a simulated host."""

import argparse
from collections.abc import Iterator
import contextlib
from importlib import util
import os
import pathlib
import shlex
import signal
import sys
import tempfile
import textwrap
import types
import typing

from nova_vgpu import configuration
from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.host import source as host_source
from nova_vgpu.placement import synchronisation
from nova_vgpu.plan import mapper
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import placement as placement_server
from nova_vgpu.sandbox import tree

if typing.TYPE_CHECKING:
    from nova_vgpu.placement import client

NODE = 'compute1'

CONFIGURATION = """\
[devices]
enabled_vgpu_types = T4-2Q, A40-8Q, L40S-24Q

[vgpu_A40-8Q]
device_addresses = 0000:41:00.0, 0000:C1:00.0

[vgpu_L40S-24Q]
device_addresses = 00000001:C8:00.0
traits = CUSTOM_RACK_7
"""

CONFLICTING = """\
[devices]
enabled_vgpu_types = T4-2Q, T4-8Q
unlisted_gpus = ignore

[vgpu_T4-2Q]
device_addresses = 0000:84:00.0, 0000:85:00.0

[vgpu_T4-8Q]
device_addresses = 85:00.0
"""

FAT_FINGERED = """\
[devices]
enabled_vgpu_types = T4-2Q, A40-8Q
unlisted_gpus = ignore

[vgpu_T4-2Q]
device_addresses = 0000:48:00.0, 0000:85:00.o, 0000:e1:00.0

[vgpu_A40-8]
device_addresses = 0000:41:00.0
"""

_ASKED = (
    (
        'any GPU with the type A40-8Q',
        ('CUSTOM_VGPU_TYPE_A40_8Q',),
    ),
    (
        'any Turing GPU whose displays reach 4K',
        ('CUSTOM_GPU_ARCH_TURING', 'HW_GPU_RESOLUTION_W3840H2160'),
    ),
    (
        'any GPU of rack 7 with 24 GB for the guest',
        ('CUSTOM_RACK_7', 'CUSTOM_VGPU_FRAMEBUFFER_24G'),
    ),
)


class Demo(base.Command):
    """Show the commands on a simulated host, with a real Placement.

    This machine is not changed: the host is a directory tree, Placement
    listens on 127.0.0.1 with its own database, and both are removed at the
    end.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        _require_packages()
        # A proxy of the site must not be used for the loopback address.
        os.environ['no_proxy'] = os.environ['NO_PROXY'] = '127.0.0.1'
        with (
            _terminated_like_interrupted(),
            tempfile.TemporaryDirectory(prefix='nova-vgpu-demo-') as name,
        ):
            directory = pathlib.Path(name)
            (directory / 'access').mkdir()
            tree.write_tree(simulation.demo_host(), directory / 'sys')
            self._discover(directory)
            config = self._declare(directory)
            self._publish(directory, config)
            self._refuse(directory)
        self._tell('Done; all that the demonstration started was removed.')

    def _discover(self, directory: pathlib.Path) -> None:
        self._head(
            '1. Discover',
            'A host with two T4 (mdev on the GPU itself), two A40 (mdev on '
            'virtual functions, which are disabled on one of them) and an '
            'L40S in another PCI domain (vendor-specific VFIO, no mdev).',
        )
        self._run(directory, 'gpu', 'list')
        self._run(directory, 'gpu', 'show', '0000:c1:00.0')
        self._run(directory, 'type', 'list', '--gpu', '0001:c8:00.0')
        self._run(directory, 'device', 'list', '--gpu', '85:00.0')

    def _declare(self, directory: pathlib.Path) -> pathlib.Path:
        self._head(
            '2. Declare and check',
            'Types by name, so that a driver upgrade that renumbers them '
            'changes nothing; addresses in any spelling. The T4s are not '
            'listed '
            'and serve the first type.',
        )
        config = self._write(directory, 'nova.conf', CONFIGURATION)
        self._run(directory, 'check', config=config)
        self._prose(
            'One GPU is not ready, and the message has the cure; the others '
            'serve.'
        )
        self._head('3. Plan', 'What each GPU would serve, and what limits it.')
        self._run(directory, 'plan', '--node', NODE, config=config)
        self._prose('Everything about one of them, in a format for machines:')
        self._run(
            directory,
            *('plan', '--node', NODE, '--gpu', '0001:c8:00.0', '-f', 'yaml'),
            config=config,
        )
        return config

    def _publish(self, directory: pathlib.Path, config: pathlib.Path) -> None:
        self._head(
            '4. Publish',
            'To a Placement that was started for this, over HTTP.',
        )
        source = host_source.HostSource(sysfs_root=str(directory / 'sys'))
        host = source.read_host()
        loaded = configuration.load([str(config)], [str(directory / 'access')])
        plan = mapper.make_plan(
            loaded.plan_input(host, source.read_modes(host))
        )
        target = providers.Target(
            plan, NODE, providers.Mode.FULL, create_root=True
        )
        with placement_server.run_placement(directory / 'placement') as url:
            placement = _connect(directory / 'access', url)
            for attempt in ('First', 'Second'):
                made: list[values.Change] = []
                synchronisation.sync(placement, target, made.append)
                self._tell(f'{attempt} time: {len(made)} requests that write.')
            self._head('5. Ask', 'The requests of the scheduler for a flavor.')
            for title, required in _ASKED:
                found = placement.list_candidates('VGPU', 1, required)
                self._tell(f'\n{title}:')
                for trait in required:
                    self._tell(f'    trait:{trait}=required')
                for name in sorted(candidate.provider for candidate in found):
                    self._tell(f'    -> {name}')
                if not found:
                    self._tell('    -> none')

    def _refuse(self, directory: pathlib.Path) -> None:
        self._head(
            '6. Refuse',
            'One GPU under two types, in two spellings. nova-compute does not '
            'start with it:',
        )
        config = self._write(directory, 'conflicting.conf', CONFLICTING)
        self._run(directory, 'check', config=config)
        self._prose('And typing errors, all reported at once:')
        config = self._write(directory, 'slip.conf', FAT_FINGERED)
        self._run(directory, 'check', config=config)

    def _head(self, title: str, text: str) -> None:
        self._tell(f'\n{title}\n{"=" * len(title)}')
        self._prose(text)

    def _write(
        self, directory: pathlib.Path, name: str, text: str
    ) -> pathlib.Path:
        path = directory / name
        path.write_text(text)
        self._tell(textwrap.indent(text, '    '))
        return path

    def _run(
        self,
        directory: pathlib.Path,
        *words: str,
        config: pathlib.Path | None = None,
    ) -> None:
        """Print and run a command of this program."""
        from nova_vgpu.cmd import main

        options = ['--sysfs-root', str(directory / 'sys')]
        if config is not None:
            options += ['--config-file', str(config)]
            # Not the directories of a nova-compute on this machine.
            options += ['--config-dir', str(directory / 'access')]
        self._tell(f'$ nova-vgpu {shlex.join(words)}')
        main.NovaVGPU(stdout=self.app.stdout, stderr=self.app.stdout).run(
            [*options, *words]
        )
        self._tell('')

    def _prose(self, text: str) -> None:
        self._tell(textwrap.fill(text, 78) + '\n')

    def _tell(self, text: str) -> None:
        print(text, file=self.app.stdout, flush=True)


def _require_packages() -> None:
    """Report missing packages before anything is shown."""
    needed = ('openstack', 'placement', 'waitress')
    missing = [name for name in needed if not util.find_spec(name)]
    if missing:
        raise exception.PlacementError(
            f'The demonstration needs more packages: {sys.executable} -m pip '
            "install 'nova-vgpu[demo]'"
        )


def _connect(directory: pathlib.Path, url: str) -> 'client.PlacementClient':
    """A client with its own configuration, not this machine's."""
    config = directory / 'nova.conf'
    config.write_text(placement_server.access(url))
    return synchronisation.connect([str(config)], [str(directory)])


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Clean up on SIGTERM as on Ctrl-C."""

    def interrupt(
        _number: int, _frame: types.FrameType | None
    ) -> typing.NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
