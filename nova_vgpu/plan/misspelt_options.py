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

"""Mistakes in the configuration files that oslo.config does not report.

oslo.config ignores unknown options, and of two lines for one option it uses
the last one. These are only warnings, because the files are Nova's and contain
options that we do not know.

Not oslo-config-validator: it needs every option of every group in advance, but
ours are in groups named after types, among Nova's options that we do not know.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import re

from nova_vgpu import values
from nova_vgpu.plan import typos

_DEVICES = 'devices'
_DRIVER = 'vgpu.LibvirtVGPUDriver'
_TYPE_PREFIXES = ('vgpu_', 'mdev_')
#: The sample configuration's placeholder for a type's section.
_PLACEHOLDER = 'vgpu_<type>'
#: Distinctive names, which no other project uses.
_DISTINCTIVE = frozenset(
    {'enabled_vgpu_types', 'enabled_mdev_types', 'unlisted_gpus'}
    | {'device_addresses'}
)
#: A line that should have continued the one above it.
_REST_OF_ADDRESS = re.compile(r'[0-9a-f]{1,8}', re.IGNORECASE)
#: Two names of one option: the first one counts.
_ALIASES = (
    ('enabled_vgpu_types', 'enabled_mdev_types'),
    ('resource_class', 'mdev_class'),
)


def find_slips(
    written: Iterable[values.Written],
    device_options: Iterable[str],
    type_options: Iterable[str],
) -> Iterator[values.Problem]:
    """Warnings about lines without effect."""
    names = {
        _DEVICES: (*device_options, 'enabled_mdev_types'),
        'type': (*type_options, 'mdev_class'),
    }
    seen: dict[tuple[str, str], values.Written] = {}
    for entry in written:
        section = entry.section.casefold()
        if section == _PLACEHOLDER:
            continue
        if (section, entry.name) == ('default', 'compute_driver'):
            yield from _check_driver(entry)
            continue
        if section == _DEVICES:
            yield from _check_devices(entry, names[_DEVICES])
        elif section.startswith(_TYPE_PREFIXES):
            yield from _check_type(entry, names['type'])
        elif entry.name in _DISTINCTIVE:
            yield _misplaced(entry)
            continue
        else:
            continue
        if len(entry.values) > 1:
            yield _warning(
                entry,
                'set-twice',
                f'is set {len(entry.values)} times in {entry.file}; only the '
                'last one counts.',
                'Keep one line, or one section of that name.',
            )
        seen[section, entry.name] = entry
    for counts, alias in _ALIASES:
        for (section, name), entry in seen.items():
            if name == alias and (section, counts) in seen:
                yield _warning(
                    entry,
                    'set-twice',
                    f'is not used, because {counts} is set too.',
                    'Keep one of the two.',
                )


def _check_driver(entry: values.Written) -> Iterator[values.Problem]:
    """A mistake here prevents nova-compute from starting."""
    written = entry.values[-1].strip()
    if written != _DRIVER and 'vgpu' in written.casefold():
        yield _warning(
            entry,
            'unknown-driver',
            f'is {written!r}, which Nova does not find.',
            f'Did you mean {_DRIVER}?',
        )


def _check_devices(
    entry: values.Written, known: tuple[str, ...]
) -> Iterator[values.Problem]:
    # Nova may have more options there, so only names similar to ours.
    near = typos.find_nearest(entry.name, known)
    if entry.name not in known and near:
        yield _warning(
            entry,
            'unknown-option',
            'is not an option.',
            f'Did you mean {near}?',
        )


def _check_type(
    entry: values.Written, known: tuple[str, ...]
) -> Iterator[values.Problem]:
    if entry.name in known:
        return
    near = typos.find_nearest(entry.name, known)
    if near:
        cure = f'Did you mean {near}?'
    elif _REST_OF_ADDRESS.fullmatch(entry.name):
        cure = 'Indent the line if it continues the list above it.'
    else:
        cure = f'The options of a type: {", ".join(known)}.'
    yield _warning(entry, 'unknown-option', 'is not an option.', cure)


def _misplaced(entry: values.Written) -> values.Problem:
    belongs = (
        'a section [vgpu_<type>]'
        if entry.name == 'device_addresses'
        else '[devices]'
    )
    return _warning(
        entry,
        'misplaced-option',
        'is not read there.',
        f'Move it to {belongs}.',
    )


def _warning(
    entry: values.Written, code: str, finding: str, cure: str
) -> values.Problem:
    option = f'[{entry.section}]{entry.name}'
    return values.Problem(
        values.Severity.WARNING, code, option, f'{option} {finding}', cure
    )
