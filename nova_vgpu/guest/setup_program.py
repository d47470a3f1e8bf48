#!/usr/bin/python3
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

"""Set up the GPU of this guest: driver, licence, container runtime.

``nova-vgpu guest cloud-init`` puts this file into user data as it is. What to
do is in setup.json. Every step looks at what is there first, so the program
may be run again at any time: it then changes nothing. It needs Python 3.6 and
APT, runs no shell, and prints neither URLs nor the content of licence files.
"""

import fnmatch
import glob
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import typing
import urllib.error
import urllib.request

PLAN = '/etc/nova-vgpu-guest/setup.json'
STATE = '/var/lib/nova-vgpu-guest'
_MODULES = '/sys/module'
_VENDORS = '/sys/bus/pci/devices/*/vendor'
_NVIDIA = b'0x10de'
_INITRAMFS = '/usr/sbin/update-initramfs'
_CDI = '/etc/cdi/nvidia.yaml'
_CDI_UNITS = (
    '/lib/systemd/system/nvidia-cdi-refresh.service',
    '/usr/lib/systemd/system/nvidia-cdi-refresh.service',
)
_RUNTIME_FILES = {
    'docker': ('/etc/docker/daemon.json',),
    'containerd': (
        '/etc/containerd/config.toml',
        '/etc/containerd/conf.d/99-nvidia.toml',
    ),
}
# "6.1.0-28-cloud-amd64", "6.12.48+deb13-amd64", "6.8.0-49-generic".
_KERNEL = re.compile(r'[0-9][0-9.]*(?:[+~][a-z0-9.]+)*(?:-[0-9]+)?-([a-z].*)')
# Updates of the system may run at the same time, such as after a boot.
_WAIT = ('-o', 'DPkg::Lock::Timeout=600')
# What systemctl returns for a unit that systemd does not know.
_NO_UNIT = 5
_SECONDS = 60
_CHUNK = 1 << 20


Plan = typing.Dict[str, typing.Any]
Lines = typing.List[str]
Changes = typing.Iterator[str]
Packages = typing.List[typing.Tuple[str, str]]


class Failed(Exception):
    """A step failed; the text says which, and what to do."""


def main() -> int:
    is_changed = False
    try:
        for change in set_up(read_plan()):
            is_changed = True
            print('nova-vgpu-guest-setup: {}'.format(change), flush=True)
    except Failed as error:
        print('nova-vgpu-guest-setup: {}'.format(error), file=sys.stderr)
        return 1
    if not is_changed:
        print('nova-vgpu-guest-setup: nothing to change')
    return 0


def read_plan() -> Plan:
    if os.geteuid() != 0:
        raise Failed('Run it as root.')
    try:
        with open(PLAN, encoding='ascii') as file:
            plan = json.load(file)  # type: Plan
            return plan
    except (OSError, ValueError) as error:
        raise Failed('{} cannot be read: {}.'.format(PLAN, error)) from error


def set_up(plan: Plan) -> Changes:
    """Do what is missing, and tell what was done."""
    os.makedirs(STATE, mode=0o755, exist_ok=True)
    if plan['installs_driver']:
        unload_nouveau()
        release = os.uname().release
        yield from install_packages(
            list_packages(plan, release, find_header_packages())
        )
        if plan['driver_file']:
            yield from install_file(plan['driver_file'])
        load_driver()
    elif plan['packages']:
        yield from install_packages(list_packages(plan, ''))
    if plan['licence_files']:
        yield from apply_licence(plan['licence_files'])
    if plan['runtime']:
        yield from configure_runtime(plan['runtime'], plan['cdi'])


def run(*argv: str, fine: typing.Collection[int] = (0,)) -> str:
    """Run a program; what it prints is part of the error if it fails."""
    done = call(*argv)
    if done.returncode not in fine:
        raise Failed(
            '{} failed ({}): {}'.format(
                ' '.join(argv[:2]), done.returncode, done.stdout[-2000:]
            )
        )
    return done.stdout


def call(*argv: str) -> 'subprocess.CompletedProcess[str]':
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, DEBIAN_FRONTEND='noninteractive', LC_ALL='C'),
            encoding='utf-8',
            errors='replace',
        )
    except OSError as error:
        raise Failed('{}: {}.'.format(argv[0], error.strerror)) from error


# Packages.


def list_packages(
    plan: Plan, release: str, headers: typing.Sequence[str] = ()
) -> Packages:
    """Names with versions, or with '' for any version.

    :param headers: packages that updates of the kernel bring headers with,
        which DKMS needs; they follow from the release if none is known.
    """
    wanted = [(each['name'], each['version']) for each in plan['packages']]
    if release:
        wanted.append(('linux-headers-' + release, ''))
        match = _KERNEL.fullmatch(release)
        if match and not headers:
            headers = ['linux-headers-' + match.group(1)]
    return wanted + [(name, '') for name in headers]


def find_header_packages() -> Lines:
    """Those beside the packages that updates of the kernel come with.

    Ubuntu has several for kernels of one name, such as "generic".
    """
    done = call(
        *('dpkg-query', '-W', '-f'),
        *(r'${db:Status-Status} ${Package}\n', 'linux-image-*'),
    )
    found = re.findall(
        r'^installed linux-image-([a-z].*)$', done.stdout, re.MULTILINE
    )
    return [
        'linux-headers-' + name
        for name in sorted(found)
        if not name.startswith(('unsigned-', 'extra-'))
        and not name.endswith('-dbg')
    ]


def find_installed(name: str) -> str:
    """The version of an installed package; '' if it is not installed."""
    done = call(
        'dpkg-query', '-W', '-f', '${db:Status-Status} ${Version}', name
    )
    status, _, version = done.stdout.partition(' ')
    return version if done.returncode == 0 and status == 'installed' else ''


def is_installed(name: str, wanted: str) -> bool:
    version = find_installed(name)
    return bool(version) and fnmatch.fnmatchcase(version, wanted or '*')


def install_packages(wanted: Packages) -> Lines:
    missing = [each for each in wanted if not is_installed(*each)]
    if not missing:
        return []
    run('apt-get', '-q', *_WAIT, 'update')
    install(
        name + ('=' + version if version else '') for name, version in missing
    )
    for name, version in missing:
        if not is_installed(name, version):
            raise Failed(
                'The package {} is installed in version {}, not {}.'.format(
                    name, find_installed(name) or 'none', version or 'any'
                )
            )
    return [
        'installed {} {}'.format(name, find_installed(name))
        for name, _ in missing
    ]


def install(what: typing.Iterable[str]) -> None:
    run(
        *('apt-get', '-q', *_WAIT, '-y', '--no-install-recommends'),
        # The files that user data has written stay as they are.
        *('--allow-downgrades', '-o', 'Dpkg::Options::=--force-confold'),
        *('install', *what),
    )


# A driver from a file.


def unload_nouveau() -> None:
    if not is_loaded('nouveau'):
        return
    if call('modprobe', '-r', 'nouveau').returncode:
        if os.path.exists(_INITRAMFS):
            # It may be loaded from there, which does not know yet.
            run(_INITRAMFS, '-u')
        raise Failed(
            'nouveau is in use. It is blacklisted now: reboot, and run '
            '{} again.'.format(sys.argv[0])
        )


def load_driver() -> None:
    """What comes next asks the driver; packages do not load it."""
    if is_loaded('nvidia') or not has_gpu():
        return
    done = call('modprobe', 'nvidia')
    if done.returncode:
        raise Failed(
            'The driver is installed, but its module cannot be loaded: {}. '
            'See "dkms status" and "dmesg"; with Secure Boot, the guest has '
            'to trust the key of DKMS. Then run {} again.'.format(
                done.stdout.strip()[-500:], sys.argv[0]
            )
        )


def is_loaded(module: str) -> bool:
    return os.path.isdir(os.path.join(_MODULES, module))


def has_gpu() -> bool:
    """Whether there is one of NVIDIA: images are made without."""
    return any(
        (read(path) or b'').strip() == _NVIDIA for path in glob.glob(_VENDORS)
    )


def install_file(driver: typing.Dict[str, str]) -> Lines:
    """Install a .run or .deb, unless this very file is installed."""
    stamp = os.path.join(STATE, 'driver-' + driver['sha256'])
    if is_file_installed(driver, stamp):
        return []
    path = os.path.join(STATE, 'download.' + driver['form'])
    try:
        download(driver['url'], driver['sha256'], path)
        if driver['form'] == 'deb':
            package = run('dpkg-deb', '-f', path, 'Package').strip()
            install([path])
        else:
            package = ''
            run('sh', path, '--silent', '--dkms')
    finally:
        if os.path.exists(path):
            os.unlink(path)
    replace(stamp, package.encode('ascii'))
    if not is_file_installed(driver, stamp):
        raise Failed(
            'The driver {} was installed, but DKMS or dpkg does not have '
            'it.'.format(driver['version'])
        )
    return ['installed the driver {}'.format(driver['version'])]


def is_file_installed(driver: typing.Dict[str, str], stamp: str) -> bool:
    package = read(stamp)
    if package is None:
        return False
    if driver['form'] == 'deb':
        return is_installed(package.decode('ascii'), '')
    # "nvidia/550.144.03: added", "nvidia, 550.144.03, 6.1.0-28-amd64, ...".
    status = call('dkms', 'status', '-m', 'nvidia', '-v', driver['version'])
    return status.returncode == 0 and driver['version'] in status.stdout


def download(url: str, sha256: str, path: str) -> None:
    digest = hashlib.sha256()
    name = url.partition('?')[0].rpartition('/')[2]
    try:
        answer = urllib.request.urlopen(url, timeout=_SECONDS)
        with answer, open(path, 'wb') as file:
            while True:
                data = answer.read(_CHUNK)
                if not data:
                    break
                digest.update(data)
                file.write(data)
    except urllib.error.HTTPError as error:
        raise Failed(
            '{} cannot be downloaded: HTTP {}.'.format(name, error.code)
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise Failed(
            '{} cannot be downloaded: {}.'.format(
                name, getattr(error, 'reason', type(error).__name__)
            )
        ) from None
    if digest.hexdigest() != sha256:
        raise Failed(
            '{} has the SHA-256 {}, not {}: it was not installed.'.format(
                name, digest.hexdigest(), sha256
            )
        )


# Licence and container runtime.


def apply_licence(paths: Lines) -> Changes:
    """Let nvidia-gridd start at boot, and again if its files have changed."""
    unit = 'nvidia-gridd.service'
    digest = hashlib.sha256()
    for path in paths:
        digest.update((read(path) or b'') + b'\0')
    now = digest.hexdigest().encode('ascii')
    stamp = os.path.join(STATE, 'licence')
    if call('systemctl', 'is-enabled', unit).returncode:
        run('systemctl', 'enable', unit)
        yield 'enabled ' + unit
    if read(stamp) != now:
        run('systemctl', 'restart', unit)
        replace(stamp, now)
        yield 'restarted {} for its licence'.format(unit)


def configure_runtime(runtime: str, cdi: bool) -> Changes:
    files = _RUNTIME_FILES[runtime]
    before = [read(path) for path in files]
    options = ['--cdi.enabled'] if cdi else []
    run(
        *('nvidia-ctk', 'runtime', 'configure', '--runtime=' + runtime),
        *('--set-as-default', *options),
    )
    # So that another run repeats a restart that failed.
    pending = os.path.join(STATE, 'restart-' + runtime)
    if [read(path) for path in files] != before:
        replace(pending, b'')
    if os.path.exists(pending):
        # Only if it runs: it reads the files when it starts. Another tool
        # may still install it.
        service = runtime + '.service'
        run('systemctl', 'try-restart', service, fine=(0, _NO_UNIT))
        os.unlink(pending)
        yield 'made nvidia the default runtime of ' + runtime
    # Newer toolkits keep the specification up to date by themselves.
    if cdi and not any(os.path.exists(unit) for unit in _CDI_UNITS):
        yield from generate_cdi()


def generate_cdi() -> Lines:
    # Not in the directory itself, where runtimes would read a half-written
    # one. nvidia-ctk changes a name that does not end in .yaml.
    new = os.path.join(STATE, 'nvidia.yaml')
    try:
        run('nvidia-ctk', 'cdi', 'generate', '--output=' + new)
        content = read(new)
    finally:
        if os.path.exists(new):
            os.unlink(new)
    if not content:
        raise Failed('nvidia-ctk cdi generate wrote no specification.')
    if content == read(_CDI):
        return []
    os.makedirs(os.path.dirname(_CDI), mode=0o755, exist_ok=True)
    replace(_CDI, content)
    return ['wrote ' + _CDI]


def read(path: str) -> typing.Optional[bytes]:
    """The content of a file; None if it does not exist."""
    try:
        with open(path, 'rb') as file:
            return file.read()
    except FileNotFoundError:
        return None


def replace(path: str, content: bytes) -> None:
    with open(path + '.new', 'wb') as file:
        file.write(content)
    os.replace(path + '.new', path)


if __name__ == '__main__':
    sys.exit(main())
