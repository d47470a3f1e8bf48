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

"""Flavors that no host can serve, not even without any server.

Groups with names take the vGPUs and the traits of GPUs. The traits of the
group without a name are those of the host, if it does not ask for vGPUs.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.diagnose import flavor_findings
from nova_vgpu.cloud.orders import flavors as cloud_flavors
from nova_vgpu.cloud.orders import host_fitting
from nova_vgpu.cloud.orders import vgpu_requests


def find(examined: examination.Examination) -> Iterator[values.Finding]:
    for flavor in sorted(examined.flavors, key=lambda found: found.name):
        yield from _find_unservable(examined, flavor)


def _find_unservable(
    examined: examination.Examination, flavor: cloud_flavors.Flavor
) -> Iterator[values.Finding]:
    requests = examined.list_requests(flavor)
    wrong = [
        finding
        for request in requests
        for finding in _find_unservable_part(examined, flavor, request)
    ]
    yield from wrong
    if wrong or not requests:
        return
    fitting = [
        gpus
        for gpus in examined.kinds_of_hosts
        if host_fitting.fits(requests, flavor.policy, gpus)
    ]
    if not fitting:
        yield _make_too_many(flavor, requests)
    elif not any(
        host_fitting.has_traits(flavor, gpus[0].host_traits)
        for gpus in fitting
    ) and not any(flavor_findings.find_traits_alone(examined, flavor)):
        yield _make_wrong_hosts(flavor)


def _make_too_many(
    flavor: cloud_flavors.Flavor,
    requests: tuple[vgpu_requests.VGPURequest, ...],
) -> values.Finding:
    return flavor_findings.make(
        flavor,
        'flavor-exceeds-hosts',
        f'No host has all the GPUs that flavor {flavor.name} asks for. '
        'Each of its groups fits a GPU, but not all of them together fit '
        'the GPUs of one host.',
        _list_policy(flavor)
        + [
            spec
            for group in dict.fromkeys(r.group for r in requests)
            for spec in flavor_findings.list_specs(flavor, group)
        ],
        'Ask for fewer vGPUs, set "group_policy" to "none" if they may '
        'be of one GPU, or configure more GPUs of a host for the type.',
    )


def _make_wrong_hosts(flavor: cloud_flavors.Flavor) -> values.Finding:
    return flavor_findings.make(
        flavor,
        'flavor-unservable',
        f'No host with the GPUs that flavor {flavor.name} asks for has the '
        'traits that it asks for in the group without a name.',
        [spec for spec in flavor.extra_specs if spec[0].startswith('trait:')],
        'Give the trait to a host ("openstack resource provider trait set"), '
        'remove it from the flavor, or ask for it in the group of the vGPU if '
        'GPUs have it.',
    )


def _find_unservable_part(
    examined: examination.Examination,
    flavor: cloud_flavors.Flavor,
    request: vgpu_requests.VGPURequest,
) -> Iterator[values.Finding]:
    fitting = [
        stock.total
        for gpu in examined.kinds
        if request.is_served_by(gpu)
        for stock in gpu.stocks
        if stock.resource_class == request.resource_class
    ]
    seen = flavor_findings.list_specs(flavor, request.group)
    if not fitting:
        yield flavor_findings.make(
            flavor,
            'flavor-unservable',
            f'No GPU of the cloud has what flavor {flavor.name} asks for.',
            seen,
            'Change the flavor, or configure a GPU for it. '
            f'{flavor_findings.SHOW_TYPES}',
        )
    elif request.vgpus > max(fitting):
        name = request.resource_class
        yield flavor_findings.make(
            flavor,
            'flavor-too-large',
            f'Flavor {flavor.name} asks for {request.vgpus} {name} of one '
            f'GPU. GPUs that fit have at most {max(fitting)}.',
            seen,
            f'Spread the vGPUs over several groups: "resources1:{name}", '
            f'"resources2:{name}" and so on, with a "group_policy".',
        )


def _list_policy(flavor: cloud_flavors.Flavor) -> list[tuple[str, str]]:
    return [spec for spec in flavor.extra_specs if spec[0] == 'group_policy']
