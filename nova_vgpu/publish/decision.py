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

"""What has to change so that Placement holds what it shall.

The one decision for whatever publishes: the driver in Nova's provider
tree, the commands through the client of Placement.
"""

from nova_vgpu import values
from nova_vgpu.publish import full_sync
from nova_vgpu.publish import hand_back
from nova_vgpu.publish import take_over
from nova_vgpu.publish import target as publish_target
from nova_vgpu.publish import trait_sync

Mode = publish_target.Mode


def decide(
    target: publish_target.Target, tree: values.PlacementTree
) -> values.Difference:
    """What to change, in this order, and what must not or cannot be.

    :param tree: with the consumers of the providers concerned, if allocations
        have to move.
    """
    match target.mode:
        case Mode.TRAITS:
            return trait_sync.diff_traits(target.plan, tree)
        case Mode.FULL:
            return full_sync.diff_all(target, tree)
        case Mode.HAND_BACK:
            return hand_back.diff_hand_back(target.plan, target.guests, tree)
        case Mode.DRIVER:
            if take_over.is_needed(target, tree):
                return take_over.diff_take_over(target, tree)
            return full_sync.diff_all(target, tree)
