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

"""In which order GPUs and hosts are given to servers."""

from collections.abc import Collection
from collections.abc import Mapping
import dataclasses
import enum


class Order(enum.Enum):
    """What is taken first of several that fit.

    PACK takes what is in use already, so that others stay free. SPREAD takes
    what is used least.
    """

    PACK = 'pack'
    SPREAD = 'spread'


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """One order for all vGPU types, and those of types with another one.

    ``by_name`` has traits that name a type, and resource classes.
    """

    default: Order = Order.PACK
    by_name: Mapping[str, Order] = dataclasses.field(default_factory=dict)

    def find(
        self, type_traits: Collection[str], classes: Collection[str]
    ) -> Order:
        """The order of a GPU's type, of its resource class, or of all."""
        for name in (*sorted(type_traits), *sorted(classes)):
            if name in self.by_name:
                return self.by_name[name]
        return self.default


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulingRules:
    """What an operator wants of the scheduler.

    ``hosts`` is the order of hosts, ``gpus`` that of the GPUs of one host.
    ``multiplier`` is how much the order of hosts counts.
    """

    hosts: Orders = Orders()
    gpus: Orders = Orders()
    plain_servers_avoid_gpus: bool = False
    multiplier: float = 1000.0
