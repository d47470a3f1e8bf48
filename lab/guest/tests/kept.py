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

"""Guests that are there before a reboot and after it, and their vGPUs."""

import json
import typing

from lab.guest.tests import host

GUESTS = {
    'kept-on-pf': (host.T4, 'T4-8Q'),
    'kept-on-vf': (host.A10, 'A10-12Q'),
    'kept-vfio': (host.L40S, 'L40S-24Q'),
    'kept-on-instance': (host.A100, 'A100D-2-20C'),
}

#: With the GPU that has GPU instances.
DECLARED = (
    host.DECLARED.replace('i915-', 'A100D-2-20C, A100D-1-10C, i915-', 1)
    + f"""\
[vgpu_A100D-2-20C]
device_addresses = {host.A100}=3
[vgpu_A100D-1-10C]
device_addresses = {host.A100}=1
"""
)

#: In Placement; the other machine has another one.
NODE = 'reboots'
TOTALS = {host.T4: 2, host.A10: 2, host.L40S: 2, host.GVTG: 4}


def write(name: str, rows: typing.Any) -> None:
    """Keep what a command listed, for after a reboot."""
    host.KEPT.mkdir(exist_ok=True)
    (host.KEPT / f'{name}.json').write_text(json.dumps(rows))


def read(name: str) -> typing.Any:
    return json.loads((host.KEPT / f'{name}.json').read_text())
