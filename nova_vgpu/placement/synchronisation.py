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

"""Bring Placement to a target: a plan, or what Nova's own driver wants.

Every write increments the generation of a provider: Nova's, and each
allocation of a server. A write with an old generation is refused. Then
everything is read and decided again, because the decision may be outdated.
"""

from collections.abc import Callable
from collections.abc import Sequence
import logging

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.placement import client
from nova_vgpu.publish import decision
from nova_vgpu.publish import hand_back
from nova_vgpu.publish import providers
from nova_vgpu.publish import trait_sync

LOG = logging.getLogger(__name__)


def connect(
    config_files: Sequence[str],
    config_dirs: Sequence[str],
    cloud: str | None = None,
) -> client.PlacementClient:
    """A client of the Placement that the configuration or a cloud names.

    :raises ConfigFileError: if a file cannot be read at all.
    :raises PlacementError: if credentials are missing or invalid.
    """
    try:
        # Not at the top: not every installation has what it needs.
        from nova_vgpu.placement import connection
    except ImportError as error:
        raise exception.PlacementError(
            'The client of Placement needs more packages: pip install '
            "'nova-vgpu[placement]'"
        ) from error
    from nova_vgpu.conf import sources

    conf, _ = sources.load(config_files, config_dirs, connection.register_opts)
    return connection.connect(conf, cloud)


def diff(
    placement: client.PlacementClient, target: providers.Target
) -> values.Difference:
    """Where Placement differs from the target."""
    return decision.decide(target, _read_tree(placement, target))


def sync(
    placement: client.PlacementClient,
    target: providers.Target,
    report: Callable[[values.Change], None],
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
            tree = _read_tree(placement, target)
            decided = decision.decide(target, tree)
            generations = {p.uuid: p.generation for p in tree.providers}
            for change in decided.changes:
                placement.apply(change, generations)
                report(change)
                done += 1
        except client.Conflict as conflict:
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


def _read_tree(
    placement: client.PlacementClient, target: providers.Target
) -> values.PlacementTree:
    """As much of Placement as the decision needs."""
    if target.mode is providers.Mode.HAND_BACK:
        names = hand_back.list_ending(target)
        return placement.read_tree(target.node, consumers_of=names)
    if target.mode is providers.Mode.TRAITS:
        interest = trait_sync.list_names_of_interest(target)
        return placement.read_tree(target.node, client.Part.TRAITS, interest)
    return placement.read_tree(target.node)
