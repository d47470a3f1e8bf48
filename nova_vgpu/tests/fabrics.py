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

"""NVML of hosts with NVLinks, in the place of the library itself."""

from collections.abc import Mapping
import types
import typing

from nova_vgpu import values

#: nvml.h: NVML_NVLINK_DEVICE_TYPE_*
GPU, PROCESSOR, SWITCH, UNKNOWN = 0, 1, 2, 255

#: The address at the other end of each link of a GPU, and what is there.
Links = tuple[tuple[str, int], ...]


class FakeNVMLError(Exception):
    """As of the binding."""


class FabricNVML(types.ModuleType):
    """The binding of a driver that has these GPUs, each with these links."""

    NVMLError = FakeNVMLError

    def __init__(self, links: Mapping[str, Links]) -> None:
        super().__init__('pynvml')
        self._links = {
            str(values.PciAddress.parse(gpu)): ends
            for gpu, ends in links.items()
        }
        #: Links that are there, and down.
        self.down: set[tuple[str, int]] = set()

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetHandleByPciBusId(self, address: str) -> str:
        if address not in self._links:
            raise FakeNVMLError('Not Found')
        return address

    def nvmlDeviceGetNvLinkState(self, handle: str, link: int) -> int:
        self._find(handle, link)
        return int((handle, link) not in self.down)

    def nvmlDeviceGetNvLinkRemotePciInfo(
        self, handle: str, link: int
    ) -> typing.Any:
        address, _ = self._find(handle, link)
        return types.SimpleNamespace(busId=f'0000{address.upper()}'.encode())

    def nvmlDeviceGetNvLinkRemoteDeviceType(
        self, handle: str, link: int
    ) -> int:
        return self._find(handle, link)[1]

    def _find(self, handle: str, link: int) -> tuple[str, int]:
        if link >= len(self._links[handle]):
            raise FakeNVMLError('Invalid Argument')
        return self._links[handle][link]


def join_by_switches(
    gpus: tuple[str, ...], switches: Mapping[str, int]
) -> FabricNVML:
    """GPUs that have so many links to each of these switches."""
    links = tuple(
        (switch, SWITCH)
        for switch, count in switches.items()
        for _ in range(count)
    )
    return FabricNVML(dict.fromkeys(gpus, links))


def join_directly(pairs: Mapping[tuple[str, str], int]) -> FabricNVML:
    """GPUs that have so many links to each other."""
    links: dict[str, Links] = {}
    for (one, other), count in pairs.items():
        for gpu, end in ((one, other), (other, one)):
            links[gpu] = (*links.get(gpu, ()), *(((end, GPU),) * count))
    return FabricNVML(links)
