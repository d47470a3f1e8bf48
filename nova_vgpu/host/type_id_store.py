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

"""The names that ids of vGPU types had when the host was last read.

Stored in ``types.json`` in the state directory::

    {
        'format': 1,
        'types': {'nvidia-231': 'GRID T4-2Q', 'nvidia-562': 'NVIDIA A40-8Q'},
    }

Ids belong to the driver and not to a GPU: one id means one type on all GPUs of
a host, whatever their model, and the part before the hyphen names the vendor.
So the id is the key. Types without a name are not stored.

``nova-vgpu apply`` and ``nova-vgpu doctor`` write it. All others only read it,
also nova-compute, whose user may not write there.
"""

from collections.abc import Iterable
import dataclasses
import json

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state

FILE = 'types.json'

_FORMAT = 1
_ASIDE = '.unreadable'


@dataclasses.dataclass(frozen=True, slots=True)
class Recalled:
    """The stored names, if they could be read.

    ``lost`` is the reason why not. ``may_write`` is False if a file exists
    that must not be overwritten.
    """

    names: values.TypeNames = ()
    lost: str | None = None
    may_write: bool = True


def recall(
    directory: state.StateDirectory, may_put_aside: bool = False
) -> Recalled:
    """Read the names; a file that cannot be read is not an error.

    :param may_put_aside: whether a damaged file may be renamed.
    """
    try:
        return Recalled(read(directory))
    except exception.StateDamaged as error:
        if may_put_aside:
            return _put_aside(directory, error)
        return Recalled((), str(error), False)
    except exception.StateUnusable as error:
        return Recalled((), str(error), False)


def read(directory: state.StateDirectory) -> values.TypeNames:
    """The stored names of ids; empty if none were stored yet.

    :raises StateDamaged: if the file is invalid. Such a file can be renamed
        with :func:`set_aside`.
    :raises StateUnusable: if it cannot be read.
    """
    text = directory.read(FILE)
    if text is None:
        return ()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(directory, f'is not JSON ({error})') from error
    if not isinstance(found, dict) or found.get('format') != _FORMAT:
        raise _damaged(directory, f'does not have format {_FORMAT}')
    types = found.get('types')
    if not isinstance(types, dict) or not all(
        isinstance(name, str) for name in types.values()
    ):
        raise _damaged(directory, 'has no names of types')
    return tuple(sorted(types.items()))


def write(
    directory: state.StateDirectory, names: Iterable[tuple[str, str]]
) -> None:
    """Store these names, replacing all others.

    :raises StateUnusable: if that fails.
    """
    found = {'format': _FORMAT, 'types': dict(sorted(names))}
    directory.replace(FILE, json.dumps(found, indent=4) + '\n')


def update(
    directory: state.StateDirectory, names: values.TypeNames
) -> Recalled:
    """Store these names, and keep those of other ids.

    A damaged file is renamed first. One that cannot be read stays.

    :returns: what was there.
    :raises StateUnusable: if it cannot be written.
    """
    stored = recall(directory, may_put_aside=True)
    now = dict(stored.names) | dict(names)
    if stored.may_write and now != dict(stored.names):
        write(directory, now.items())
    return stored


def set_aside(directory: state.StateDirectory) -> str:
    """Rename a damaged file; returns its new path.

    :raises StateUnusable: if that fails.
    """
    return directory.set_aside(FILE, _ASIDE)


def _put_aside(
    directory: state.StateDirectory, error: exception.StateDamaged
) -> Recalled:
    try:
        aside = set_aside(directory)
    except exception.StateUnusable:
        return Recalled((), str(error), False)
    return Recalled((), f'{error} It was renamed to {aside}.')


def _damaged(
    directory: state.StateDirectory, what: str
) -> exception.StateDamaged:
    return exception.StateDamaged(f'{directory.path}/{FILE} {what}.')
