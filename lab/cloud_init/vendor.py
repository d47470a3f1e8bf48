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

"""Packages and files that stand in for the vendor's, on loopback.

They have the names, versions and services of the real ones as far as the
set-up of a guest meets them, and no driver.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import hashlib
from http import server
import os
import pathlib
import subprocess
import threading

from nova_vgpu.guest import setup_program

RUN = 'NVIDIA-Linux-x86_64-550.144.03-grid.run'
OLD_RUN = 'NVIDIA-Linux-x86_64-510.108.03-grid.run'
DEB = 'nvidia-driver-local_570.86.10_all.deb'

_UNIT = """\
[Unit]
Description=Stands in for the licence daemon
[Service]
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
"""
_UNIT_PATH = 'lib/systemd/system/nvidia-gridd.service'
_CTK = """\
#!/bin/sh
set -e
case "$1 $2" in
    'runtime configure')
        case "$*" in *--set-as-default*) ;; *) exit 3 ;; esac
        case "$3" in
            --runtime=docker) file=/etc/docker/daemon.json ;;
            --runtime=containerd) file=/etc/containerd/conf.d/99-nvidia.toml ;;
            *) exit 4 ;;
        esac
        mkdir -p "${file%/*}"
        echo "$*" >"$file"
        ;;
    'cdi generate')
        for option; do
            case "$option" in --output=*) file=${option#*=} ;; esac
        done
        # The real one adds an extension that is missing, too.
        case "$file" in *.yaml|*.json) ;; *) file=$file.yaml ;; esac
        echo cdi >"$file"
        ;;
    *) exit 5 ;;
esac
"""
# What NVIDIA's installer does with --dkms, but for building the module.
_INSTALLER = """\
#!/bin/sh
set -e
test "$*" = '--silent --dkms'
version=@VERSION@
mkdir -p "/usr/src/nvidia-$version"
cat >"/usr/src/nvidia-$version/dkms.conf" <<END
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="$version"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/kernel/drivers/video"
AUTOINSTALL="yes"
END
dkms add -m nvidia -v "$version"
cat >/lib/systemd/system/nvidia-gridd.service <<END
@UNIT@END
echo "$version" >>/var/lib/installer-runs
"""


@dataclasses.dataclass(frozen=True)
class Vendor:
    """Where the files are, and the key of the repository."""

    url: str
    key: pathlib.Path
    directory: pathlib.Path

    def sha256(self, name: str) -> str:
        data = (self.directory / name).read_bytes()
        return hashlib.sha256(data).hexdigest()


class _Handler(server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Not to the terminal."""


@contextlib.contextmanager
def serving(directory: pathlib.Path) -> Iterator[Vendor]:
    """Make everything in a directory, and serve it."""
    _make_packages(directory)
    for name in (RUN, OLD_RUN):
        version = name.split('-')[3]
        text = _INSTALLER.replace('@VERSION@', version)
        (directory / name).write_text(text.replace('@UNIT@', _UNIT))
    key = _sign(directory)
    handler = functools.partial(_Handler, directory=str(directory))
    httpd = server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        port = httpd.server_address[1]
        yield Vendor(f'http://127.0.0.1:{port}', key, directory)
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def _make_packages(directory: pathlib.Path) -> None:
    gridd = {_UNIT_PATH: (_UNIT, 0o644)}
    for version in ('535.230.02', '550.127.05', '550.144.03', '570.86.10'):
        _build(directory, 'site-vgpu-driver', version, gridd)
    for version in ('550.144.03-1', '570.86.10-1'):
        _build(directory, 'libnvidia-compute', version, {})
        # Only with the other package in its own version, as the real one.
        same = f'libnvidia-compute (= {version})'
        _build(directory, 'nvidia-driver', version, {}, same)
    _build(directory, 'nvidia-driver-local', '570.86.10', {})
    ctk = {'usr/bin/nvidia-ctk': (_CTK, 0o755)}
    _build(directory, 'nvidia-container-toolkit', '1.17.8-1', ctk)
    release = os.uname().release
    match = setup_program._KERNEL.fullmatch(release)
    for name in {release, match[1] if match else release}:
        _build(directory, f'linux-headers-{name}', '1', {})


def _build(
    directory: pathlib.Path,
    name: str,
    version: str,
    files: dict[str, tuple[str, int]],
    depends: str = '',
) -> None:
    tree = directory / 'tree' / f'{name}_{version}'
    control = (
        f'Package: {name}\nVersion: {version}\nArchitecture: all\n'
        'Maintainer: nova-vgpu <root@localhost>\nDescription: a stand-in\n'
    )
    if depends:
        control += f'Depends: {depends}\n'
    for path, (text, mode) in {
        **files,
        'DEBIAN/control': (control, 0o644),
    }.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        (tree / path).chmod(mode)
    tree.chmod(0o755)
    package = directory / f'{name}_{version}_all.deb'
    _run('dpkg-deb', '--build', '--root-owner-group', str(tree), str(package))
    data = package.read_bytes()
    with open(directory / 'Packages', 'a') as index:
        index.write(
            f'{control}Filename: ./{package.name}\nSize: {len(data)}\n'
            f'SHA256: {hashlib.sha256(data).hexdigest()}\n\n'
        )


def _sign(directory: pathlib.Path) -> pathlib.Path:
    """Sign the index with a new key; gives the file of the public one."""
    index = (directory / 'Packages').read_bytes()
    (directory / 'Release').write_text(
        'Suite: lab\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n'
        f' {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n'
    )
    home = directory / 'gnupg'
    home.mkdir(mode=0o700)
    gpg = ('gpg', '--homedir', str(home), '--batch', '--passphrase', '')
    _run(*gpg, '--quick-generate-key', 'lab', 'rsa3072', 'sign', 'never')
    out = str(directory / 'InRelease')
    _run(*gpg, '--clearsign', '--output', out, str(directory / 'Release'))
    key = directory / 'key.asc'
    _run(*gpg, '--armor', '--output', str(key), '--export', 'lab')
    _run('gpgconf', '--homedir', str(home), '--kill', 'all')
    return key


def _run(*argv: str) -> None:
    subprocess.run(
        argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
