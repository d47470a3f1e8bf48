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

"""How the list of GPUs is filtered and put in order."""

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu_dashboard import listing


def _by_host(gpu: fleet.GPU, text: str) -> bool:
    return text.casefold() in gpu.host.casefold()


def _by_model(gpu: fleet.GPU, text: str) -> bool:
    return gpu.facts.model == text


def _by_type(gpu: fleet.GPU, text: str) -> bool:
    return text in gpu.facts.types


def _by_state(gpu: fleet.GPU, text: str) -> bool:
    return gpu.state.value == text


def _place(gpu: fleet.GPU) -> tuple[object, ...]:
    return listing.natural(gpu.host), gpu.address


def _share(gpu: fleet.GPU) -> tuple[float, int]:
    return gpu.used / gpu.total if gpu.total else 0.0, gpu.total


RULES: listing.Rules[fleet.GPU] = listing.Rules(
    filters={
        'host': _by_host,
        'model': _by_model,
        'type': _by_type,
        'state': _by_state,
    },
    orders={
        'host': _place,
        'address': lambda gpu: gpu.address,
        'model': lambda gpu: listing.natural(gpu.facts.model or ''),
        'types': lambda gpu: listing.natural(', '.join(gpu.facts.types)),
        'usage': _share,
        'free': lambda gpu: gpu.free,
        'state': lambda gpu: gpu.state.value,
    },
    default='host',
)
