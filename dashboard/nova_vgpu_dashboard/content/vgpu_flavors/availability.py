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

"""What is available, as far as the user may know.

Placement tells only administrators which GPUs there are. It tells every member
of a project what the project uses, and Keystone its limits. So an ordinary
user learns whether the limits of the project allow one more server, and
nothing about other projects. Each service is asked with the user's token and
decides by itself. What it does not tell is not shown.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import logging

from django import http

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import vgpu_requests
from nova_vgpu.cloud.orders import whole_gpu_order
from nova_vgpu.cloud.usage import allowance

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """``gpus`` is None if they are not told, ``failure`` says why not.

    Without a failure Placement has refused.
    """

    gpus: tuple[fleet.GPU, ...] | None = None
    failure: str | None = None
    allowances: Mapping[str, allowance.Allowance] = dataclasses.field(
        default_factory=dict
    )

    def count_free(self, flavor: flavors.Flavor) -> int | None:
        """The free vGPUs and GPUs that servers of a flavor can get."""
        if self.gpus is None:
            return None
        classes = vgpu_requests.list_classes(self.gpus)
        requests = vgpu_requests.list_requests(flavor, classes)
        whole = {
            of.resource_class for of in whole_gpu_order.list_devices(flavor)
        }
        return sum(
            stock.free
            for gpu in self.gpus
            for stock in gpu.stocks
            if stock.resource_class in whole
            or _is_asked_for(gpu, stock, requests)
        )

    def is_over_limit(self, flavor: flavors.Flavor) -> bool:
        """Whether the limits do not allow one more server of a flavor."""
        amounts = count_classes(flavor)
        return any(
            self.allowances[name].is_exceeded_by(amount)
            for name, amount in amounts.items()
            if name in self.allowances
        )


UNKNOWN = Known()


def _is_asked_for(
    gpu: fleet.GPU,
    stock: fleet.Stock,
    requests: Sequence[vgpu_requests.VGPURequest],
) -> bool:
    return any(
        request.resource_class == stock.resource_class
        and request.is_served_by(gpu)
        for request in requests
    )


def count_classes(flavor: flavors.Flavor) -> dict[str, int]:
    """The vGPUs of a flavor by their resource classes.

    Whole GPUs are not among them: Nova has no limits for these.
    """
    found: dict[str, int] = {}
    for request in vgpu_requests.list_requests(flavor, frozenset()):
        name = request.resource_class
        found[name] = found.get(name, 0) + request.vgpus
    return found


def read(request: http.HttpRequest, cloud: reader.Cloud) -> Known:
    """What the services tell the user of a request."""
    allowances = _read_allowances(request, cloud)
    try:
        return Known(cloud.list_every_gpu(), allowances=allowances)
    except exception.PlacementForbidden:
        return Known(allowances=allowances)
    except exception.NovaVGPUError as error:
        return Known(failure=str(error), allowances=allowances)


def _read_allowances(
    request: http.HttpRequest, cloud: reader.Cloud
) -> dict[str, allowance.Allowance]:
    """Empty if one of the services does not tell."""
    scope = allowance.Scope(
        request.user.project_id,
        _find_nova(request),
        request.user.services_region,
    )
    try:
        return allowance.combine(
            allowance.read_usage(cloud.services, scope.project),
            allowance.read_limits(cloud.services, scope),
        )
    except exception.NovaVGPUError as error:
        LOG.warning('Limits of project %s: %s', scope.project, error)
        return {}


def _find_nova(request: http.HttpRequest) -> str:
    """The id of Nova in Keystone, by the catalog of the user."""
    for service in request.user.service_catalog:
        if service['type'] == 'compute':
            return str(service.get('id', ''))
    return ''
