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

"""What is wrong, in nova-compute's log, each once.

The plan is made anew every minute, and what failed is tried again; what is
still wrong then was said before.
"""

from collections.abc import Iterable

from oslo_log import log as logging

from nova_vgpu import values

LOG = logging.getLogger(__name__)


class ProblemLog:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._said: frozenset[values.Problem] = frozenset()

    def say(self, problems: Iterable[values.Problem]) -> None:
        """Log what is new, and what is no more."""
        now = frozenset(problems)
        for problem in sorted(now - self._said, key=str):
            say = (
                LOG.warning
                if problem.severity is values.Severity.WARNING
                else LOG.error
            )
            say('%s [%s]', problem, problem.code)
        for problem in sorted(self._said - now, key=str):
            LOG.info('No longer so: %s [%s]', problem.message, problem.code)
        self._said = now


class FailureLog:
    """What failed, and will be tried again."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def say(self, what: str, error: object) -> None:
        if self._said.get(what) != str(error):
            LOG.warning('%s; will try again: %s', what, error)
        self._said[what] = str(error)

    def forget(self, what: str) -> None:
        """It worked now."""
        self._said.pop(what, None)
