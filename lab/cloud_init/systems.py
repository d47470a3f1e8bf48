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

"""Debian systems with cloud-init, and what runs in them.

A system is built once and kept. Each run has it below an overlay of its own,
which also has programs named systemctl and modprobe that write down what they
are asked.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess

from lab import overlay

SUITES = ('bookworm', 'trixie')
_PACKAGES = (
    *('ca-certificates', 'cloud-init', 'dkms', 'gcc', 'gnupg', 'make'),
    'systemd',
)
_EXCLUDED = ('doc', 'locale', 'man')
_SOURCES = (
    pathlib.Path('/etc/apt/sources.list.d/debian.sources'),
    pathlib.Path('/etc/apt/sources.list'),
)

_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
_SYSTEMCTL = """\
#!/bin/sh
echo "$@" >>/run/systemctl.log
SYSTEMD_OFFLINE=1 exec /usr/bin/systemctl "$@"
"""
# The kernel is that of this machine, and the vendor's packages have no module.
_MODPROBE = """\
#!/bin/sh
echo "$@" >>/run/modprobe.log
"""
#: Only what the user data is for: no network, users or keys of SSH.
_CLOUD_CONFIG = """\
datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: [write_files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts_user]
"""
_STAGES = (
    ('init', '--local'),
    ('init',),
    ('modules', '--mode=config'),
    ('modules', '--mode=final'),
)
#: What a run may write at any time.
_UNSTEADY = (
    *('dev', 'proc', 'run', 'tmp', 'etc/resolv.conf', 'etc/hosts'),
    *('var/cache', 'var/lib/cloud', 'var/log', 'var/lib/apt/lists'),
)


def build(cache: pathlib.Path, suite: str) -> pathlib.Path:
    """A Debian of a suite, from the package sources of this machine."""
    stamp = cache / f'{suite}.stamp'
    root = cache / suite
    key = ' '.join(_PACKAGES)
    if stamp.exists() and stamp.read_text() == key:
        return root
    print(f'==> building Debian {suite} in {root}', flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    there = next(path for path in _SOURCES if path.exists())
    ours = cache / f'{suite}{there.suffix}'
    ours.write_text(there.read_text().replace(_read_suite(), suite))
    excluded = [f'--dpkgopt=path-exclude=/usr/share/{x}/*' for x in _EXCLUDED]
    subprocess.run(
        [
            *('mmdebstrap', '--quiet', '--mode=root', '--variant=minbase'),
            '--aptopt=APT::Install-Recommends "false"',
            *excluded,
            f'--include={",".join(_PACKAGES)}',
            *(suite, str(root), str(ours)),
        ],
        check=True,
    )
    stamp.write_text(key)
    return root


def _read_suite() -> str:
    for line in pathlib.Path('/etc/os-release').read_text().splitlines():
        if line.startswith('VERSION_CODENAME='):
            return line.partition('=')[2]
    raise SystemExit('/etc/os-release names no release of Debian.')


@dataclasses.dataclass(frozen=True)
class Guest:
    """A system that cloud-init runs in."""

    base: pathlib.Path
    directory: pathlib.Path

    @property
    def changed(self) -> pathlib.Path:
        return self.directory / 'changed'

    def path(self, name: str) -> pathlib.Path:
        """A file, as the guest has it."""
        for top in (self.changed, self.base):
            if os.path.lexists(top / name):
                return top / name
        return self.base / name

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.changed / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.make_command(*argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def make_command(self, *argv: str) -> list[str]:
        """What runs a command in the system."""
        mounts = (
            f'lowerdir={self.base},upperdir={self.changed},'
            f'workdir={self.directory}/work'
        )
        return [
            *('unshare', '--mount', '--propagation', 'private'),
            *('--pid', '--fork', '--kill-child'),
            *('sh', '-c', overlay.RUN_IN_OVERLAY, 'sh', mounts),
            *(str(self.directory / 'root'), '/usr/bin/env', '-i'),
            *(f'PATH={_PATH}', 'HOME=/root', 'LC_ALL=C.UTF-8', *argv),
        ]

    def boot(self, user_data: str) -> str:
        """Run cloud-init as a first boot; gives what its commands print."""
        seed = 'var/lib/cloud/seed/nocloud'
        self.write(f'{seed}/user-data', user_data)
        self.write(f'{seed}/meta-data', 'instance-id: lab\n')
        log = self.changed / 'var/log/cloud-init-output.log'
        done = [self.run('rm', '-rf', '/var/lib/cloud/instances')]
        for stage in _STAGES:
            done.append(self.run('cloud-init', *stage))
        said = ''.join(each.stdout for each in done)
        return said + (log.read_text() if log.exists() else '')

    def list_requests(self) -> list[str]:
        """What systemctl was asked since the last time."""
        log = self.changed / 'run/systemctl.log'
        if not log.exists():
            return []
        lines = log.read_text().splitlines()
        log.unlink()
        return lines

    def take_picture(self) -> dict[str, tuple[int, str]]:
        """Mode and content of every file that the guest has changed."""
        return {
            name: (path.lstat().st_mode, _digest(path))
            for path in sorted(self.changed.rglob('*'))
            if not path.is_dir() or path.is_symlink()
            for name in [path.relative_to(self.changed).as_posix()]
            if not name.startswith(_UNSTEADY)
        }


def _digest(path: pathlib.Path) -> str:
    if path.is_symlink():
        return os.readlink(path)
    if not path.is_file():
        return ''
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextlib.contextmanager
def made(base: pathlib.Path, directory: pathlib.Path) -> Iterator[Guest]:
    """A guest that has no package sources but those of its user data."""
    guest = Guest(base, directory)
    for name in ('changed', 'work', 'root'):
        (directory / name).mkdir(parents=True)
    guest.write('usr/local/bin/systemctl', _SYSTEMCTL, 0o755)
    guest.write('usr/local/bin/modprobe', _MODPROBE, 0o755)
    guest.write('etc/cloud/cloud.cfg.d/99_lab.cfg', _CLOUD_CONFIG)
    guest.write('etc/dpkg/dpkg.cfg.d/lab', 'force-unsafe-io\n')
    guest.run('rm', '-rf', '/etc/apt/sources.list', '/etc/apt/sources.list.d')
    try:
        yield guest
    finally:
        shutil.rmtree(directory)
