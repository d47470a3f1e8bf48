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


"""vGPUs of the last run, stored in ``vgpus.json``.

::

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

import dataclasses
import json
import typing
import uuid as uuidlib

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state

FILE = 'vgpus.json'


def read(directory: state.StateDirectory) -> values.VGPURecords:
    """The stored vGPUs; empty if none were stored yet.

    :raises StateDamaged: if the file is invalid.
    :raises StateUnusable: if it cannot be read.
    """
    text = directory.read(FILE)
    if text is None:
        return values.VGPURecords()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise exception.StateDamaged(
            f'{directory.path}/{FILE}: {error}.'
        ) from error
    try:
        return _load(found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise exception.StateDamaged(
            f'{directory.path}/{FILE} has an unknown format.'
        ) from error


def write(
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
    if directory.read(FILE) != text:
        directory.replace(FILE, f'{text}\n')


def _load(found: typing.Any) -> values.VGPURecords:
    return values.VGPURecords(
        {
            str(uuidlib.UUID(uuid)): values.MdevRecord(
                _word(mdev['parent']),
                _word(mdev['type']),
                _word_or_nothing(mdev.get('type_id')),
            )
            for uuid, mdev in found['mdevs'].items()
        },
        {
            str(values.PciAddress.parse(address)): _word(name)
            for address, name in found['functions'].items()
        },
        frozenset(
            str(uuidlib.UUID(_word(uuid)))
            for uuid in found.get('unfinished', ())
        ),
    )


def _word(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(f'{found!r} is not a string')
    return found


def _word_or_nothing(found: object) -> str | None:
    return None if found is None else _word(found)
