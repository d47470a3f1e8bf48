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

"""Servers with GPUs as a template of Heat.

User data may have secrets, such as the token to join a cluster: it is a
hidden parameter, and is not part of the file. A group of servers is a nested
stack, whose template has the user data as it is, with the variable of the
group replaced by a number: so that variable has a name of its own.
"""

import typing

from nova_vgpu.cloud.nodes import documents
from nova_vgpu.cloud.nodes import server_order

FILE = 'gpu-servers.yaml'

# The first version of templates of 2018, which every supported Heat has.
_VERSION = '2018-08-31'
_GROUP = 'gpu_servers'
_USER_DATA = 'user_data'
_INDEX = '%nova_vgpu_index%'


def render(order: server_order.ServersOrder) -> documents.Document:
    """The file: a template that needs no parameters."""
    comments = (
        f'{FILE}: openstack stack create --template {FILE} NAME',
        *server_order.describe(order),
    )
    return documents.Document(
        FILE, documents.dump(comments, [_make_template(order)])
    )


def _make_template(order: server_order.ServersOrder) -> dict[str, typing.Any]:
    index = _choose_index(order)
    return {
        'heat_template_version': _VERSION,
        'description': 'Servers with GPUs.',
        'parameters': {
            'servers': {
                'type': 'number',
                'description': 'Number of servers.',
                'default': order.request.servers,
                'constraints': [{'range': {'min': 0}}],
            },
            _USER_DATA: {
                'type': 'string',
                'description': 'User data of the servers, for cloud-init.',
                'default': '',
                'hidden': True,
            },
        },
        'resources': {
            _GROUP: {
                'type': 'OS::Heat::ResourceGroup',
                'properties': {
                    'count': {'get_param': 'servers'},
                    'index_var': index,
                    'resource_def': _make_server(order, index),
                },
            }
        },
        'outputs': {
            'addresses': {
                'description': 'Addresses of the servers, by networks.',
                'value': {'get_attr': [_GROUP, 'networks']},
            }
        },
    }


def _choose_index(order: server_order.ServersOrder) -> str:
    """What Heat replaces by a number, wherever it is: in no other name."""
    request = order.request
    given = (
        order.found.workers.flavor.nova_name,
        order.found.image.name,
        request.network or '',
        request.key_name or '',
        request.availability_zone or '',
    )
    found = _INDEX
    while any(found in text for text in given):
        found = f'%{found}%'
    return found


def _make_server(
    order: server_order.ServersOrder, index: str
) -> dict[str, typing.Any]:
    request, image = order.request, order.found.image
    properties: dict[str, typing.Any] = {
        'name': f'{request.name}-{index}',
        'flavor': order.found.workers.flavor.nova_name,
        'networks': [{'network': request.network}],
    }
    source = image.name if order.is_image_by_name else image.id
    if request.root_volume_gib is None:
        properties['image'] = source
    else:
        properties['block_device_mapping_v2'] = [
            {
                'image': source,
                'volume_size': request.root_volume_gib,
                'boot_index': 0,
                'delete_on_termination': True,
            }
        ]
    if request.key_name is not None:
        properties['key_name'] = request.key_name
    if request.availability_zone is not None:
        properties['availability_zone'] = request.availability_zone
    properties['user_data_format'] = 'RAW'
    properties['user_data'] = {'get_param': _USER_DATA}
    return {'type': 'OS::Nova::Server', 'properties': properties}
