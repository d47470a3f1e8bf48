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

"""Many GPUs for the cloud of the browser.

Placement gets them in few requests, so that this does not take longer than the
walk. The hosts are unknown to Nova: the pages do not ask it about them.
"""

import dataclasses
import typing

from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import scene

#: It would be a part of the page, and of the template that AngularJS sees.
ATTACK = (
    'zone-<img src=x onerror="window.attacked=1">'
    "{$constructor.constructor('window.attacked=1')()$}"
)
LONG = 'compute-with-a-long-name.rack-17.site-north.research.cloud.example.com'
MODELS = (
    ('A40', 'A40_8Q', '8G', 6),
    ('L40S', 'L40S_24Q', '24G', 2),
    ('T4', 'T4_2Q', '2G', 8),
    ('A16', 'A16_4Q', '4G', 4),
)


def make_gpus(hosts: typing.Sequence[str], each: int) -> list[scene.GPU]:
    """GPUs of several models, some used and every 17th fenced."""
    found: list[scene.GPU] = []
    for number, host in enumerate(hosts):
        model = MODELS[number % len(MODELS)]
        for slot in range(each):
            count = len(found)
            used = count % (model[3] + 1)
            found.append(
                scene.GPU(
                    *(host, f'pci_0000_{0x41 + slot:02x}_00_0', *model),
                    reserved=0 if count % 17 else model[3] - used,
                    used=tuple(
                        scene.uuid_of(f'{host} {slot} {consumer}')
                        for consumer in range(used)
                    ),
                )
            )
    return found


def add_gpus(
    placement: filling.Placement, gpus: typing.Sequence[scene.GPU]
) -> None:
    for trait in sorted({trait for gpu in gpus for trait in gpu.traits}):
        if trait.startswith('CUSTOM_'):
            placement.call('PUT', f'/traits/{trait}')
    for host in sorted({gpu.host for gpu in gpus}):
        stock = {'MEMORY_MB': {'total': scene.MEMORY}}
        _create(placement, host, None, stock, ())
    for gpu in gpus:
        unfenced = dataclasses.replace(gpu, reserved=0)
        root = scene.uuid_of(gpu.host)
        _create(placement, gpu.name, root, _stock(unfenced), gpu.traits)
    placement.call('POST', '/allocations', _allocate(gpus))
    for gpu in gpus:
        if gpu.reserved:
            placement.set(gpu.uuid, 'inventories', _stock(gpu))


def _create(
    placement: filling.Placement,
    name: str,
    parent: str | None,
    stock: dict[str, typing.Any],
    traits: tuple[str, ...],
) -> None:
    uuid = scene.uuid_of(name)
    placement.create(name, uuid, parent)
    path = f'/resource_providers/{uuid}'
    body = {'resource_provider_generation': 0, 'inventories': stock}
    made = placement.call('PUT', f'{path}/inventories', body)
    generation = made['resource_provider_generation']
    body = {'resource_provider_generation': generation, 'traits': list(traits)}
    placement.call('PUT', f'{path}/traits', body)


def _stock(gpu: scene.GPU) -> dict[str, typing.Any]:
    fields = {'total': gpu.total, 'reserved': gpu.reserved}
    return {gpu.resource_class: fields}


def _allocate(gpus: typing.Sequence[scene.GPU]) -> dict[str, typing.Any]:
    return {
        consumer: {
            'allocations': {gpu.uuid: {'resources': {gpu.resource_class: 1}}},
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
            'project_id': accounts.PROJECTS['research'],
            'user_id': 'user',
        }
        for gpu in gpus
        for consumer in gpu.used
    }
