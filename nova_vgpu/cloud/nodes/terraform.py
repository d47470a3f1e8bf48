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

"""Servers with GPUs for Terraform's provider for OpenStack.

User data may have secrets, such as the token to join a cluster: it is a
variable that Terraform does not show, and is not part of the file. The
provider replaces a server whose user data changes: so a change is ignored, as
another token would replace all running nodes.
"""

from nova_vgpu.cloud import names
from nova_vgpu.cloud.nodes import documents
from nova_vgpu.cloud.nodes import hcl
from nova_vgpu.cloud.nodes import server_order

FILE = 'gpu-servers.tf'

_SERVER = 'openstack_compute_instance_v2'
_LABEL = 'gpu'


def render(order: server_order.ServersOrder) -> documents.Document:
    """The file; credentials are those of the environment of Terraform."""
    comments = (
        f'{FILE}: terraform init && terraform apply',
        *server_order.describe(order),
    )
    lines = ''.join(f'# {names.printable(line)}\n' for line in comments)
    blocks = (_require_provider(), _make_variable(), _make_servers(order))
    output = hcl.Block(
        ('output', 'addresses'),
        {'value': hcl.Expression(f'{_SERVER}.{_LABEL}[*].access_ip_v4')},
    )
    return documents.Document(FILE, f'{lines}\n{hcl.dump((*blocks, output))}')


def _require_provider() -> hcl.Block:
    return hcl.Block(
        ('terraform',),
        {},
        (
            hcl.Block(
                ('required_providers',),
                {
                    'openstack': hcl.Expression(
                        '{ source = "terraform-provider-openstack/openstack", '
                        'version = ">= 2.0.0" }'
                    )
                },
            ),
        ),
    )


def _make_variable() -> hcl.Block:
    return hcl.Block(
        ('variable', 'user_data'),
        {
            'type': hcl.Expression('string'),
            'description': 'User data of the servers, for cloud-init.',
            'default': hcl.Expression('null'),
            'sensitive': True,
        },
    )


def _make_servers(order: server_order.ServersOrder) -> hcl.Block:
    request, image = order.request, order.found.image
    body = {
        'count': request.servers,
        'name': hcl.Expression(f'"{request.name}-${{count.index + 1}}"'),
        'flavor_name': order.found.workers.flavor.nova_name,
    }
    blocks = [
        hcl.Block(('network',), {'name': request.network}),
        hcl.Block(
            ('lifecycle',), {'ignore_changes': hcl.Expression('[user_data]')}
        ),
    ]
    if request.root_volume_gib is None:
        key = 'image_name' if order.is_image_by_name else 'image_id'
        body[key] = image.name if order.is_image_by_name else image.id
    else:
        blocks.append(_make_volume(image.id, request.root_volume_gib))
    if request.key_name is not None:
        body['key_pair'] = request.key_name
    if request.availability_zone is not None:
        body['availability_zone'] = request.availability_zone
    body['user_data'] = hcl.Expression('var.user_data')
    return hcl.Block(('resource', _SERVER, _LABEL), body, tuple(blocks))


def _make_volume(image_id: str, gib: int) -> hcl.Block:
    return hcl.Block(
        ('block_device',),
        {
            'uuid': image_id,
            'source_type': 'image',
            'destination_type': 'volume',
            'volume_size': gib,
            'boot_index': 0,
            'delete_on_termination': True,
        },
    )
