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

"""What a guest has to get: packages, files and their modes, a driver.

The decisions only, on frozen values: what reads options and files, what
renders user data and what runs in the guest is elsewhere. Every value is
checked here before it goes into a file of the guest.
"""

from collections.abc import Iterator
import dataclasses
import json
import re

from nova_vgpu.guest import device_plugin
from nova_vgpu.guest import driver_versions
from nova_vgpu.guest import facts
from nova_vgpu.guest import licences

#: The image has its driver, or the kernel.
NO_DRIVER = 'none'
DRIVERS = (facts.VGPU_GUEST, facts.DATACENTER, NO_DRIVER)

NO_RUNTIME, DOCKER, CONTAINERD = 'none', 'docker', 'containerd'
RUNTIMES = (NO_RUNTIME, DOCKER, CONTAINERD)

PLAN = '/etc/nova-vgpu-guest/setup.json'
_NOUVEAU = '/etc/modprobe.d/nova-vgpu-guest.conf'
_REPOSITORY = '/etc/apt/sources.list.d/nova-vgpu-guest.sources'
_REPOSITORY_KEY = '/etc/apt/keyrings/nova-vgpu-guest.asc'
_PIN = '/etc/apt/preferences.d/nova-vgpu-guest'
# Debian, Ubuntu and NVIDIA divide a driver into packages with such names. A
# pin only counts for those that have the version.
_DRIVER_PACKAGES = '*nvidia* *cuda* libnv* libxnvctrl*'

_URL = re.compile(
    r'https?://[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?'
    r'(?:/[A-Za-z0-9._~%+=@:,-]+)*/[A-Za-z0-9._~%+-]+\.(run|deb)'
    r'(?:\?[A-Za-z0-9._~%+=&/:-]*)?'
)
_PACKAGE = re.compile(r'[a-z0-9][a-z0-9.+-]{1,100}')
_SHA256 = re.compile(r'[0-9a-f]{64}')
_URI = re.compile(
    r'https?://[A-Za-z0-9][A-Za-z0-9.:-]*(?:/[A-Za-z0-9._~%+-]*)*'
)
_SUITE = re.compile(r'[A-Za-z0-9./][A-Za-z0-9._/-]{0,100}')
_COMPONENT = re.compile(r'[A-Za-z0-9][A-Za-z0-9._/-]{0,100}')
_KEY = re.compile(
    r'\s*-----BEGIN PGP PUBLIC KEY BLOCK-----\n[\n\x20-\x7e]+\n'
    r'-----END PGP PUBLIC KEY BLOCK-----\s*'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. None and () are what nothing is said about."""

    driver: str | None = None
    driver_source: str | None = None
    driver_sha256: str | None = None
    driver_version: str | None = None
    host_driver: str | None = None
    vgpu_type: str | None = None
    repository: str | None = None
    repository_key: str | None = None
    licence_servers: tuple[str, ...] = ()
    licence_token: bytes | None = dataclasses.field(default=None, repr=False)
    licence: str | None = None
    container_runtime: str | None = None
    cdi: bool = False
    gpu_cluster: bool = False
    device_plugin: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Package:
    """A package; ``version`` may end in ``*`` and is '' for any."""

    name: str
    version: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class DriverFile:
    """A driver that is downloaded; ``form`` is run or deb."""

    url: str = dataclasses.field(repr=False)
    sha256: str
    version: str
    form: str


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """A file of the guest, owned by root."""

    path: str
    mode: int
    content: bytes = dataclasses.field(repr=False)
    is_secret: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """Everything that the guest gets."""

    driver: str
    packages: tuple[Package, ...]
    driver_file: DriverFile | None
    runtime: str
    cdi: bool
    files: tuple[File, ...]
    licence_files: tuple[str, ...]

    @property
    def has_secrets(self) -> bool:
        return any(file.is_secret for file in self.files)


def find_problems(request: Request) -> tuple[str, ...]:
    """All that is missing or wrong, each with its cure."""
    return (
        *_check_choices(request),
        *device_plugin.find_problems(
            request.device_plugin, request.gpu_cluster
        ),
        *_check_source(request),
        *_check_repository(request),
        *licences.find_problems(_licence_request(request)),
    )


def decide(request: Request) -> Setup:
    """What the guest gets; the request must not have problems."""
    package, file = _choose_driver(request)
    runtime = choose_runtime(request)
    licence = licences.make_files(_licence_request(request))
    files = [
        *_make_repository(request),
        *_make_pin(package),
        *(File(*each) for each in licence),
    ]
    if request.driver != NO_DRIVER:
        content = b'blacklist nouveau\noptions nouveau modeset=0\n'
        files.append(File(_NOUVEAU, 0o644, content))
    files += _make_device_plugin(request)
    setup = Setup(
        request.driver or NO_DRIVER,
        (*_list_packages(request, runtime), *([package] if package else [])),
        file,
        '' if runtime == NO_RUNTIME else runtime,
        request.cdi,
        tuple(files),
        tuple(path for path, *_ in licence),
    )
    # A URL with a query may be signed: who has it can download the driver.
    is_secret = file is not None and '?' in file.url
    plan = File(PLAN, 0o600, make_plan(setup).encode('ascii'), is_secret)
    return dataclasses.replace(setup, files=(*setup.files, plan))


def make_plan(setup: Setup) -> str:
    """The file that tells the program in the guest what to do."""
    file = setup.driver_file
    plan = {
        'installs_driver': setup.driver != NO_DRIVER,
        'packages': [dataclasses.asdict(each) for each in setup.packages],
        'driver_file': None if file is None else dataclasses.asdict(file),
        'licence_files': setup.licence_files,
        'runtime': setup.runtime,
        'cdi': setup.cdi,
    }
    return f'{json.dumps(plan, indent=2)}\n'


def needs_licence(request: Request) -> bool:
    """Whether a token would be used: one that is not, is not read."""
    return _licence_request(request).is_needed


def choose_runtime(request: Request) -> str:
    """The one that was asked for; nodes of Kubernetes have containerd."""
    if request.container_runtime is None:
        return CONTAINERD if request.gpu_cluster else NO_RUNTIME
    return request.container_runtime


def _list_packages(request: Request, runtime: str) -> Iterator[Package]:
    if request.driver != NO_DRIVER:
        # Also for a .run, which does not bring along what it needs.
        yield from (Package('dkms'), Package('gcc'), Package('make'))
    if runtime != NO_RUNTIME:
        yield Package('nvidia-container-toolkit')


def _choose_driver(
    request: Request,
) -> tuple[Package | None, DriverFile | None]:
    source = request.driver_source
    if request.driver == NO_DRIVER or source is None:
        return None, None
    match = _URL.fullmatch(source)
    if match is None:
        return Package(source, _choose_package_version(request)), None
    return None, DriverFile(
        source,
        request.driver_sha256 or '',
        _find_version(request) or '',
        match[1],
    )


def _choose_package_version(request: Request) -> str:
    """The one that is asked for, else a branch that fits the host."""
    if request.driver_version is not None:
        return f'{request.driver_version}*'
    if request.driver == facts.VGPU_GUEST and request.host_driver is not None:
        branch = driver_versions.find_branch(
            request.driver_source or ''
        ) or driver_versions.parse_branch(request.host_driver)
        return f'{branch}.*'
    return ''


def _find_version(request: Request) -> str | None:
    return request.driver_version or driver_versions.find_in_name(
        request.driver_source or ''
    )


def _make_repository(request: Request) -> Iterator[File]:
    if request.repository is None or request.repository_key is None:
        return
    uri, suite, *components = request.repository.split()
    lines = ['Types: deb', f'URIs: {uri}', f'Suites: {suite}']
    if components:
        lines.append(f'Components: {" ".join(components)}')
    lines.append(f'Signed-By: {_REPOSITORY_KEY}')
    key = f'{request.repository_key.strip()}\n'
    yield File(_REPOSITORY_KEY, 0o644, key.encode('ascii'))
    text = ''.join(f'{line}\n' for line in lines)
    yield File(_REPOSITORY, 0o644, text.encode('ascii'))


def _make_device_plugin(request: Request) -> Iterator[File]:
    image = request.device_plugin
    if image is None or image == device_plugin.NOT_HERE:
        return
    if request.gpu_cluster:
        content = device_plugin.make_manifest(image)
        yield File(device_plugin.MANIFEST, device_plugin.MODE, content)


def _make_pin(package: Package | None) -> Iterator[File]:
    """Keep an upgrade of the guest from leaving the version.

    APT would not choose it for packages that the driver depends on either.
    """
    if package is None or not package.version:
        return
    text = (
        f'Package: {package.name} {_DRIVER_PACKAGES}\n'
        f'Pin: version {package.version}\nPin-Priority: 1001\n'
    )
    yield File(_PIN, 0o644, text.encode('ascii'))


# What can be wrong.


def _check_choices(request: Request) -> Iterator[str]:
    if request.driver is None:
        yield (
            'Which driver is not known. Give --driver, or --facts with the '
            'facts of a guest of this kind.'
        )
    elif request.driver not in DRIVERS:
        yield (
            f'--driver {request.driver!r} cannot be set up: it is not one of '
            f'{", ".join(DRIVERS)}. A guest whose driver is in its kernel '
            'or image needs --driver none.'
        )
    elif request.driver == facts.DATACENTER:
        yield from _check_datacenter(request)
    runtime = request.container_runtime
    if runtime is not None and runtime not in RUNTIMES:
        yield (
            f'--container-runtime {runtime!r} is not one of '
            f'{", ".join(RUNTIMES)}.'
        )
    if request.gpu_cluster and runtime == NO_RUNTIME:
        yield (
            'A node of a GPU cluster needs a container runtime. Give '
            '--container-runtime containerd or docker.'
        )
    if request.cdi and choose_runtime(request) == NO_RUNTIME:
        yield (
            '--cdi is about a container runtime. Give --container-runtime '
            'containerd or docker.'
        )


def _check_datacenter(request: Request) -> Iterator[str]:
    """It would be installed all the same, and the guest not work."""
    if request.vgpu_type is not None:
        yield (
            f'The driver {facts.DATACENTER} does not work with a vGPU, and '
            f'--vgpu-type is {request.vgpu_type!r}. Give --driver '
            f'{facts.VGPU_GUEST}, or leave the type out.'
        )
    if request.licence is not None:
        yield (
            f'The driver {facts.DATACENTER} has no licence, and --licence is '
            f'{request.licence!r}. Give --driver {facts.VGPU_GUEST}, or leave '
            'the licence out.'
        )


def _check_source(request: Request) -> Iterator[str]:
    if request.driver not in (facts.VGPU_GUEST, facts.DATACENTER):
        return
    source = request.driver_source
    if source is None:
        yield (
            f'Where the driver {request.driver} is from is not known. Give '
            '--driver-source: the URL of a .run or .deb, or the name of a '
            'package.'
        )
    elif '/' in source:
        yield from _check_url(request, source)
    elif not _PACKAGE.fullmatch(source):
        yield (
            f'--driver-source {source!r} is neither a URL nor the name of a '
            'package of Debian.'
        )
    yield from driver_versions.find_problems(
        driver_versions.Choice(
            request.driver,
            source or '',
            request.driver_version,
            request.host_driver,
            is_for_vgpu=request.driver == facts.VGPU_GUEST
            and request.licence is None,
        )
    )


def _check_url(request: Request, source: str) -> Iterator[str]:
    # Not the URL itself: it may contain a signature, or a password.
    if not _URL.fullmatch(source):
        yield (
            'The URL of --driver-source is invalid: it has to start with '
            'https:// or http://, to have no user name, and to end in .run '
            'or .deb.'
        )
        return
    if request.driver_sha256 is None:
        yield (
            'The SHA-256 of the driver is not known. Give --driver-sha256, '
            'as sha256sum prints it.'
        )
    elif not _SHA256.fullmatch(request.driver_sha256):
        yield (
            f'--driver-sha256 {request.driver_sha256!r} is not a SHA-256: 64 '
            'digits and letters a to f.'
        )


def _check_repository(request: Request) -> Iterator[str]:
    if request.repository is not None:
        uri, _, rest = request.repository.partition(' ')
        suite, *components = rest.split() or ['']
        if not (
            _URI.fullmatch(uri)
            and _SUITE.fullmatch(suite)
            and all(map(_COMPONENT.fullmatch, components))
            and (components or suite.endswith('/'))
        ):
            # Not the text itself: it may contain a password.
            yield (
                '--repository is not "URI SUITE COMPONENT...", such as '
                '"https://apt.example.org/debian bookworm main", without a '
                'user name.'
            )
        if request.repository_key is None:
            yield (
                'The key of the repository is not known. Give '
                '--repository-key: a file with its public key.'
            )
    key = request.repository_key
    if key is not None and request.repository is None:
        yield (
            '--repository-key is the key of a repository, and there is none. '
            'Give --repository, or leave the key out.'
        )
    # An empty one could not be read, which is said.
    if key and not _KEY.fullmatch(key):
        yield (
            'The file of --repository-key is not an ASCII-armored public key '
            'of PGP. Export it: gpg --armor --export.'
        )


def _licence_request(request: Request) -> licences.LicenceRequest:
    return licences.LicenceRequest(
        has_vgpu_driver=request.driver == facts.VGPU_GUEST,
        may_have_vgpu_driver=request.driver == NO_DRIVER,
        vgpu_type=request.vgpu_type,
        product=request.licence,
        servers=request.licence_servers,
        token=request.licence_token,
        driver_version=_find_version(request) or request.host_driver,
    )
