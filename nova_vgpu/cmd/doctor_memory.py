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

"""What ids of types meant at the last run, for ``nova-vgpu doctor``.

Nothing that goes wrong here keeps the doctor from telling the rest: it becomes
a finding, and the file stays as it is.
"""

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state
from nova_vgpu.host import type_id_store
from nova_vgpu.plan import type_changes

_COMPARE_CURE = (
    'See that the ids in nova.conf mean what they should: "nova-vgpu type '
    'list". Names are safer than ids.'
)


def recall(
    directory: state.StateDirectory,
) -> tuple[type_changes.Names | None, tuple[values.Finding, ...]]:
    """What ids meant; None if that is not known and not to be written."""
    recalled = type_id_store.recall(directory, may_put_aside=True)
    found = () if recalled.lost is None else (_lost(directory, recalled.lost),)
    return recalled.names if recalled.may_write else None, found


def remember(
    directory: state.StateDirectory,
    remembered: type_changes.Names,
    host: values.Host,
    declaration: values.Declaration,
) -> tuple[values.Finding, ...]:
    """Write what ids mean now, if that is anything new."""
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
                'What ids of types mean is not remembered for the next run.',
                (values.Evidence(directory.path, str(error)),),
                'Run the command as root, with room on the disk, or with '
                'another --state-dir.',
            ),
        )
    return ()


def _lost(directory: state.StateDirectory, why: str) -> values.Finding:
    return values.Finding(
        values.Severity.WARNING,
        'type-memory-lost',
        type_id_store.FILE,
        'What ids of types meant at the last run cannot be read: changes '
        'since then are not noticed.',
        (values.Evidence(f'{directory.path}/{type_id_store.FILE}', why),),
        _COMPARE_CURE,
    )
