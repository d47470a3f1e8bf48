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

"""The files of AMD's driver GIM about the partitions of a GPU.

Their layout is that of gim_shim/sysfs/gim_monitor.c of
amd/MxGPU-Virtualization: columns of 20 characters.
"""

from collections.abc import Mapping

from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import memory_tree

_COUNTS = {'SPX': 1, 'DPX': 2, 'QPX': 4, 'CPX': 8}


def make_files(gpu: host.GPU) -> Mapping[str, memory_tree.Attribute]:
    """The files of a GPU, by name."""
    accelerator, _, memory = gpu.partition.partition('/')
    possible = tuple(dict.fromkeys(p.split('/')[0] for p in gpu.partitions))
    found = {
        'accelerator_partition_profile': _describe_current(
            accelerator, possible
        ),
        'accelerator_partition_profile_config': _describe_all(gpu, possible),
        'memory_partition_mode': (
            f'memory_partition_mode: {memory}\nnuma_count: 1\n'
            'NUMA0 type=1 start=0x0000000000000000 end=0x0000002fefffffff'
            if memory
            else 'failed to get current mp mode'
        ),
    }
    return {name: memory_tree.Attribute(text) for name, text in found.items()}


def _describe_current(accelerator: str, possible: tuple[str, ...]) -> str:
    if accelerator not in possible:
        return 'failed to get current accelerator partition profile'
    count = _COUNTS[accelerator]
    head = _make_row(
        *('profile_index', 'profile_type', 'num_of_partitions'),
        *('num_of_resources', 'resource_index_in_resource_profiles'),
    )
    row = _make_row(
        str(possible.index(accelerator)), accelerator, str(count), '2'
    )
    return f'{head}\n{row}[{"[3 7 ]" * count}]'


def _describe_all(gpu: host.GPU, possible: tuple[str, ...]) -> str:
    lines = [
        'resource_profiles:',
        _make_row(
            *('resource_index', 'resource_type', 'resource_in_partition'),
            'num_partitions_share_resource',
        ),
        _make_row('0', 'XCC', '1', '1'),
        _make_row('7', 'DECODER', '4', '1'),
        'profiles:',
        _make_row(
            *('profile_index', 'profile_type', 'num_of_partitions'),
            *('memory_caps', 'num_of_resources', 'resource_index'),
        ),
    ]
    for index, name in enumerate(possible):
        caps = [p.split('/')[1] for p in gpu.partitions if p[:3] == name]
        count = _COUNTS[name]
        row = _make_row(str(index), name, str(count), ' '.join(caps), '2')
        lines.append(f'{row}[{"[3 7 ]" * count}]')
    return '\n'.join(lines)


def _make_row(*words: str) -> str:
    return ''.join(f'{word:<20}' for word in words)
