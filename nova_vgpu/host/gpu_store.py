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

"""Declared addresses that were GPUs of this host, in ``gpus.json``.

::

    {'format': 1, 'addresses': ['0000:84:00.0', '0000:85:00.0']}

An address in this file that is missing on the host is a GPU that failed. A
missing address that is not in it is a mistake in the configuration.

``nova-vgpu apply`` writes the file to the state directory. nova-compute, whose
user may not write there, writes its own to its ``state_path``. Both read both.
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
    """The stored addresses; empty if none were stored yet.

    :raises StateUnusable: if the file cannot be read, or is invalid.
    """
    text = directory.read(FILE)
    if text is None:
        return frozenset()
    try:
        found = json.loads(text)
        if found['format'] != _FORMAT:
            raise ValueError(f'its format is not {_FORMAT}')
        return frozenset(
            str(values.PciAddress.parse(address))
            for address in found['addresses']
        )
    except (
        *(ValueError, TypeError, KeyError, AttributeError),
        RecursionError,
    ) as error:
        raise exception.StateDamaged(
            f'{directory.path}/{FILE} is invalid: {error}.'
        ) from error


def write(directory: state.StateDirectory, addresses: frozenset[str]) -> None:
    """Store these addresses, replacing all others.

    :raises StateUnusable: if that fails.
    """
    found = {'format': _FORMAT, 'addresses': sorted(addresses)}
    directory.replace(FILE, json.dumps(found, indent=4) + '\n')
