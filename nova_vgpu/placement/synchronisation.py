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

"""Write what was decided to Placement, again after generation conflicts.

Every write increments the generation of a provider: Nova's, and each
allocation of a server. A write with an old generation is refused. Then
everything is read and decided again, because the decision may be outdated.
"""

from collections.abc import Callable
import logging

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.placement import client
from nova_vgpu.placement import request

LOG = logging.getLogger(__name__)

Read = Callable[[], values.PlacementTree]
Decide = Callable[[values.PlacementTree], values.Difference]
Report = Callable[[values.Change], None]


def synchronise(
    placement: client.PlacementClient,
    read: Read,
    decide: Decide,
    report: Report,
) -> values.Difference:
    """Read, decide and write until there is nothing left to write.

    :param report: is called after each change.
    :returns: the last decision.
    :raises PlacementError: if Placement does not answer, refuses, or if the
        generation conflict persists.
    """
    patience = placement.patience
    refusals = 0
    while True:
        done = 0
        try:
            tree = read()
            decided = decide(tree)
            generations = {p.uuid: p.generation for p in tree.providers}
            for change in decided.changes:
                placement.apply(change, generations)
                report(change)
                done += 1
        except request.Conflict as conflict:
            refusals = 1 if done else refusals + 1
            LOG.debug('reading again: %s', conflict)
            until = patience.clock() + patience.deadline
            if refusals > patience.conflicts or not patience.wait(
                refusals, until
            ):
                raise exception.PlacementError(
                    f'Generation conflict persists after {refusals} attempts. '
                    f'{conflict}'
                ) from conflict
        else:
            return decided
