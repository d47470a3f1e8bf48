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

"""What the ids of vGPU types meant when the host was last looked at.

Kept in ``types.json`` in the state directory::

    {
        'format': 1,
        'types': {'nvidia-231': 'GRID T4-2Q', 'nvidia-562': 'NVIDIA A40-8Q'},
    }

Ids are the driver's and not a GPU's: one id means one type on all GPUs of a
host, whatever their model, and the part before the hyphen names the vendor.
So an id is enough of a key. Types without a name are not in there.

``nova-vgpu apply`` and ``nova-vgpu doctor`` write it. All others only read it,
nova-compute too, whose user may not write there.
"""

from collections.abc import Iterable
import dataclasses
import json

from nova_vgpu import exception
from nova_vgpu.host import state

FILE = 'types.json'

#: Ids and names, in the order of the ids.
Names = tuple[tuple[str, str], ...]

_FORMAT = 1
_ASIDE = '.unreadable'


@dataclasses.dataclass(frozen=True, slots=True)
class Recalled:
    """What is remembered, as far as it can be read.

    ``lost`` says why it cannot. ``may_write`` is False if a file is in the
    way that is not to be overwritten.
    """

    names: Names = ()
    lost: str | None = None
    may_write: bool = True


def recall(
    directory: state.StateDirectory, may_put_aside: bool = False
) -> Recalled:
    """Read the names; a file that cannot be read stops nobody.

    :param may_put_aside: whether one that is damaged may be renamed.
    """
    try:
        return Recalled(read(directory))
    except exception.StateDamaged as error:
        if may_put_aside:
            return _put_aside(directory, error)
        return Recalled((), str(error), False)
    except exception.StateUnusable as error:
        return Recalled((), str(error), False)


def read(directory: state.StateDirectory) -> Names:
    """The names that ids had; none if they were never written.

    :raises StateDamaged: if they are not as above. Such a file can be put
        away with :func:`set_aside`.
    :raises StateUnusable: if they cannot be read.
    """
    text = directory.read(FILE)
    if text is None:
        return ()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(directory, f'is no JSON ({error})') from error
    if not isinstance(found, dict) or found.get('format') != _FORMAT:
        raise _damaged(directory, f'is not of format {_FORMAT}')
    types = found.get('types')
    if not isinstance(types, dict) or not all(
        isinstance(name, str) for name in types.values()
    ):
        raise _damaged(directory, 'has no names of types')
    return tuple(sorted(types.items()))


def write(
    directory: state.StateDirectory, names: Iterable[tuple[str, str]]
) -> None:
    """Remember these names, and no others.

    :raises StateUnusable: if that fails.
    """
    found = {'format': _FORMAT, 'types': dict(sorted(names))}
    directory.replace(FILE, json.dumps(found, indent=4) + '\n')


def set_aside(directory: state.StateDirectory) -> str:
    """Put a damaged file out of the way; returns where it is then.

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
    return Recalled((), f'{error} It is now {aside}.')


def _damaged(
    directory: state.StateDirectory, what: str
) -> exception.StateDamaged:
    return exception.StateDamaged(f'{directory.path}/{FILE} {what}.')
