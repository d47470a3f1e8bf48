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

"""The configuration of NVIDIA's vGPU scheduler.

The policy is a "registry key" of the kernel module: ``RmPVMRL``, in the module
parameter ``NVreg_RegistryDwords`` for all GPUs, or in
``NVreg_RegistryDwordsPerDevice`` for some::

    NVreg_RegistryDwords = 'RmPVMRL=0x01'
    NVreg_RegistryDwordsPerDevice = 'pci=0000:84:00.0;RmPVMRL=0x11'

0x00, the default, is best effort, 0x01 equal share and 0x11 fixed share; the
upper digits set the time slice. (NVIDIA AI Enterprise user guide 5.0,
"RmPVMRL Registry Key"; NVIDIA/open-gpu-kernel-modules,
kernel_sched_mgr.c: the lowest bit turns the key on, the next digit is the
policy.)
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import re
import types

from nova_vgpu import values

PARAMETER = 'NVreg_RegistryDwords'
KEY = 'RmPVMRL'
DEFAULT = values.SchedulerPolicy.BEST_EFFORT

VALUES: Mapping[values.SchedulerPolicy, str] = types.MappingProxyType(
    {
        values.SchedulerPolicy.BEST_EFFORT: '0x00',
        values.SchedulerPolicy.EQUAL_SHARE: '0x01',
        values.SchedulerPolicy.FIXED_SHARE: '0x11',
    }
)

_DWORD = re.compile(r'0x([0-9a-f]{1,8})|([0-9]{1,10})', re.I | re.A)
_ON = 1
_POLICIES = {
    0: values.SchedulerPolicy.EQUAL_SHARE,
    1: values.SchedulerPolicy.FIXED_SHARE,
}


def find_policy(dwords: str) -> values.SchedulerPolicy | None:
    """The policy that the keys set; None if it is unknown.

    Without the key it is the default.
    """
    found: values.SchedulerPolicy | None = DEFAULT
    for name, value in _split(dwords):
        if name.casefold() == KEY.casefold():
            found = _read(value)
    return found


def find_policies_per_gpu(
    dwords: str,
) -> dict[values.PciAddress, values.SchedulerPolicy | None]:
    """The policies of GPUs with a per-device key."""
    found: dict[values.PciAddress, values.SchedulerPolicy | None] = {}
    address: values.PciAddress | None = None
    for name, value in _split(dwords):
        if name.casefold() == 'pci':
            try:
                address = values.PciAddress.parse(value)
            except values.MalformedAddress:
                address = None
        elif name.casefold() == KEY.casefold() and address is not None:
            found[address] = _read(value)
    return found


def render_modprobe(
    policy: values.SchedulerPolicy, present: Iterable[str] = ()
) -> str:
    """A file for modprobe.d that sets the policy.

    :param present: the parameter's value in other files. A parameter has one
        value, so their other keys are included.
    """
    others = {
        name: value
        for dwords in present
        for name, value in _split(dwords)
        if name.casefold() != KEY.casefold()
    }
    keys = [f'{name}={value}' for name, value in others.items()]
    keys.append(f'{KEY}={VALUES[policy]}')
    return (
        f'# vGPU scheduler: {policy.value}.\n'
        '# For /etc/modprobe.d/nvidia-vgpu-scheduler.conf. It takes effect\n'
        '# when the driver is loaded again: rebuild the initial RAM disk\n'
        '# (update-initramfs -u or dracut -f) and reboot.\n'
        f'options nvidia {PARAMETER}="{";".join(keys)}"\n'
    )


def _split(dwords: str) -> Iterator[tuple[str, str]]:
    for part in dwords.split(';'):
        name, equals, value = part.partition('=')
        if equals:
            yield name.strip(), value.strip()


def _read(value: str) -> values.SchedulerPolicy | None:
    match = _DWORD.fullmatch(value)
    if match is None:
        return None
    number = int(match[1], 16) if match[1] else int(match[2])
    if not number & _ON:
        return values.SchedulerPolicy.BEST_EFFORT
    return _POLICIES.get(number >> 4 & 0xF)
