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

"""What the facts of one guest say about the set-up of others like it."""

import json
import typing

from nova_vgpu.guest import facts
from nova_vgpu.guest import setup

_CURE = 'Give what "nova-vgpu guest facts -f json" printed as root.'


def parse(text: str) -> tuple[dict[str, typing.Any], tuple[str, ...]]:
    """Values by the names of :class:`setup.Request`, and problems.

    The text may come from a guest, which is not trusted: the values are
    checked like those of every request.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not are_facts(found):
        return {}, (f'--facts: the file does not have facts. {_CURE}',)
    values, problem = find_values(found, _CURE)
    return values, (f'--facts: {problem}',) if problem else ()


def are_facts(found: typing.Any) -> typing.TypeGuard[dict[str, typing.Any]]:
    """Whether it can be what :mod:`~nova_vgpu.guest.facts` prints."""
    return isinstance(found, dict) and 'drivers_needed' in found


def find_values(
    found: dict[str, typing.Any], cure: str
) -> tuple[dict[str, typing.Any], str]:
    """Values, and why there is no driver; then ``cure`` says what to do."""
    values: dict[str, typing.Any] = {}
    if found.get('is_gpu_cluster') is True:
        values['gpu_cluster'] = True
    driver, problem = _choose(found['drivers_needed'], cure)
    if driver is not None:
        values['driver'] = driver
    if driver == facts.VGPU_GUEST:
        values |= _find_vgpu(found.get('gpus'))
    return values, problem


def needs_nvidia(found: dict[str, typing.Any]) -> bool:
    """Whether any GPU needs a driver of NVIDIA's, or it is unknown which.

    The kernel has those of the others, and one that is passed on to guests
    needs none.
    """
    return any(
        isinstance(gpu, dict)
        and gpu.get('vendor') == facts.NVIDIA
        and gpu.get('driver_needed') != facts.NO_DRIVER
        for gpu in _list(found.get('gpus'))
    )


def _choose(needed: typing.Any, cure: str) -> tuple[str | None, str]:
    drivers = [each for each in _list(needed) if isinstance(each, str)]
    if facts.VGPU_HOST in drivers:
        return None, 'these are the facts of a host of vGPUs.'
    if facts.UNKNOWN in drivers:
        return None, f'which driver the guest needs is unknown. {cure}'
    for driver in (facts.VGPU_GUEST, facts.DATACENTER):
        if driver in drivers:
            return driver, ''
    if not drivers:
        return None, 'the guest does not have a GPU.'
    return setup.NO_DRIVER, ''


def _find_vgpu(gpus: typing.Any) -> dict[str, str]:
    """The first vGPU's: all of a guest come from one host."""
    for gpu in _list(gpus):
        if isinstance(gpu, dict) and gpu.get('kind') == facts.VGPU:
            named = {
                'vgpu_type': gpu.get('vgpu_type'),
                'host_driver': gpu.get('host_driver_version'),
            }
            return {k: v for k, v in named.items() if isinstance(v, str)}
    return {}


def _list(value: typing.Any) -> list[typing.Any]:
    return value if isinstance(value, list) else []
