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

"""What the agent counts, for monitoring."""

import dataclasses

#: What can become of a step.
OUTCOMES = ('done', 'failed', 'refused')


@dataclasses.dataclass(frozen=True, slots=True)
class Tally:
    """What the agent did since it was started.

    ``steps`` are those of its repairs, by outcome. ``last_round`` is when the
    host was last read, None if it never was.
    """

    rounds: int = 0
    failures: int = 0
    is_failing: bool = False
    last_round: float | None = None
    steps: tuple[tuple[str, int], ...] = ()
