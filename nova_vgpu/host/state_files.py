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

"""What is stored about this host, in files of the state directory.

``gpus.json`` has the declared addresses that were GPUs of this host::

    {'format': 1, 'addresses': ['0000:84:00.0', '0000:85:00.0']}

An address in this file that is missing on the host is a GPU that failed. A
missing address that is not in it is a mistake in the configuration.
``nova-vgpu apply`` writes the file to the state directory. nova-compute, whose
user may not write there, writes its own to its ``state_path``. Both read both.

``types.json`` has the names that ids of vGPU types had when the host was last
read::

    {
        'format': 1,
        'types': {'nvidia-231': 'GRID T4-2Q', 'nvidia-562': 'NVIDIA A40-8Q'},
    }

Ids belong to the driver and not to a GPU: one id means one type on all GPUs of
a host, whatever their model, and the part before the hyphen names the vendor.
So the id is the key. Types without a name are not stored. ``nova-vgpu apply``
and ``nova-vgpu doctor`` write it. All others only read it, also nova-compute,
whose user may not write there.

``vgpus.json`` has the vGPUs of the last run::

    {
        'mdevs': {
            '<UUID>': {
                'parent': '<its function>',
                'type': '<name of its type>',
                'type_id': '<id that the type had, or null>',
            }
        },
        'functions': {'<address>': '<name of its type>'},
        'unfinished': ['<UUID of one of the mdevs>'],
    }

Files of older releases have no ``type_id`` and no ``unfinished``; those
releases ignore both.
"""

from collections.abc import Callable
from collections.abc import Iterable
import dataclasses
import json
import typing
import uuid as uuidlib

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state

GPUS_FILE = 'gpus.json'
TYPES_FILE = 'types.json'
VGPUS_FILE = 'vgpus.json'
#: nova-compute's directory for its own file, below ``state_path``.
NOVA_DIRECTORY = 'nova-vgpu'

_FORMAT = 1
_ASIDE = '.unreadable'

_Content = typing.TypeVar('_Content')


def recall(
    configuration: values.Configuration, own: str, others: Iterable[str] = ()
) -> values.Configuration:
    """The configuration with what is stored: names of types, and GPUs.

    Nothing is changed. A file that cannot be read is a problem of the
    configuration and stops nothing.

    :param own: the state directory of the commands.
    :param others: more directories that tell which GPUs were here, such as
        that of nova-compute.
    """
    problems = [*configuration.problems]
    types = recall_types(state.StateDirectory(own))
    if types.lost is not None:
        problems.append(_types_lost(types.lost))
    seen = set(configuration.seen)
    for path in (own, *others):
        try:
            seen |= read_gpus(state.StateDirectory(path))
        except exception.StateUnusable as error:
            problems.append(_gpus_lost(error))
    return dataclasses.replace(
        configuration,
        problems=tuple(problems),
        type_names=types.names,
        seen=frozenset(seen),
    )


def _types_lost(why: str) -> values.Problem:
    return values.Problem(
        values.Severity.WARNING,
        'type-memory-lost',
        TYPES_FILE,
        f'The stored names of type ids cannot be read: {why}',
        'Declare types by name, or check the ids in nova.conf with '
        '"nova-vgpu type list". Then run "nova-vgpu doctor" as root, which '
        'renames a damaged file.',
    )


def _gpus_lost(why: exception.StateUnusable) -> values.Problem:
    return values.Problem(
        values.Severity.WARNING,
        'gpu-memory-lost',
        GPUS_FILE,
        f'The stored addresses of GPUs cannot be read: {why}',
        'Make the file readable, or delete it: "nova-vgpu apply" and '
        'nova-compute write it again.',
    )


def _read(
    directory: state.StateDirectory,
    name: str,
    parse: Callable[[typing.Any], _Content],
    missing: _Content,
) -> _Content:
    """What a file has, or what is returned if it does not exist.

    :raises StateDamaged: if the file is invalid.
    :raises StateUnusable: if it cannot be read.
    """
    text = directory.read(name)
    if text is None:
        return missing
    path = f'{directory.path}/{name}'
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise exception.StateDamaged(
            f'{path} is not JSON: {error}.'
        ) from error
    try:
        return parse(found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise exception.StateDamaged(
            f'{path} has an unknown format.'
        ) from error


def _parse_text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(f'{found!r} is not a string')
    return found


def _require_format(found: typing.Any) -> None:
    if found['format'] != _FORMAT:
        raise ValueError(f'its format is not {_FORMAT}')


# -- GPUs -------------------------------------------------------------------


def read_gpus(directory: state.StateDirectory) -> frozenset[str]:
    """The stored addresses; empty if none were stored yet.

    :raises StateUnusable: if the file cannot be read, or is invalid.
    """
    return _read(directory, GPUS_FILE, _parse_gpus, frozenset())


def write_gpus(
    directory: state.StateDirectory, addresses: frozenset[str]
) -> None:
    """Store these addresses, replacing all others.

    :raises StateUnusable: if that fails.
    """
    found = {'format': _FORMAT, 'addresses': sorted(addresses)}
    directory.replace(GPUS_FILE, json.dumps(found, indent=4) + '\n')


def _parse_gpus(found: typing.Any) -> frozenset[str]:
    _require_format(found)
    return frozenset(
        str(values.PciAddress.parse(address)) for address in found['addresses']
    )


# -- names of types ---------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class RecalledTypes:
    """The stored names, if they could be read.

    ``lost`` is the reason why not. ``may_write`` is False if a file exists
    that must not be overwritten.
    """

    names: values.TypeNames = ()
    lost: str | None = None
    may_write: bool = True


def recall_types(
    directory: state.StateDirectory, may_put_aside: bool = False
) -> RecalledTypes:
    """Read the names; a file that cannot be read is not an error.

    :param may_put_aside: whether a damaged file may be renamed.
    """
    try:
        return RecalledTypes(_read(directory, TYPES_FILE, _parse_types, ()))
    except exception.StateUnusable as error:
        lost = str(error)
        is_damaged = isinstance(error, exception.StateDamaged)
    if not (is_damaged and may_put_aside):
        return RecalledTypes((), lost, False)
    try:
        aside = directory.set_aside(TYPES_FILE, _ASIDE)
    except exception.StateUnusable:
        return RecalledTypes((), lost, False)
    return RecalledTypes((), f'{lost} It was renamed to {aside}.')


def update_types(
    directory: state.StateDirectory, names: values.TypeNames
) -> RecalledTypes:
    """Store these names, and keep those of other ids.

    A damaged file is renamed first. One that cannot be read stays.

    :returns: what was there.
    :raises StateUnusable: if it cannot be written.
    """
    stored = recall_types(directory, may_put_aside=True)
    now = dict(stored.names) | dict(names)
    if stored.may_write and now != dict(stored.names):
        found = {'format': _FORMAT, 'types': dict(sorted(now.items()))}
        directory.replace(TYPES_FILE, json.dumps(found, indent=4) + '\n')
    return stored


def _parse_types(found: typing.Any) -> values.TypeNames:
    _require_format(found)
    return tuple(
        (type_id, _parse_text(name))
        for type_id, name in sorted(found['types'].items())
    )


# -- vGPUs ------------------------------------------------------------------


def read_vgpus(directory: state.StateDirectory) -> values.VGPURecords:
    """The stored vGPUs; empty if none were stored yet.

    :raises StateDamaged: if the file is invalid.
    :raises StateUnusable: if it cannot be read.
    """
    return _read(directory, VGPUS_FILE, _parse_vgpus, values.VGPURecords())


def write_vgpus(
    directory: state.StateDirectory, records: values.VGPURecords
) -> None:
    """Replace the stored vGPUs; nothing is written if nothing changed.

    :raises StateUnusable: if it cannot be written.
    """
    text = json.dumps(
        {
            'mdevs': {
                uuid: dataclasses.asdict(mdev)
                for uuid, mdev in records.mdevs.items()
            },
            'functions': dict(records.functions),
            'unfinished': sorted(records.unfinished),
        },
        indent=1,
        sort_keys=True,
    )
    if directory.read(VGPUS_FILE) != text:
        directory.replace(VGPUS_FILE, f'{text}\n')


def _parse_vgpus(found: typing.Any) -> values.VGPURecords:
    return values.VGPURecords(
        {
            str(uuidlib.UUID(uuid)): values.MdevRecord(
                _parse_text(mdev['parent']),
                _parse_text(mdev['type']),
                None
                if mdev.get('type_id') is None
                else _parse_text(mdev['type_id']),
            )
            for uuid, mdev in found['mdevs'].items()
        },
        {
            str(values.PciAddress.parse(address)): _parse_text(name)
            for address, name in found['functions'].items()
        },
        frozenset(
            str(uuidlib.UUID(_parse_text(uuid)))
            for uuid in found.get('unfinished', ())
        ),
    )
