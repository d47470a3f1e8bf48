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

"""The NVLinks of NVIDIA's GPUs, read through NVML.

Each link of a GPU leads to another GPU, or to an NVSwitch, which joins it to
all GPUs on its fabric. Only GPUs with NVIDIA's driver are known: one that is
bound to ``vfio-pci`` for servers is not, and neither are its links.
"""

import collections
from collections.abc import Container
import typing

from nova_vgpu import values
from nova_vgpu.host import nvml

# nvml.h: NVML_NVLINK_MAX_LINKS, as of release 13. A GPU that has fewer answers
# with an error for the others.
_MOST_LINKS = 36
# nvml.h: NVML_NVLINK_DEVICE_TYPE_IBMNPU, a processor.
_PROCESSOR = 1


def read_nvlinks(host: values.Host) -> values.NVLinksRead:
    """Read the active NVLinks of the GPUs that NVIDIA's driver has."""
    addresses = nvml.list_addresses(host)
    if not addresses:
        return values.NVLinksRead()
    try:
        found = nvml.use(
            lambda library: [
                _read_gpu(library, a, addresses) for a in addresses
            ]
        )
    except nvml.UnavailableError as error:
        return values.NVLinksRead(unknown_because=str(error))
    return values.NVLinksRead(tuple(links for links in found if links))


def _read_gpu(
    library: nvml.Library,
    address: values.PciAddress,
    gpus: Container[values.PciAddress],
) -> values.NVLinks | None:
    handle = library.find_gpu(address)
    if handle is None:
        return None
    to_gpus: collections.Counter[values.PciAddress] = collections.Counter()
    to_switches = 0
    for link in range(_MOST_LINKS):
        if not library.ask('nvmlDeviceGetNvLinkState', bool, handle, link):
            continue
        remote = library.ask(
            'nvmlDeviceGetNvLinkRemotePciInfo', _parse_remote, handle, link
        )
        kind = library.ask(
            'nvmlDeviceGetNvLinkRemoteDeviceType', int, handle, link
        )
        if remote in gpus and remote is not None:
            to_gpus[remote] += 1
        elif kind != _PROCESSOR:
            # In a virtual machine the switch is not visible and its type is
            # unknown; an active link leads to one all the same.
            to_switches += 1
    return values.NVLinks(address, tuple(sorted(to_gpus.items())), to_switches)


def _parse_remote(info: typing.Any) -> values.PciAddress | None:
    try:
        return values.PciAddress.parse(nvml.parse_text(info.busId))
    except values.MalformedAddress:
        return None
