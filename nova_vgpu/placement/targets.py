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

"""What Placement is brought to: a plan, or what Nova's own driver wants."""

from collections.abc import Callable
from collections.abc import Sequence
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.publish import decision
from nova_vgpu.publish import hand_back
from nova_vgpu.publish import providers
from nova_vgpu.publish import trait_sync

if typing.TYPE_CHECKING:
    from nova_vgpu.placement import client


def connect(
    config_files: Sequence[str],
    config_dirs: Sequence[str],
    cloud: str | None = None,
) -> 'client.PlacementClient':
    """A client of the Placement that the configuration or a cloud names.

    :raises ConfigFileError: if a file cannot be read at all.
    :raises PlacementError: if it is not said who we are.
    """
    try:
        from nova_vgpu.placement import authentication
    except ImportError as error:
        raise exception.PlacementError(
            'The client of Placement needs more packages: pip install '
            "'nova-vgpu[placement]'"
        ) from error
    from nova_vgpu.conf import sources

    conf, _ = sources.load(
        config_files, config_dirs, authentication.register_opts
    )
    return authentication.connect(conf, cloud)


def diff(
    placement: 'client.PlacementClient', target: providers.Target
) -> values.Difference:
    """Where Placement differs from the target."""
    return decision.decide(target, _read_tree(placement, target))


def sync(
    placement: 'client.PlacementClient',
    target: providers.Target,
    report: Callable[[values.Change], None],
) -> values.Difference:
    """Bring Placement to the target; can be repeated at any time.

    :param report: is told of each change once it is made.
    """
    # Not at the top: not every installation has what it needs.
    from nova_vgpu.placement import synchronisation

    return synchronisation.synchronise(
        placement,
        lambda: _read_tree(placement, target),
        lambda tree: decision.decide(target, tree),
        report,
    )


def _read_tree(
    placement: 'client.PlacementClient', target: providers.Target
) -> values.PlacementTree:
    from nova_vgpu.placement import client

    if target.mode is providers.Mode.HAND_BACK:
        names = hand_back.list_ending(target)
        return placement.read_tree(target.node, consumers_of=names)
    if target.mode is providers.Mode.TRAITS:
        names = trait_sync.list_names_of_interest(target)
        return placement.read_tree(target.node, client.Part.TRAITS, names)
    return placement.read_tree(target.node)
