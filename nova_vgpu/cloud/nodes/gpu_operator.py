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

"""Values for the chart of NVIDIA's GPU operator.

Only what differs from the chart's own values, and what a reader looks for.
"""

import typing

from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import registration


def make_values(order: node_order.ClusterOrder) -> dict[str, typing.Any]:
    """The values, for the chart of version 25.10 or newer.

    Older ones do not know the Secret of the licence.
    """
    found: dict[str, typing.Any] = {
        'driver': _make_driver(order.request.driver),
        'toolkit': {'enabled': True},
        'devicePlugin': {'enabled': True},
        # These are for hosts that share GPUs, not for guests that have them.
        'sandboxWorkloads': {'enabled': False},
        'vgpuManager': {'enabled': False},
    }
    control = order.found.control_plane
    if control is not None and control.gpus.count:
        # The chart tolerates the first one only.
        keys = (registration.RESOURCE, registration.CONTROL_PLANE_KEY)
        found['daemonsets'] = {
            'tolerations': [
                {'key': key, 'operator': 'Exists', 'effect': 'NoSchedule'}
                for key in keys
            ]
        }
    return found


def _make_driver(
    driver: node_request.DriverRequest,
) -> dict[str, typing.Any]:
    found: dict[str, typing.Any] = {'enabled': not driver.is_in_image}
    parts = node_request.parse_reference(driver.image or '')
    if parts is not None:
        found |= {
            'repository': parts.repository,
            'image': parts.image,
            'version': parts.version,
        }
    if driver.pull_secret is not None:
        found['imagePullSecrets'] = [driver.pull_secret]
    if driver.licence_secret is not None:
        found['licensingConfig'] = {
            'secretName': driver.licence_secret,
            'nlsEnabled': True,
        }
    return found
