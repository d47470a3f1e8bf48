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

"""The project in the guest: its wheel, and the tests that run there.

They are not on the disk that the lab builds but in a directory over it, which
is created for each run.
"""

import os
import pathlib
import shutil
import sys
import tempfile

from lab import cache
from lab import stages

#: In the guest.
TESTS = '/opt/lab'


def install(its: cache.Cache, directory: pathlib.Path) -> None:
    """Fill the directory with what belongs over the root of the guest."""
    with tempfile.TemporaryDirectory(dir=its.rootfs / 'root') as name:
        there = pathlib.Path(name)
        inside = f'/root/{there.name}'
        # Not in the project: what was there of a former one would come along.
        settings = there / 'build.cfg'
        settings.write_text(f'[build]\nbuild_base = {there}/build\n')
        its.run(
            'wheel',
            [
                *(sys.executable, '-m', 'pip', 'wheel', '--quiet'),
                *('--no-deps', '--no-build-isolation'),
                *('-w', str(there), str(stages.PROJECT)),
            ],
            env={**os.environ, 'DIST_EXTRA_CONFIG': str(settings)},
        )
        (wheel,) = there.glob('*.whl')
        its.run(
            'install',
            its.in_rootfs(
                f'/{stages.ENVIRONMENT}/bin/pip',
                *('install', '--quiet', '--no-deps', '--no-index'),
                *('--root', f'{inside}/root', f'{inside}/{wheel.name}'),
            ),
        )
        shutil.move(there / 'root', directory)
    tests = directory / TESTS.removeprefix('/') / 'lab'
    ignored = shutil.ignore_patterns('root', '__pycache__')
    shutil.copytree(stages.LAB / 'guest', tests / 'guest', ignore=ignored)
    shutil.copy(stages.LAB / '__init__.py', tests)


def add_root(directory: pathlib.Path) -> None:
    """Add the settings of the guest, and the stand-ins of the vendor."""
    root = stages.LAB / 'guest/root'
    shutil.copytree(root, directory, symlinks=True, dirs_exist_ok=True)
