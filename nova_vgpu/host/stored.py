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

"""What is stored about this host and belongs to its configuration.

What ids of types meant so far (:mod:`nova_vgpu.host.type_id_store`) and which
GPUs were here (:mod:`nova_vgpu.host.gpu_store`). Nothing is changed here. A
file that cannot be read is a problem of the configuration and stops nothing.
"""

from collections.abc import Iterable
import dataclasses

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import gpu_store
from nova_vgpu.host import state
from nova_vgpu.host import type_id_store


def recall(
    configuration: values.Configuration, own: str, others: Iterable[str] = ()
) -> values.Configuration:
    """The configuration with what is stored.

    :param own: the state directory of the commands.
    :param others: more directories that tell which GPUs were here, such as
        that of nova-compute.
    """
    problems = [*configuration.problems]
    types = type_id_store.recall(state.StateDirectory(own))
    if types.lost is not None:
        problems.append(_types_lost(types.lost))
    seen = set(configuration.seen)
    for path in (own, *others):
        try:
            seen |= gpu_store.read(state.StateDirectory(path))
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
        type_id_store.FILE,
        f'The stored names of type ids cannot be read: {why}',
        'Declare types by name, or check the ids in nova.conf with '
        '"nova-vgpu type list". Then run "nova-vgpu doctor" as root, which '
        'renames a damaged file.',
    )


def _gpus_lost(why: exception.StateUnusable) -> values.Problem:
    return values.Problem(
        values.Severity.WARNING,
        'gpu-memory-lost',
        gpu_store.FILE,
        f'The stored addresses of GPUs cannot be read: {why}',
        'Make the file readable, or delete it: "nova-vgpu apply" and '
        'nova-compute write it again.',
    )
