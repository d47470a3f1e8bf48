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


"""What Prometheus has of the agents, without Prometheus."""

from nova_vgpu.cloud.hosts import prometheus

NOW = 1.7e9
SERVER = '2f6e4b0e-0000-4000-8000-000000000001'
MDEV = '5b5b7326-6bb8-48cb-a321-8fa58ccbb38c'
A40 = '0000:41:00.0'
T4 = '0000:84:00.0'


def sample(
    name: str, value: float = 1, host: str = 'compute1', **labels: str
) -> prometheus.Sample:
    target = {'job': 'nova-vgpu', 'instance': f'{host}:10041'}
    return prometheus.Sample(f'nova_vgpu_{name}', target | labels, value, NOW)


def agent(
    host: str = 'compute1', age: float = 20, success: float = 1
) -> list[prometheus.Sample]:
    return [
        sample('agent_info', host=host, compute_node=host),
        sample('last_round_timestamp_seconds', NOW - age, host),
        sample('last_round_success', success, host),
    ]


def function(
    address: str, state: str = 'free', gpu: str = A40, **labels: str
) -> prometheus.Sample:
    """One of compute1; Prometheus leaves out labels without a text."""
    labels |= {'gpu': gpu, 'function': address, 'state': state}
    return sample('function_info', 1, 'compute1', **labels)


def guest(
    server: str = SERVER,
    driver_version: str = '550.144.03',
    licence: str = 'licensed',
    host: str = 'compute1',
    vgpu: str = MDEV,
) -> prometheus.Sample:
    """A guest with a vGPU of the T4."""
    return sample(
        'guest_info',
        1,
        host,
        gpu=T4,
        vgpu=vgpu,
        server=server,
        driver_version=driver_version,
        licence=licence,
    )


def vfs(enabled: int, gpu: str = A40) -> list[prometheus.Sample]:
    return [
        sample('functions', enabled, gpu=gpu, state='enabled'),
        sample('functions', 32, gpu=gpu, state='possible'),
    ]


def host() -> list[prometheus.Sample]:
    """An A40 with a vGPU in use, one not in use and a free function."""
    return [
        *agent(),
        *vfs(32),
        function(
            '0000:41:00.4',
            'taken',
            type='A40-8Q',
            vgpu='0000:41:00.4',
            server=SERVER,
        ),
        function('0000:41:00.5', 'taken', type='A40-8Q', vgpu=MDEV),
        function('0000:41:00.6'),
        sample('type_available', 4, gpu=A40, type='A40-8Q'),
        sample('type_available', 0, gpu=A40, type='A40-48Q'),
    ]
