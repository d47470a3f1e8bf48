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

"""What the lab builds once: a Debian 13 with fake GPUs in its kernel.

Each stage is run again when what it is made from has changed, and with it all
that follow.
"""

from collections.abc import Callable
from collections.abc import Iterable
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

from lab import boot_files
from lab import cache

SUITE = 'trixie'
PACKAGES = (
    # The kernel, and what builds a module for it.
    *('linux-image-amd64', 'linux-headers-amd64', 'make', 'zstd'),
    # What builds the stand-in for NVML.
    *('gcc', 'libc6-dev'),
    *('systemd', 'systemd-sysv', 'dbus', 'udev', 'kmod', 'e2fsprogs'),
    *('busybox-static', 'iproute2', 'pciutils', 'procps'),
    'qemu-guest-agent',
    # For the guest as a compute host, and for the lab to run the guest.
    *('qemu-system-x86', 'qemu-system-data', 'qemu-utils'),
    'seabios',
    *('libvirt-daemon-system', 'libvirt-daemon-driver-qemu'),
    *('libvirt-clients', 'mdevctl'),
    *('python3', 'python3-venv', 'python3-libvirt'),
)
NOVA = 'nova==34.0.0'

LAB = pathlib.Path(__file__).resolve().parent
PROJECT = LAB.parent
#: In the guest: where the units of the project look for it.
ENVIRONMENT = 'opt/nova-vgpu'

_CONSTRAINTS = 'constraints.txt'
_REQUIREMENTS = ('requirements.txt', 'test-requirements.txt')
_DISK_SIZE = '3G'
_NVML = 'libnvidia-ml.so.1'

Seed = Callable[[pathlib.Path], None]


def build(its: cache.Cache, show: cache.Show, seed: Seed) -> None:
    """Make what is missing or out of date.

    :param seed: boots what was built, and fills a directory with what is
        worth keeping of that.
    :raises BuildFailed: if something cannot be made.
    """
    pinned = [PROJECT / name for name in (_CONSTRAINTS, *_REQUIREMENTS)]
    stages: tuple[
        tuple[str, Callable[[], None], Iterable[pathlib.Path]], ...
    ] = (
        ('debian', lambda: _make_rootfs(its), []),
        ('python', lambda: _install_python(its), pinned),
        ('module', lambda: _build_modules(its), _files(LAB / 'fakevgpu')),
        ('nvml', lambda: _build_nvml(its), _files(LAB / 'fakenvml')),
        ('disk', lambda: _make_disk(its), [LAB / 'boot_files.py']),
        ('seed', lambda: _make_seed(its, seed), []),
    )
    key = _digest([repr((SUITE, PACKAGES, NOVA, _DISK_SIZE)).encode()])
    names = [name for name, _, _ in stages]
    for number, (name, make, sources) in enumerate(stages):
        key = _digest([key.encode(), *(path.read_bytes() for path in sources)])
        stamp = its.path / f'{name}.stamp'
        if stamp.exists() and stamp.read_text() == key:
            continue
        show(f'building: {name}')
        # The following ones were made from the one that is built again.
        for each in names[number:]:
            (its.path / f'{each}.stamp').unlink(missing_ok=True)
        began = time.monotonic()
        make()
        stamp.write_text(key)
        show(f'    took {time.monotonic() - began:.0f} s')


def _files(directory: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in directory.rglob('*') if path.is_file())


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b'%d:' % len(part))
        digest.update(part)
    return digest.hexdigest()


def _make_rootfs(its: cache.Cache) -> None:
    """A Debian from the sources of this machine, but of another release."""
    sources = pathlib.Path('/etc/apt/sources.list.d/debian.sources')
    if not sources.exists():
        sources = pathlib.Path('/etc/apt/sources.list')
    release = _read_release()
    ours = its.path / sources.name
    ours.write_text(sources.read_text().replace(release, SUITE))
    new = its.path / 'rootfs.new'
    shutil.rmtree(new, ignore_errors=True)
    excluded = ('man', 'doc', 'locale')
    its.run(
        'debian',
        [
            *('mmdebstrap', '--mode=root', '--variant=minbase'),
            '--aptopt=APT::Install-Recommends "false"',
            *(f'--dpkgopt=path-exclude=/usr/share/{x}/*' for x in excluded),
            f'--include={",".join(PACKAGES)}',
            *(SUITE, str(new), str(ours)),
        ],
        # The initial RAM disk is made here, and small.
        env={**os.environ, 'INITRD': 'No'},
    )
    shutil.rmtree(its.rootfs, ignore_errors=True)
    new.rename(its.rootfs)


def _read_release() -> str:
    lines = pathlib.Path('/etc/os-release').read_text().splitlines()
    about = dict(line.split('=', 1) for line in lines if '=' in line)
    if about.get('ID') == 'debian' and 'VERSION_CODENAME' in about:
        return about['VERSION_CODENAME']
    raise cache.BuildFailed(
        'The lab is built from the package sources of a Debian machine, but '
        '/etc/os-release names no release of Debian.'
    )


def _install_python(its: cache.Cache) -> None:
    """Nova and what the project needs, for the Python of the guest."""
    shutil.rmtree(its.rootfs / ENVIRONMENT, ignore_errors=True)
    wanted = []
    for name in (_CONSTRAINTS, *_REQUIREMENTS):
        lines = (PROJECT / name).read_text().splitlines(keepends=True)
        # Debian's own, which fits the libvirt of the guest.
        kept = [line for line in lines if 'libvirt' not in line]
        (its.rootfs / 'root' / name).write_text(''.join(kept))
        wanted += ['-c' if name == _CONSTRAINTS else '-r', f'/root/{name}']
    venv = ['python3', '-m', 'venv', '--system-site-packages']
    its.run('venv', its.in_rootfs(*venv, f'/{ENVIRONMENT}'))
    pip = [f'/{ENVIRONMENT}/bin/pip', 'install', '--quiet', *wanted, NOVA]
    its.run('pip', its.in_rootfs(*pip), env=_pip_settings(its))


def _pip_settings(its: cache.Cache) -> dict[str, str]:
    """How pip gets packages on this machine, for one in the rootfs."""
    settings = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root'}
    listed = subprocess.run(
        [sys.executable, '-m', 'pip', 'config', 'list'],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    for line in listed.stdout.splitlines():
        name, _, value = line.partition('=')
        option = name.rpartition('.')[2].upper().replace('-', '_')
        settings[f'PIP_{option}'] = value.strip("'")
    certificates = settings.get('PIP_CERT')
    for path in ('/etc/resolv.conf', certificates):
        if path is not None:
            there = its.rootfs / path.removeprefix('/')
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, there)
    return settings


def _build_modules(its: cache.Cache) -> None:
    source = its.rootfs / 'usr/src/fakevgpu'
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(LAB / 'fakevgpu', source)
    version = its.kernel_version
    make = ['make', '-C', f'/lib/modules/{version}/build']
    options = ['M=/usr/src/fakevgpu', 'CONFIG_DEBUG_INFO_BTF_MODULES=']
    its.run('module', its.in_rootfs(*make, *options, 'modules'))
    extra = its.rootfs / 'lib/modules' / version / 'extra'
    extra.mkdir(exist_ok=True)
    for built in source.glob('*.ko'):
        strip = ('strip', '-g', f'/usr/src/fakevgpu/{built.name}')
        its.run('strip', its.in_rootfs(*strip))
        shutil.copy(built, extra)
    its.run('depmod', its.in_rootfs('depmod', version))


def _build_nvml(its: cache.Cache) -> None:
    shutil.copy(LAB / 'fakenvml/fakenvml.c', its.rootfs / 'usr/src')
    options = ('-shared', '-fPIC', '-fvisibility=hidden', '-pthread', '-O2')
    its.run(
        'nvml',
        its.in_rootfs(
            *('gcc', *options, '-o', f'/usr/lib/x86_64-linux-gnu/{_NVML}'),
            '/usr/src/fakenvml.c',
        ),
    )


def _make_disk(its: cache.Cache) -> None:
    """The rootfs as a disk, and what boots from it."""
    boot_files.unpack_kernel(its)
    boot_files.make_initrd(its)
    new = its.image.with_suffix('.new')
    new.unlink(missing_ok=True)
    its.run(
        'disk',
        [
            *its.program('usr/sbin/mke2fs'),
            *('-q', '-t', 'ext4', '-O', '^has_journal', '-m', '0'),
            *('-d', str(its.rootfs), str(new), _DISK_SIZE),
        ],
    )
    new.rename(its.image)


def _make_seed(its: cache.Cache, seed: Seed) -> None:
    shutil.rmtree(its.seed, ignore_errors=True)
    its.seed.mkdir()
    seed(its.seed)
