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

"""Run the unit tests with the Python and the libvirt of the guest.

They need no GPU and no kernel of their own, so they run on this machine, at
its speed, in a root that is the guest's: the Debian that the lab built, with
the wheel of the project over it. The next run removes what they write.
"""

import pathlib
import shutil
import subprocess

from lab import cache
from lab import overlay
from lab import project
from lab import stages

_SOURCE = 'root/project'
#: They take half of the time, and kill the same program at the same steps
#: whatever runs it: "tox -e py3" is enough for them.
_LEFT_OUT = 'test_crashes'


def run(its: cache.Cache) -> bool:
    """Run them; gives whether they passed."""
    directory = its.path / 'unit'
    shutil.rmtree(directory, ignore_errors=True)
    layer, root = directory / 'layer', directory / 'root'
    directory.mkdir()
    project.install(its, layer)
    _copy_source(its, layer / _SOURCE)
    for path in (root, directory / 'changed', directory / 'work'):
        path.mkdir()
    mounts = (
        f'lowerdir={layer}:{its.rootfs},'
        f'upperdir={directory}/changed,workdir={directory}/work'
    )
    python = f'/{stages.ENVIRONMENT}/bin'
    done = subprocess.run(
        [
            *('unshare', '--mount', '--propagation', 'private'),
            *('--pid', '--fork', '--kill-child'),
            *('sh', '-c', overlay.RUN_IN_OVERLAY, 'sh', mounts, str(root)),
            *('/usr/bin/env', '-i', '-C', f'/{_SOURCE}', 'HOME=/root'),
            *(f'PATH={python}:/usr/sbin:/usr/bin', 'LC_ALL=C.UTF-8'),
            *('stestr', 'run', '--exclude-regex', _LEFT_OUT),
        ],
    )
    return done.returncode == 0


def _copy_source(its: cache.Cache, there: pathlib.Path) -> None:
    """What is in the repository, as it is now."""
    which = ['--cached', '--others', '--exclude-standard', '-z']
    listed = its.run(
        'source', ['git', '-C', str(stages.PROJECT), 'ls-files', *which]
    )
    for name in listed.decode().split('\0'):
        path = stages.PROJECT / name
        if path.is_file():
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, there / name)
