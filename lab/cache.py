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

"""The directory that keeps what the lab builds once.

::

    rootfs/     a Debian system: where the kernel module is built, where QEMU
                is run from, and what the guest has as its root
    root.img    the same as a disk, which the guest reads
    vmlinux     its kernel, unpacked: an emulated machine takes long for that
    initrd.gz   what mounts the disks of the guest
    seed/       what the first boot found out
    *.stamp     what each of them was made from
    *.log       what was said meanwhile
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import subprocess

Show = Callable[[str], object]

_LAST_LINES = 15


class BuildFailed(Exception):
    """Something of the lab cannot be built."""


@dataclasses.dataclass(frozen=True)
class Cache:
    """The directory, and where things are in it."""

    path: pathlib.Path

    @property
    def rootfs(self) -> pathlib.Path:
        return self.path / 'rootfs'

    @property
    def image(self) -> pathlib.Path:
        return self.path / 'root.img'

    @property
    def kernel(self) -> pathlib.Path:
        return self.path / 'vmlinux'

    @property
    def initrd(self) -> pathlib.Path:
        return self.path / 'initrd.gz'

    @property
    def seed(self) -> pathlib.Path:
        return self.path / 'seed'

    @property
    def kernel_version(self) -> str:
        (version,) = os.listdir(self.rootfs / 'lib/modules')
        return version

    @contextlib.contextmanager
    def held(self, show: Show) -> Iterator[None]:
        """Exclude other runs, which would change what is in use."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / 'lock', 'w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                show(f'waiting for another run that uses {self.path}')
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def program(self, path: str) -> list[str]:
        """A program of the rootfs, to be run on this machine as it is."""
        libraries = self.rootfs / 'usr/lib/x86_64-linux-gnu'
        return [
            str(self.rootfs / 'lib64/ld-linux-x86-64.so.2'),
            *('--library-path', f'{libraries}:{libraries}/pulseaudio'),
            str(self.rootfs / path),
        ]

    def in_rootfs(self, *argv: str) -> list[str]:
        """A program that is to see the rootfs as its root."""
        return ['chroot', str(self.rootfs), *argv]

    def run(
        self,
        name: str,
        argv: list[str],
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run a program; what it says is kept in the log of that name.

        :raises BuildFailed: if it fails.
        """
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            env=env,
        )
        log = self.path / f'{name}.log'
        log.write_bytes(done.stdout)
        if done.returncode:
            said = done.stdout.decode(errors='replace').splitlines()
            raise BuildFailed(
                '\n'.join(
                    [
                        *said[-_LAST_LINES:],
                        f'{argv[0]} failed ({done.returncode}): see {log}',
                    ]
                )
            )
        return done.stdout
