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

"""The command line: from a cold start.

``nova-vgpu gpu list`` beside ``openstack --version``, which does nothing but
start; and ``nova-vgpu plan`` on the largest host.
"""

from collections.abc import Callable
import functools
import pathlib
import subprocess
import sys

from benchmarks import machines
from benchmarks import report
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import tree

_ROUNDS = 15


def run(directory: pathlib.Path, quick: bool) -> list[report.Measurement]:
    """Measure; there is nothing to plot."""
    report.tell('command line')
    size = machines.Size(2, 4, 8) if quick else machines.Size()
    with machines.machine(size) as large:
        small = large.directory / 'small'
        tree.write_tree(host.demo_host(), small)
        taken = report.take_turns(
            _make_bodies(small, large), 1 if quick else _ROUNDS
        )
    return [
        report.Measurement(
            'command line',
            'gpu list beside openstack --version',
            {},
            report.Figures(taken[report.OURS]),
            report.Figures(taken[report.STOCK]),
        ),
        report.Measurement(
            'command line', 'plan', size.scene(), report.Figures(taken['plan'])
        ),
    ]


def _make_bodies(
    small: pathlib.Path, large: machines.Machine
) -> dict[str, Callable[[], object]]:
    scripts = pathlib.Path(sys.executable).parent
    ours = scripts / 'nova-vgpu'
    configuration = large.directory / 'nova.conf'
    configuration.write_text(
        f'[devices]\nenabled_vgpu_types = {machines.TYPE}\n'
    )
    return {
        report.STOCK: _make_body(scripts / 'openstack', '--version'),
        report.OURS: _make_body(ours, '--sysfs-root', small, 'gpu', 'list'),
        'plan': _make_body(
            *(ours, '--sysfs-root', large.sysfs),
            *('--config-file', configuration, 'plan'),
        ),
    }


def _make_body(*command: object) -> Callable[[], object]:
    return functools.partial(
        subprocess.run,
        list(map(str, command)),
        check=True,
        stdout=subprocess.DEVNULL,
    )
