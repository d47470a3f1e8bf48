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

"""Options that are missing or invalid, each by itself.

The limits are those of the programs that read what is rendered: what they
would refuse or misread later is refused here.
"""

from collections.abc import Iterator
import re

from nova_vgpu.cloud import names

#: Replicas in Kubernetes, sizes of volumes in Cluster API's provider, Nova and
#: Cinder, and counts in Magnum are 32-bit integers.
LARGEST_NUMBER = 2**31 - 1
#: In the kinds of Cluster API.
LONGEST_VERSION = 256
#: Names in Nova, Neutron and Magnum.
LONGEST_TEXT = 255

_LABEL = re.compile(r'[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?')
# Semantic versioning 2.0, with numbers that every reader has room for. Cluster
# API refuses leading zeros, too.
_NUMBER = r'(0|[1-9][0-9]{0,8})'
_PRERELEASE = r'(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)'
_BUILD = r'[0-9A-Za-z-]+'
_VERSION = re.compile(
    rf'v{_NUMBER}\.{_NUMBER}\.{_NUMBER}'
    rf'(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?'
)


def find_missing(*needed: tuple[str, str | None, str]) -> Iterator[str]:
    """Options that are needed, with what they are for."""
    for option, value, what in needed:
        if not value:
            yield f'{option} is missing: {what}.'


def find_label_problems(*given: tuple[str, str | None]) -> Iterator[str]:
    """Names that cannot be parts of names in Kubernetes."""
    for option, name in given:
        if name is not None and not _LABEL.fullmatch(name):
            yield refuse(option, name, 'gpu-1 (a-z, 0-9 and hyphens)')


def find_text_problems(*given: tuple[str, str | None]) -> Iterator[str]:
    """Names of other things in the cloud that cannot be names."""
    for option, text in given:
        if text is None:
            continue
        if not text:
            yield f'{option} is empty: give a name, or leave it out.'
        elif len(text) > LONGEST_TEXT:
            yield _refuse_length(option, text, LONGEST_TEXT)
        elif not text.isprintable() or text.strip() != text:
            yield (
                f'{option} {names.printable(text)} is not valid: only '
                'printable characters, and no spaces around them.'
            )


def find_version_problems(option: str, version: str | None) -> Iterator[str]:
    """A version that is not one of Kubernetes."""
    if not version:
        return
    if len(version) > LONGEST_VERSION:
        yield _refuse_length(option, version, LONGEST_VERSION)
    elif not _VERSION.fullmatch(version):
        yield refuse(option, version, 'v1.34.2')


def find_number_problems(
    *given: tuple[str, int | None, int],
) -> Iterator[str]:
    """Numbers that are too small or too large, by their least value."""
    for option, value, least in given:
        if value is None:
            continue
        if value < least:
            yield f'{option} {value} is too small: at least {least}.'
        elif value > LARGEST_NUMBER:
            yield f'{option} {value} is too large: at most {LARGEST_NUMBER}.'


def find_size_problems(
    nodes: int, most_nodes: int | None, root_volume_gib: int | None
) -> Iterator[str]:
    """Numbers of a pool that are too small or too large."""
    return find_number_problems(
        ('--nodes', nodes, 1 if most_nodes is None else 0),
        ('--max-nodes', most_nodes, max(nodes, 1)),
        ('--root-volume', root_volume_gib, 1),
    )


def refuse(option: str, text: str, example: str) -> str:
    return (
        f'{option} {names.printable(text)} is not valid. An example: '
        f'{example}.'
    )


def _refuse_length(option: str, text: str, most: int) -> str:
    return f'{option} has {len(text)} characters: at most {most}.'
