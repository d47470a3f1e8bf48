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

"""Flavors that do not get the whole GPUs that they seem to ask for.

Nova hands a device over by an alias. A flavor that asks for the resource class
of a whole GPU in place of that gets an allocation in Placement only.
"""

import collections
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.diagnose import flavor_findings
from nova_vgpu.cloud.orders import flavors as cloud_flavors
from nova_vgpu.cloud.orders import whole_gpu_order
from nova_vgpu.knowledge import whole_gpu_names


def find(examined: examination.Examination) -> Iterator[values.Finding]:
    hosts = _count_per_host(examined)
    for flavor in sorted(examined.flavors, key=lambda found: found.name):
        yield from _find_without_device(flavor)
        yield from _find_unservable(flavor, hosts)


def _count_per_host(
    examined: examination.Examination,
) -> list[collections.Counter[str]]:
    """How many of each resource class every host has."""
    found: dict[str, collections.Counter[str]]
    found = collections.defaultdict(collections.Counter)
    for gpu in examined.whole:
        for stock in gpu.stocks:
            found[gpu.host][stock.resource_class] += stock.total
    return list(found.values())


def _find_without_device(
    flavor: cloud_flavors.Flavor,
) -> Iterator[values.Finding]:
    if cloud_flavors.ALIAS in dict(flavor.extra_specs):
        return
    for group in flavor.groups:
        for resource_class in sorted(group.resources):
            of = whole_gpu_names.find_by_class(resource_class)
            if of is None:
                continue
            key = f'resources{group.name}:{resource_class}'
            count = dict(group.amounts)[resource_class]
            yield flavor_findings.make(
                flavor,
                'flavor-without-device',
                f'Flavor {flavor.name} asks for the resource class of whole '
                f'GPUs of model {of.title}, and not for their alias. Its '
                'servers take up a GPU in Placement, but do not get it.',
                [(key, str(count))],
                f'Set "{cloud_flavors.ALIAS}" to "{of.alias}:{count}", and '
                f'remove "{key}".',
            )


def _find_unservable(
    flavor: cloud_flavors.Flavor, hosts: list[collections.Counter[str]]
) -> Iterator[values.Finding]:
    asked = collections.Counter(
        {
            of.resource_class: count
            for of, count in whole_gpu_order.list_devices(flavor).items()
        }
    )
    if asked and not any(asked <= host for host in hosts):
        listed = ', '.join(f'{n} {name}' for name, n in sorted(asked.items()))
        yield flavor_findings.make(
            flavor,
            'flavor-unservable',
            f'No host has the whole GPUs that flavor {flavor.name} asks for: '
            f'Placement has no host with {listed}.',
            [s for s in flavor.extra_specs if s[0] == cloud_flavors.ALIAS],
            'Ask for fewer GPUs, or pass more through: "nova-vgpu config '
            'generate --passthrough" on the host prints how. Nova has to '
            'report them: [pci]report_in_placement.',
        )
