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

"""Which declared addresses were those of GPUs of this host, in ``gpus.json``.

::

    {'format': 1, 'addresses': ['0000:84:00.0', '0000:85:00.0']}

An address in there that is gone is a GPU that failed. One that never was in
there is a mistake in the configuration.

``nova-vgpu apply`` keeps the file in the state directory. nova-compute, whose
user may not write there, keeps one of its own in its ``state_path``. Each
reads both.
"""

import json

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state

FILE = 'gpus.json'
#: nova-compute's directory for it, below ``state_path``.
DIRECTORY = 'nova-vgpu'

_FORMAT = 1


def read(directory: state.StateDirectory) -> frozenset[str]:
    """The addresses; none if they were never written.

    :raises StateUnusable: if they cannot be read, or are not as above.
    """
    text = directory.read(FILE)
    if text is None:
        return frozenset()
    try:
        found = json.loads(text)
        if found['format'] != _FORMAT:
            raise ValueError(f'it is not of format {_FORMAT}')
        return frozenset(
            str(values.PciAddress.parse(address))
            for address in found['addresses']
        )
    except (
        *(ValueError, TypeError, KeyError, AttributeError),
        RecursionError,
    ) as error:
        raise exception.StateDamaged(
            f'{directory.path}/{FILE} makes no sense: {error}.'
        ) from error


def write(directory: state.StateDirectory, addresses: frozenset[str]) -> None:
    """Remember these addresses, and no others.

    :raises StateUnusable: if that fails.
    """
    found = {'format': _FORMAT, 'addresses': sorted(addresses)}
    directory.replace(FILE, json.dumps(found, indent=4) + '\n')
