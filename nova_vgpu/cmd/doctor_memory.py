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

"""The names of type ids at the last run, for ``nova-vgpu doctor``.

A failure here does not stop the doctor: it becomes a finding, and the file is
not changed.
"""

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state
from nova_vgpu.host import type_id_store
from nova_vgpu.plan import type_changes

_COMPARE_CURE = (
    'Check the ids in nova.conf with "nova-vgpu type list". Names are '
    'safer than ids.'
)


def recall(
    directory: state.StateDirectory,
) -> tuple[type_changes.Names | None, tuple[values.Finding, ...]]:
    """The stored names; None if they are unknown and must not be written."""
    recalled = type_id_store.recall(directory, may_put_aside=True)
    found = () if recalled.lost is None else (_lost(directory, recalled.lost),)
    return recalled.names if recalled.may_write else None, found


def remember(
    directory: state.StateDirectory,
    remembered: type_changes.Names,
    host: values.Host,
    declaration: values.Declaration,
) -> tuple[values.Finding, ...]:
    """Store the current names of ids, if they changed."""
    names = type_changes.list_names(remembered, host, declaration)
    if names == remembered:
        return ()
    try:
        type_id_store.write(directory, names)
    except exception.StateUnusable as error:
        return (
            values.Finding(
                values.Severity.NOTE,
                'type-memory-not-written',
                type_id_store.FILE,
                'The names of type ids could not be stored for the next run.',
                (values.Evidence(directory.path, str(error)),),
                'Run the command as root, with free disk space, or with '
                'another --state-dir.',
            ),
        )
    return ()


def _lost(directory: state.StateDirectory, why: str) -> values.Finding:
    return values.Finding(
        values.Severity.WARNING,
        'type-memory-lost',
        type_id_store.FILE,
        'The stored names of type ids cannot be read: changes since the '
        'last run are not detected.',
        (values.Evidence(f'{directory.path}/{type_id_store.FILE}', why),),
        _COMPARE_CURE,
    )
