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

"""How long ``nova-vgpu gpu list`` takes from a cold start.

Beside ``openstack --version``, in turns on the same machine in one run, so
that only their ratio matters and not how busy the machine is::

    tox -e bench
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from nova_vgpu.simulation import host
from nova_vgpu.simulation import tree

_ROUNDS = 15


def main() -> None:
    scripts = pathlib.Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        tree.write_tree(host.demo_host(), root)
        commands = {
            'nova-vgpu gpu list': (
                scripts / 'nova-vgpu',
                *('--sysfs-root', root, 'gpu', 'list'),
            ),
            'openstack --version': (scripts / 'openstack', '--version'),
        }
        taken: dict[str, list[float]] = {title: [] for title in commands}
        for _ in range(_ROUNDS + 1):
            for title, command in commands.items():
                began = time.perf_counter()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                taken[title].append(time.perf_counter() - began)
    # The first round fills the caches of the file system.
    medians = {title: statistics.median(t[1:]) for title, t in taken.items()}
    for title, median in medians.items():
        print(f'{title:20} {median * 1000:6.0f} ms')
    ours, theirs = medians.values()
    print(f'ratio                {ours / theirs:6.2f}')


if __name__ == '__main__':
    main()
