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

"""How long to retry, and how long to wait in between.

The waits double up to a limit and vary at random, so that the compute nodes of
a cloud do not all retry at the same moment after an outage.
"""

from collections.abc import Callable
import dataclasses
import random
import time


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Times in seconds; tests replace the clock and the sleep.

    ``deadline`` is for one request with all its attempts, ``timeout`` for one
    attempt. ``conflicts`` is the number of retries after a generation
    conflict.
    """

    deadline: float = 60.0
    timeout: float = 30.0
    first_wait: float = 0.5
    longest_wait: float = 8.0
    conflicts: int = 5
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait(self, attempt: int, until: float) -> bool:
        """Wait before the next attempt; False if there is no time for one.

        :param attempt: the number of attempts made so far, from 1.
        :param until: the deadline on the clock.
        """
        longest = min(self.first_wait * 2 ** (attempt - 1), self.longest_wait)
        # Not for cryptography.
        pause = longest * random.uniform(0.5, 1.0)  # noqa: S311
        if self.clock() + pause >= until:
            return False
        self.sleep(pause)
        return True
