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

"""Which driver of a guest works with the driver of its host.

The vGPU manager of the host works with guest drivers of its own branch, of the
branch before, and, if it is a long-term support branch, of the one before
that: release notes of NVIDIA vGPU software, "Compatibility Requirements for
the NVIDIA vGPU Manager and Guest VM Driver" (versions 15, 19 and 20). A branch
is the first number of a driver's version.
"""

from collections.abc import Iterator
import dataclasses
import re

from nova_vgpu.guest import facts

#: The branches of NVIDIA vGPU software 13 to 20.
BRANCHES = (470, 510, 525, 535, 550, 570, 580, 595)
_LONG_TERM = (470, 535, 580)

_VERSION = re.compile(r'([0-9]{3})(?:\.[0-9]{1,4}){1,3}')
_IN_NAME = re.compile(
    r'(?<![0-9.])[0-9]{3}(?:\.[0-9]{1,4}){1,3}(?![0-9.]*[0-9])'
)
_BRANCH_IN_NAME = re.compile(r'-([0-9]{3})(?![0-9])')
# As NVIDIA names its files: "NVIDIA-Linux-x86_64-550.144.03-grid.run".
_RUN = re.compile(r'NVIDIA-Linux-[a-z0-9_]+-[0-9.]+?(-grid|-vgpu-kvm)?\.run')
_GRID_PACKAGE = 'nvidia-linux-grid-'


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A driver, and the host that a vGPU comes from."""

    driver: str
    source: str
    version: str | None
    host_driver: str | None
    is_for_vgpu: bool


def parse_branch(version: str) -> int | None:
    """The branch of a version; None if it is not a version."""
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match else None


def find_in_name(source: str) -> str | None:
    """The version in the name of a file; None if there is none."""
    match = _IN_NAME.search(_find_file(source))
    return match[0] if match else None


def find_branch(package: str) -> int | None:
    """The branch in the name of a package, such as nvidia-linux-grid-550."""
    match = _BRANCH_IN_NAME.search(_find_file(package))
    return int(match[1]) if match else None


def fits(guest: int, host: int) -> bool | None:
    """Whether the branch of a guest works with that of its host.

    None if that is not known: one of them is not in the list.
    """
    if guest >= host:
        return guest == host
    if guest not in BRANCHES or host not in BRANCHES:
        return None
    if BRANCHES.index(host) - BRANCHES.index(guest) == 1:
        return True
    return (
        guest in _LONG_TERM
        and host in _LONG_TERM
        and _LONG_TERM.index(host) - _LONG_TERM.index(guest) == 1
    )


def find_problems(choice: Choice) -> Iterator[str]:
    for option, version in (
        ('--driver-version', choice.version),
        ('--host-driver', choice.host_driver),
    ):
        if version is not None and parse_branch(version) is None:
            yield (
                f'{option} {version!r} is not a version, such as 550.144.03.'
            )
    yield from _check_kind(choice)
    if _find_file(choice.source).endswith(('.run', '.deb')) and not (
        choice.version or find_in_name(choice.source)
    ):
        yield (
            'The version of the driver is not in the name of its file. Give '
            '--driver-version.'
        )
    if choice.is_for_vgpu:
        yield from _check_branch(choice)


def _check_kind(choice: Choice) -> Iterator[str]:
    name = _find_file(choice.source)
    run = _RUN.fullmatch(name)
    is_grid = name.startswith(_GRID_PACKAGE) or (run and run[1] == '-grid')
    if run and run[1] == '-vgpu-kvm':
        yield (
            f'{name} is the vGPU manager, which is for hosts. Give the driver '
            'for guests: NVIDIA-Linux-x86_64-VERSION-grid.run.'
        )
    elif run and not is_grid and choice.driver == facts.VGPU_GUEST:
        yield (
            f'{name} is the driver for whole GPUs, which does not work with '
            'a vGPU. Give NVIDIA-Linux-x86_64-VERSION-grid.run.'
        )
    elif is_grid and choice.driver == facts.DATACENTER:
        yield (
            f'{name} is the driver for vGPUs. Give one for whole GPUs, or '
            '--driver vgpu-guest with --licence for a licensed whole GPU.'
        )


def _check_branch(choice: Choice) -> Iterator[str]:
    if choice.host_driver is None:
        yield (
            "The version of the host's driver is not known. Give "
            '--host-driver, or --facts with the facts of a guest on that '
            'host.'
        )
        return
    host = parse_branch(choice.host_driver)
    guest = _find_branch(choice)
    if guest is None or host is None:
        return
    fitting = fits(guest, host)
    if fitting is False:
        yield (
            f'A guest driver of the branch {guest} does not work with the '
            f"host's {choice.host_driver}. Give one of the branch {host}, or "
            'of the branch before.'
        )
    elif fitting is None:
        yield (
            f'Whether a guest driver of the branch {guest} works with the '
            f"host's {choice.host_driver} is not known. Give one of the "
            f'branch {host}.'
        )


def _find_branch(choice: Choice) -> int | None:
    version = choice.version or find_in_name(choice.source)
    if version is not None:
        return parse_branch(version)
    return find_branch(choice.source)


def _find_file(source: str) -> str:
    return source.partition('?')[0].rpartition('/')[2]
