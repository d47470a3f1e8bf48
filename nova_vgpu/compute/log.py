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

"""Log each problem and each failure once.

The plan is made again every minute, and failed operations are tried again. A
problem that persists is not logged again.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import re

from oslo_log import log as logging

from nova_vgpu import values

LOG = logging.getLogger(__name__)

_REQUEST_ID = re.compile('req-[0-9a-f-]{36}')


class ProblemLog:
    """Remembers the logged problems."""

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
            LOG.info('Resolved: %s [%s]', problem.message, problem.code)
        self._said = now


class FailureLog:
    """What failed, and will be tried again."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def say(
        self, what: str, error: object, with_traceback: bool = False
    ) -> None:
        """Log it, unless it failed for the same reason before.

        :param with_traceback: for a failure that nothing foresaw.
        """
        # Each answer of Placement has another id of its request.
        text = _REQUEST_ID.sub('', f'{type(error).__name__}: {error}')
        if self._said.get(what) != text:
            LOG.warning(
                '%s; will try again: %s',
                what,
                error,
                exc_info=with_traceback,
            )
        self._said[what] = text

    def forget(self, what: str) -> None:
        """It worked now."""
        self._said.pop(what, None)

    @contextlib.contextmanager
    def surviving(
        self, what: str, reraise: tuple[type[Exception], ...] = ()
    ) -> Iterator[None]:
        """Something about GPUs that must not fail the node.

        Sysfs, libvirt, Placement, the database and state files are read on
        the way, and each fails in its own way. Servers without a vGPU depend
        on none of that, so whatever it is, it is logged and tried again.

        :param reraise: what has to reach the caller.
        """
        try:
            yield
        except reraise:
            raise
        except Exception as error:
            self.say(what, error, with_traceback=True)
        else:
            self.forget(what)
