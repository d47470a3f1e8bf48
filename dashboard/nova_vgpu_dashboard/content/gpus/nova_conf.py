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

"""The lines of nova.conf that declare a GPU as Placement has it.

They have the form of those that ``nova-vgpu config generate`` writes on the
host, for a whole GPU with ``--passthrough``. A provider that does not have the
traits of exactly one type may be that of Nova's own driver, and then these
lines would be guesses.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.conf import opts
from nova_vgpu.generate import ini

_USUAL_CLASS = 'VGPU'
# Nova adds traits that begin with these.
_OF_NOVA = ('COMPUTE_', 'OWNER_')


def write(gpu: fleet.GPU) -> tuple[str, ...]:
    """The lines; none if they cannot be known."""
    if whole_gpu_fleet.is_gpu(gpu):
        return tuple(_write_whole(gpu))
    device, share = values.split_device(gpu.device)
    parsed = values.PciAddress.parse_node_device_name(device)
    if parsed is None or len(gpu.facts.types) != 1:
        return ()
    entry = f'{gpu.address}={gpu.total}' if share else gpu.address
    return tuple(_write(gpu, gpu.facts.types[0], entry))


def _write(gpu: fleet.GPU, name: str, entry: str) -> Iterator[str]:
    yield f'[{opts.GROUP}]'
    yield from ini.write_list('enabled_vgpu_types', [name])
    yield ''
    yield f'[{opts.GROUP_PREFIX}{name}]'
    yield from ini.write_list('device_addresses', [entry])
    classes = [stock.resource_class for stock in gpu.stocks]
    if len(classes) == 1 and classes[0] != _USUAL_CLASS:
        yield f'resource_class = {classes[0]}'


def _write_whole(gpu: fleet.GPU) -> Iterator[str]:
    own = [t for t in gpu.traits if not t.startswith(_OF_NOVA)]
    yield '[pci]'
    yield 'report_in_placement = true'
    yield from ini.write_json(
        'device_spec',
        {
            'address': gpu.address,
            'managed': 'yes',
            'resource_class': ', '.join(sorted(gpu.classes)),
            'traits': ','.join(sorted(own)),
        },
    )
