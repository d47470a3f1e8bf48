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

"""The weigher beside Nova's own weighers, and beside its decoder of JSON.

Nova's weighers and this project's weigh the same hosts, by Nova's own code. An
answer of Placement is decoded by Nova before the weigher reads it.
"""

from collections.abc import Callable
import copy
import gc
import itertools
import json
import pathlib
import typing
import uuid

from nova import context
from nova import objects
from nova.scheduler import host_manager
from nova.scheduler import weights
from nova.scheduler.client import report as nova_report

from benchmarks import report
from nova_vgpu.scheduler import answers
from nova_vgpu.scheduler import weigher

_GPUS = 8
_VGPUS = 8
_TRAITS = tuple(f'HW_GPU_RESOLUTION_W{n}H{n}' for n in range(48))
_TYPE = 'CUSTOM_VGPU_TYPE_A40_6Q'

Answer = dict[str, typing.Any]


def run(directory: pathlib.Path, quick: bool) -> list[report.Measurement]:
    """Measure; there is nothing to plot."""
    hosts = 10 if quick else 1000
    report.tell(f'weighing: {hosts} hosts')
    rounds = 2 if quick else 9
    names = [str(uuid.UUID(int=n + 1)) for n in range(hosts)]
    answer = make_answer(names)
    kept = _install()
    scene = {'hosts': hosts, 'GPUs of each': _GPUS}
    return [
        _measure_reading(kept, answer, scene, rounds),
        _measure_weighing(kept, answer, scene, rounds),
        _measure_weighing(kept, make_plain(answer), scene, rounds),
    ]


def make_answer(hosts: list[str]) -> Answer:
    """Placement's, for servers with one vGPU; hosts are filled to a half."""
    candidates, summaries = [], {}
    for number, host in enumerate(hosts):
        summaries[host] = _summarise('VCPU', host, 64, 8, ())
        for n in range(_GPUS):
            gpu = str(uuid.uuid5(uuid.UUID(host), str(n)))
            used = (number + n) % _VGPUS
            summaries[gpu] = _summarise('VGPU', host, _VGPUS, used, _TRAITS)
            candidates.append(
                {
                    'allocations': {
                        host: {'resources': {'VCPU': 1, 'MEMORY_MB': 1024}},
                        gpu: {'resources': {'VGPU': 1}},
                    },
                    'mappings': {'': [host, gpu]},
                }
            )
    return {'allocation_requests': candidates, 'provider_summaries': summaries}


def make_plain(answer: Answer) -> Answer:
    """The answer for servers without a vGPU, on the same hosts."""
    plain = copy.deepcopy(answer['allocation_requests'][::_GPUS])
    for candidate in plain:
        host, gpu = candidate['allocations']
        del candidate['allocations'][gpu]
        candidate['mappings'] = {'': [host]}
    return {**answer, 'allocation_requests': plain}


def _summarise(
    resource_class: str,
    root: str,
    capacity: int,
    used: int,
    traits: tuple[str, ...],
) -> Answer:
    return {
        'resources': {resource_class: {'capacity': capacity, 'used': used}},
        'traits': [*traits, _TYPE] if traits else ['COMPUTE_NODE'],
        'root_provider_uuid': root,
    }


def _install() -> tuple[weigher.VGPUWeigher, answers.Answers]:
    made = weigher.VGPUWeigher()
    method = getattr(nova_report.SchedulerReportClient, answers.METHOD)
    return made, method.nova_vgpu_answers


def _measure_reading(
    kept: tuple[weigher.VGPUWeigher, answers.Answers],
    answer: Answer,
    scene: dict[str, int],
    rounds: int,
) -> report.Measurement:
    text = json.dumps(answer)

    def read() -> None:
        kept[1].keep(object(), (*answer.values(), '1.36'))

    seconds = report.take_turns(
        {report.STOCK: lambda: json.loads(text), report.OURS: read}, rounds
    )
    return report.Measurement(
        'weighing',
        'reading an answer beside decoding it',
        scene,
        report.Figures(seconds[report.OURS]),
        report.Figures(seconds[report.STOCK]),
    )


def _measure_weighing(
    kept: tuple[weigher.VGPUWeigher, answers.Answers],
    answer: Answer,
    scene: dict[str, int],
    rounds: int,
) -> report.Measurement:
    handler = weights.HostWeightHandler()
    novas = [made() for made in weights.all_weighers()]
    spec = make_spec()
    hosts: list[typing.Any] = []

    def weigh(weighers: list[typing.Any]) -> Callable[[], object]:
        return lambda: handler.get_weighed_objects(weighers, hosts, spec)

    def prepare(_name: str) -> None:
        """As for another request: all hosts are new."""
        kept[1].keep(object(), (*answer.values(), '1.36'))
        hosts[:] = make_hosts(answer)
        gc.collect()  # what was left by others is not measured

    seconds = report.take_turns(
        {report.STOCK: weigh(novas), report.OURS: weigh([kept[0]])},
        rounds,
        prepare,
    )
    is_plain = len(answer['allocation_requests']) == scene['hosts']
    kind = 'without a vGPU' if is_plain else 'with a vGPU'
    return report.Measurement(
        'weighing',
        f"one server {kind}, beside Nova's {len(novas)} weighers",
        scene,
        report.Figures(seconds[report.OURS]),
        report.Figures(seconds[report.STOCK]),
    )


def make_hosts(answer: Answer) -> list[typing.Any]:
    """What Nova's scheduler makes of hosts and candidates."""
    found: dict[str, typing.Any] = {}
    counted = itertools.count(1)
    for candidate in answer['allocation_requests']:
        uuid_of_host = next(iter(candidate['allocations']))
        if uuid_of_host not in found:
            found[uuid_of_host] = _make_host(uuid_of_host, next(counted))
        found[uuid_of_host].allocation_candidates.append(candidate)
    return list(found.values())


def _make_host(uuid_of_host: str, number: int) -> typing.Any:
    host = host_manager.HostState(f'host{number}', f'host{number}', 'cell')
    host.uuid = uuid_of_host
    host.free_ram_mb = 1024 * (number % 97)
    host.free_disk_mb = 1024 * 1024
    host.vcpus_total, host.vcpus_used = 64, number % 61
    host.cpu_allocation_ratio = 1.0
    host.num_instances = number % 8
    host.hypervisor_version = 10000000
    host.metrics = objects.MonitorMetricList(objects=[])
    return host


def make_spec() -> typing.Any:
    user = context.RequestContext('user', 'project')
    flavor = objects.Flavor(
        vcpus=1, memory_mb=1024, root_gb=0, ephemeral_gb=0, extra_specs={}
    )
    image = objects.ImageMeta.from_dict({})
    # No topology, PCI devices, properties, server group or zone.
    return objects.RequestSpec.from_components(
        user, str(uuid.UUID(int=1)), image, flavor, None, None, {}, None, None
    )
