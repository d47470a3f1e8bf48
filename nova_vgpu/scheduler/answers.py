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

"""What Placement tells the scheduler, kept for the weigher.

``SchedulerManager.select_destinations`` asks for allocation candidates with
``SchedulerReportClient.get_allocation_candidates``. The answer has summaries
of the providers, with capacity and usage. The manager takes the UUIDs from
them and drops the rest: filters and weighers see candidates only, which do not
tell how full a GPU is. So this module puts a function around that method which
reads the summaries when the answer comes. There is no other request, and the
figures are as new as the candidates.

The statistics of a compute node (``HostState.stats``) are not used. Its driver
fills them once a minute, and they do not have what was claimed since: servers
that are created one shortly after the other would all see the same figures.

The answer is kept for the thread that asked, until the next one: Nova filters
and weighs in that thread. For pinned processors Nova may ask twice, and takes
both answers together.
"""

from collections.abc import Callable
import functools
import threading
import typing

from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.scheduler import inventory
from nova_vgpu.scheduler import request

LOG = logging.getLogger(__name__)

METHOD = 'get_allocation_candidates'
#: Of the function around Nova's, to find what it keeps.
_MARK = 'nova_vgpu_answers'
_EMPTY = inventory.KnownGPUs({})

#: Candidates, summaries, and the version of the API; or None.
Answer = tuple[typing.Any, typing.Any, typing.Any] | None


class Answers:
    """The request that each thread schedules."""

    def __init__(self, rules: values.SchedulingRules) -> None:
        self.rules = rules
        self._of_thread = threading.local()
        self._is_said = False

    @property
    def request(self) -> request.Request | None:
        """The last one of this thread; None if there was none."""
        found: request.Request | None
        found = getattr(self._of_thread, 'request', None)
        return found

    def keep(self, context: object, answer: Answer) -> None:
        """Read an answer, and sort its candidates by GPU."""
        found = self._read(answer)
        local = self._of_thread
        last = self.request
        if last and last.is_new and local.context is context:
            found = inventory.KnownGPUs(
                {**last.found.gpus, **found.gpus},
                (*last.found.unreadable, *found.unreadable),
            )
        local.request = request.Request(found, self.rules)
        local.context = context
        if answer and answer[0] and found.gpus:
            local.request.sort(answer[0])

    def _read(self, answer: Answer) -> inventory.KnownGPUs:
        if not answer or not answer[0] or not isinstance(answer[1], dict):
            return _EMPTY
        candidates, summaries, _ = answer
        if not self.rules.plain_servers_avoid_gpus and not (
            inventory.has_nested(candidates, summaries)
        ):
            return _EMPTY
        found = inventory.read(summaries)
        if found.unreadable and not self._is_said:
            self._is_said = True
            LOG.warning(
                'Cannot read the inventories of %(number)d providers in an '
                'answer of Placement, for example of %(uuid)s. Their hosts '
                'get the neutral weight from VGPUWeigher. See openstack '
                'resource provider inventory list %(uuid)s. This is logged '
                'once.',
                {'number': len(found.unreadable), 'uuid': found.unreadable[0]},
            )
        return found


def listen(client: typing.Any, rules: values.SchedulingRules) -> Answers:
    """Keep what a class of Nova's clients is answered from now on.

    If that is done already, only the rules are replaced.
    """
    ask: Callable[..., Answer] = getattr(client, METHOD)
    known: Answers | None = getattr(ask, _MARK, None)
    if known is not None:
        known.rules = rules
        return known
    answers = Answers(rules)

    @functools.wraps(ask)
    def ask_and_keep(
        report_client: object, context: object, *args: object, **kwargs: object
    ) -> Answer:
        answer = ask(report_client, context, *args, **kwargs)
        answers.keep(context, answer)
        return answer

    setattr(ask_and_keep, _MARK, answers)
    setattr(client, METHOD, ask_and_keep)
    return answers
