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

"""``VGPUWeigher``, for ``[filter_scheduler]weight_classes`` of Nova.

Nova calls a weigher for each host that passed the filters, and claims the
first candidate of the host with the highest weight. So the weigher also puts
the candidates of each host into the order in which its GPUs are to be taken:
the GPU of a vGPU is chosen by the candidate, and the driver on the host cannot
choose another one.
"""

import typing

import nova.conf
from nova.scheduler import utils
from nova.scheduler import weights
from nova.scheduler.client import report
from oslo_log import log as logging

from nova_vgpu.conf import scheduling
from nova_vgpu.scheduler import answers
from nova_vgpu.scheduler import ordering

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


# Nova has no type hints that mypy could follow.
class VGPUWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """Packs or spreads servers with vGPUs."""

    # With these Nova leaves the weights as they are.
    minval = 0.0
    maxval = 1.0

    def __init__(self) -> None:
        scheduling.register_opts(CONF)
        # All at once: what is invalid prevents the start, and no scheduling.
        self._rules = scheduling.read_rules(CONF)
        self._answers = answers.listen(
            report.SchedulerReportClient, self._rules
        )
        self._is_said = False

    def weight_multiplier(self, host_state: typing.Any) -> float:
        """Replaces Nova's, which is 1 for all hosts."""
        found: float = utils.get_weight_multiplier(
            host_state, scheduling.MULTIPLIER, self._rules.multiplier
        )
        return found

    def _weigh_object(
        self, host_state: typing.Any, _request_spec: object
    ) -> float:
        """Replaces Nova's, which is abstract."""
        if not host_state.allocation_candidates:
            # A rebuild: Placement is not asked, the host is the server's own.
            return ordering.NEUTRAL
        request = self._answers.request
        if request is None:
            self._say_that_nothing_is_known()
            return ordering.NEUTRAL
        return request.weigh(
            host_state.uuid,
            host_state.num_instances,
            host_state.allocation_candidates,
        )

    def _say_that_nothing_is_known(self) -> None:
        if not self._is_said:
            self._is_said = True
            LOG.warning(
                'VGPUWeigher did not see the answer of Placement. All hosts '
                'get the same weight from it. This is logged once.'
            )
