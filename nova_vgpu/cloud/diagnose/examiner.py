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

"""Reads what the doctor of a cloud is given."""

from collections.abc import Sequence
import dataclasses

from nova_vgpu.cloud import names
from nova_vgpu.cloud import reader
from nova_vgpu.cloud import service_errors
from nova_vgpu.cloud import services
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.gpus import fleet

# The first with UUIDs of compute nodes, which are those of their providers.
_NODES_VERSION = '2.53'
_MOST = '1000'


def examine(cloud: reader.Cloud) -> examination.Examination:
    """Read everything; the number of requests does not grow with servers.

    :raises PlacementError: if Placement refuses or does not answer.
    :raises CloudError: if Nova or Keystone do.
    """
    asked = cloud.services
    examined = examine_gpus(cloud, cloud.list_every_gpu())
    found = asked.ask_keystone('list services', '/services', type='compute')
    of_nova = frozenset(service['id'] for service in found['services'])
    endpoints = asked.ask_keystone('list endpoints', '/endpoints')
    return dataclasses.replace(
        examined,
        limits=list_limits(asked),
        services=of_nova,
        regions=frozenset(
            endpoint['region_id']
            for endpoint in endpoints['endpoints']
            if endpoint['service_id'] in of_nova
        ),
        region=find_region(asked),
    )


def examine_gpus(
    cloud: reader.Cloud, gpus: Sequence[fleet.GPU]
) -> examination.Examination:
    """The same without limits: Keystone is not asked.

    Nova is asked for all flavors and all compute nodes, 1,000 of them with
    each request.

    :param gpus: every GPU of the cloud.
    :raises CloudError: if Nova refuses or does not answer.
    """
    return dataclasses.replace(
        examination.of_gpus(gpus, cloud.list_flavors()),
        nodes=list_nodes(cloud.services),
    )


def find_region(asked: services.Services) -> str | None:
    """The region of the Nova that is asked.

    None if its endpoint was given by hand, without a region.
    """
    compute = asked.connection.compute
    if compute.region_name:
        return str(compute.region_name)
    with service_errors.explain('Nova', 'list its versions'):
        found = compute.get_endpoint_data()
    return found.region_name if found else None


def list_nodes(asked: services.Services) -> frozenset[str]:
    """The names of Nova's compute nodes, page by page.

    Nova leaves some nodes out of a page after it has counted them, so a page
    can be short, and without a link, and not be the last one.
    """
    found: set[str] = set()
    query = {'limit': _MOST}
    while True:
        answer = asked.ask_nova(
            'list hypervisors', '/os-hypervisors', _NODES_VERSION, **query
        )
        page = answer['hypervisors']
        if not page:
            return frozenset(found)
        found.update(
            names.printable(node['hypervisor_hostname']) for node in page
        )
        query['marker'] = page[-1]['id']


def list_limits(
    asked: services.Services,
) -> tuple[examination.Limit, ...]:
    """The limits that are registered in Keystone."""
    answer = asked.ask_keystone('list registered limits', '/registered_limits')
    return tuple(
        examination.Limit(
            names.printable(limit['resource_name']),
            limit['default_limit'],
            limit['service_id'],
            limit['region_id'],
        )
        for limit in answer['registered_limits']
    )
