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

"""The licence of a guest: gridd.conf and the client configuration token.

After NVIDIA's "Virtual GPU Client Licensing User Guide" (14 to 17),
"Configuring a Licensed Client on Linux", and the comments of
gridd.conf.template:

* ``FeatureType`` is 1 for every vGPU; the driver then takes the product that
  its series needs. For a whole GPU it selects the product: 0 is vApps, 2 RTX
  Virtual Workstation, 4 Virtual Compute Server.
* The token is in /etc/nvidia/ClientConfigToken with mode 0744.
* Drivers from branch 525 on take a token only: "All releases in this release
  family are incompatible with all releases of the license server" (release
  notes of 15 and 19).
"""

from collections.abc import Iterator
import dataclasses
import re

from nova_vgpu.guest import driver_versions

_CONFIGURATION = '/etc/nvidia/gridd.conf'
_TOKEN = '/etc/nvidia/ClientConfigToken/client_configuration_token.tok'  # noqa: S105 - a path
_TOKEN_MODE = 0o744
_FIRST_WITHOUT_SERVERS = 525

#: The products of the series of vGPU types, by the last letter of a type.
SERIES = {
    'Q': 'NVIDIA RTX Virtual Workstation',
    'B': 'NVIDIA Virtual PC or RTX Virtual Workstation',
    'A': 'NVIDIA Virtual Applications',
    'C': 'NVIDIA AI Enterprise or Virtual Compute Server',
}
_VGPU_FEATURE = 1
#: The products that a whole GPU can have, and their feature types.
PRODUCTS = {'vapps': 0, 'vws': 2, 'compute': 4}

_TYPE = re.compile(
    r'(?:GRID |NVIDIA )?[A-Za-z0-9][A-Za-z0-9 _+-]{0,40}?'
    r'-(?:[1-9]-)?[0-9]{1,3}([ABCQ])[0-9A-Z]{0,6}'
)
_SERVER = re.compile(r'([A-Za-z0-9][A-Za-z0-9.-]{0,252})(?::([0-9]{1,5}))?')
_DEFAULT_PORT = '7070'
_MOST_SERVERS = 2
# A signed JSON web token, as the licence portal writes it.
_TOKEN_TEXT = re.compile(rb'[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_=-]+){2}\s*')

#: Path, mode, content, and whether it is secret.
LicenceFile = tuple[str, int, bytes, bool]


@dataclasses.dataclass(frozen=True, slots=True)
class LicenceRequest:
    """What is known about the licence of a guest."""

    has_vgpu_driver: bool
    may_have_vgpu_driver: bool
    vgpu_type: str | None
    product: str | None
    servers: tuple[str, ...]
    token: bytes | None = dataclasses.field(repr=False)
    driver_version: str | None

    @property
    def is_needed(self) -> bool:
        """A driver in the image may be for vGPUs: then that is said."""
        return self.has_vgpu_driver or (
            self.may_have_vgpu_driver
            and (self.vgpu_type is not None or self.product is not None)
        )


def find_series(vgpu_type: str) -> str | None:
    """The letter of a type's series; None if it is not a type."""
    match = _TYPE.fullmatch(vgpu_type)
    return match[1] if match else None


def choose_feature_type(product: str | None) -> int:
    """That of a whole GPU with a product, else that of a vGPU."""
    return _VGPU_FEATURE if product is None else PRODUCTS[product]


def make_files(request: LicenceRequest) -> tuple[LicenceFile, ...]:
    if not request.is_needed:
        return ()
    lines = [*_make_addresses(request.servers)]
    lines.append(f'FeatureType={choose_feature_type(request.product)}')
    text = ''.join(f'{line}\n' for line in lines)
    files = [(_CONFIGURATION, 0o644, text.encode('ascii'), False)]
    if request.token is not None:
        files.append((_TOKEN, _TOKEN_MODE, request.token.strip(), True))
    return tuple(files)


def _make_addresses(servers: tuple[str, ...]) -> Iterator[str]:
    for prefix, server in zip(('', 'Backup'), servers, strict=False):
        host, _, port = server.partition(':')
        yield f'{prefix}ServerAddress={host}'
        yield f'{prefix}ServerPort={port or _DEFAULT_PORT}'


def find_problems(request: LicenceRequest) -> Iterator[str]:
    kind, product = request.vgpu_type, request.product
    if kind is not None and find_series(kind) is None:
        yield (
            f'--vgpu-type {kind!r} is not a vGPU type of the series '
            f'{", ".join(SERIES)}, such as A40-8Q.'
        )
    if product is not None and product not in PRODUCTS:
        yield f'--licence {product!r} is not one of {", ".join(PRODUCTS)}.'
    if not request.is_needed:
        return
    if kind is not None and product is not None:
        yield (
            f'--licence {product} is for a whole GPU, and --vgpu-type {kind} '
            'for a vGPU, whose licence follows from its type. Leave one out.'
        )
    if request.token is None and not request.servers:
        yield (
            'Where the licence is from is not known. Give --licence-token: '
            'the file of a client configuration token.'
        )
    if request.token:  # an empty one could not be read, which is said
        yield from _check_token(request)
    yield from _check_servers(request)


def _check_token(request: LicenceRequest) -> Iterator[str]:
    if request.servers:
        yield (
            'Give either a token or licence servers: --licence-token or '
            '--licence-server.'
        )
    # Not a part of the token itself: this is printed.
    if not _TOKEN_TEXT.fullmatch(request.token or b''):
        yield (
            'The file of --licence-token is not a client configuration '
            'token: three parts of letters and digits, separated by dots. '
            'Download it again from the licence server.'
        )


def _check_servers(request: LicenceRequest) -> Iterator[str]:
    for server in request.servers:
        match = _SERVER.fullmatch(server)
        if match is None or int(match[2] or 1) not in range(1, 65536):
            yield f'--licence-server {server!r} is not HOST or HOST:PORT.'
    if len(request.servers) > _MOST_SERVERS:
        yield (
            f'{len(request.servers)} licence servers are given. The driver '
            'takes one and a backup: give --licence-server twice at most.'
        )
    branch = driver_versions.parse_branch(request.driver_version or '')
    if request.servers and branch and branch >= _FIRST_WITHOUT_SERVERS:
        yield (
            f'The driver {request.driver_version} does not know licence '
            'servers by address. Give --licence-token.'
        )
