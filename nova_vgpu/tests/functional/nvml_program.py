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

"""Calls functions of the binding of NVML that a test asks for, one by one.

Started by tests, because the library is found when a process starts. A request
is a line of JSON, the name of a function and its arguments; so is the answer.
What is not text or a number is kept here, and named by ``{"kept": number}``.
"""

from collections.abc import Callable
import ctypes
import json
import sys
import typing

import pynvml


class Caller:
    def __init__(self) -> None:
        self._kept: list[typing.Any] = []

    def answer(self, request: list[typing.Any]) -> typing.Any:
        name, *arguments = request
        function: Callable[..., typing.Any] = OWN.get(name) or getattr(
            pynvml, name
        )
        try:
            found = function(*map(self._unpack, arguments))
        except pynvml.NVMLError as error:
            return {'error': error.value}
        return self._pack(found)

    def _unpack(self, argument: typing.Any) -> typing.Any:
        if isinstance(argument, dict):
            return self._kept[argument['kept']]
        return argument

    def _pack(self, found: typing.Any) -> typing.Any:
        if isinstance(found, bytes):
            return found.decode()
        if isinstance(found, list | tuple):
            return [self._pack(one) for one in found]
        if found is None or isinstance(found, str | int):
            return found
        fields = getattr(found, '_fields_', None)
        if fields is None:
            self._kept.append(found)
            return {'kept': len(self._kept) - 1}
        return {name: self._pack_field(found, name) for name, *_ in fields}

    def _pack_field(self, found: typing.Any, name: str) -> typing.Any:
        field = getattr(found, name)
        if name == 'placementIds':
            return [field[index] for index in range(found.count)]
        return self._pack(field)


def list_instances(device: typing.Any, profile: int) -> list[typing.Any]:
    """The GPU instances of a profile: the caller has to make room for them."""
    count = ctypes.c_uint()
    room = (pynvml.c_nvmlGpuInstance_t * 16)()
    pynvml.nvmlDeviceGetGpuInstances(
        device, profile, room, ctypes.byref(count)
    )
    # Handles, and not the places in the array.
    return [type(one)(one.contents) for one in room[: count.value]]


def list_compute_instances(instance: typing.Any) -> list[typing.Any]:
    count = ctypes.c_uint()
    room = (pynvml.c_nvmlComputeInstance_t * 16)()
    pynvml.nvmlGpuInstanceGetComputeInstances(
        instance, 0, room, ctypes.byref(count)
    )
    return [type(one)(one.contents) for one in room[: count.value]]


def list_placements(device: typing.Any, profile: int) -> list[typing.Any]:
    """Where an instance of a profile may begin, and how large it is."""
    count = ctypes.c_uint()
    refer = ctypes.byref(count)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
        device, profile, None, refer
    )
    room = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
        device, profile, room, refer
    )
    return [[one.start, one.size] for one in room]


def create_at(device: typing.Any, profile: int, start: int) -> typing.Any:
    """A GPU instance at a placement."""
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, 0)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(
        device, profile, ctypes.byref(place)
    )


def list_creatable_in(instance: typing.Any) -> list[int]:
    """The types that a GPU instance takes one more vGPU of."""
    found = pynvml.c_nvmlVgpuTypeIdInfo_v1_t()
    found.version = pynvml.nvmlVgpuTypeIdInfo_v1
    pynvml.nvmlGpuInstanceGetCreatableVgpus(instance, found)
    return [found.vgpuTypeIds[index] for index in range(found.vgpuCount)]


def list_active_in(instance: typing.Any) -> list[int]:
    """The vGPUs on a GPU instance."""
    found = pynvml.c_nvmlActiveVgpuInstanceInfo_v1_t()
    found.version = pynvml.nvmlActiveVgpuInstanceInfo_v1
    pynvml.nvmlGpuInstanceGetActiveVgpus(instance, found)
    return [found.vgpuInstances[index] for index in range(found.vgpuCount)]


#: Calls whose results are written to arguments.
OWN: dict[str, Callable[..., typing.Any]] = {
    function.__name__: function
    for function in (
        list_instances,
        list_compute_instances,
        list_placements,
        create_at,
        list_creatable_in,
        list_active_in,
    )
}


def main() -> None:
    caller = Caller()
    for line in sys.stdin:
        print(json.dumps(caller.answer(json.loads(line))), flush=True)


if __name__ == '__main__':
    main()
