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

"""The compute host that the guest is, as its tests see it."""

from collections.abc import Callable
import contextlib
import io
import json
import os
import pathlib
import subprocess
import time
import typing
import unittest

from nova_vgpu.cmd import main
from nova_vgpu.sandbox import placement

CONFIGURATION = pathlib.Path('/etc/nova/nova.conf')
#: What a test leaves for one after the next reboot.
KEPT = pathlib.Path('/var/lib/lab')

T4 = '0000:00:10.0'
GVTG = '0000:00:11.0'
A10 = '0000:01:00.0'
L40S = '0000:02:00.0'
A100 = '0000:03:00.0'
#: Not declared by most tests: it has no vGPU types.
B60 = '0000:04:00.0'
VFS = 4

DECLARED = f"""\
[devices]
enabled_vgpu_types = T4-8Q, A10-12Q, L40S-24Q, i915-GVTg_V5_4
[vgpu_T4-8Q]
device_addresses = {T4}
[vgpu_A10-12Q]
device_addresses = {A10}
[vgpu_L40S-24Q]
device_addresses = {L40S}
[vgpu_i915-GVTg_V5_4]
device_addresses = {GVTG}
"""

#: The same, with every vGPU made before anybody asks for it.
AHEAD = DECLARED.replace('[devices]', '[devices]\nvgpu_creation = ahead')

#: How to get to Placement, for a nova.conf.
PLACEMENT = placement.access('http://10.0.2.100:8778')

_PCI = pathlib.Path('/sys/bus/pci/devices')
_RESCAN = pathlib.Path('/sys/bus/pci/rescan')
_MDEVS = pathlib.Path('/sys/bus/mdev/devices')
_MDEVCTL = pathlib.Path('/usr/sbin/mdevctl')
# Only reached on a machine that is very busy.
_PATIENCE = 600.0
_UUID_LENGTH = 36
_POLL_SECONDS = 0.2


class HostTest(unittest.TestCase):
    """Runs the commands of the project, and looks at the kernel."""

    maxDiff = None
    #: Whether the A100 is plugged in. Without it everything else is faster.
    has_a100 = False

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if cls.has_a100:
            rescan()
        else:
            unplug(A100)

    def nova_vgpu(self, *arguments: str, code: int = 0) -> str:
        """Run the command; gives all that it says.

        In this process: to start one and import takes ten seconds here.
        """
        result, output, errors = self._run(*arguments)
        self.assertEqual(code, result, output + errors)
        return output + errors

    def rows(self, *arguments: str, code: int = 0) -> typing.Any:
        """Run a command that lists; gives what it lists."""
        result, output, errors = self._run(*arguments, '-f', 'json')
        self.assertEqual(code, result, output + errors)
        return json.loads(output)

    def _run(self, *arguments: str) -> tuple[int, str, str]:
        output, errors = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            code = main.main(list(arguments))
        return code, output.getvalue(), errors.getvalue()

    def make_vgpu(self, device: str, of_type: str) -> str:
        """Make one by hand; gives its UUID, or the address of its VF."""
        (made,) = self.rows('device', 'enable', device, '--type', of_type)
        uuid = str(made['UUID'])
        return uuid if len(uuid) == _UUID_LENGTH else str(made['Device'])

    def declare(self, text: str) -> None:
        CONFIGURATION.parent.mkdir(parents=True, exist_ok=True)
        CONFIGURATION.write_text(text)

    def assert_declared(self) -> None:
        """Bring the host to what is declared, and see that it is there."""
        self.nova_vgpu('apply')
        for gpu in (A10, L40S):
            self.assertEqual(VFS, count_vfs(gpu))
            self.assertEqual('nvidia', driver_of(gpu))
        self.nova_vgpu('doctor', '--strict')

    def show_unit(self, unit: str, what: str) -> str:
        return run('systemctl', 'show', '-P', what, unit).strip()

    def wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        ends = time.monotonic() + _PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), ends, f'never {what}')
            time.sleep(_POLL_SECONDS)


def run(*argv: str) -> str:
    """Run a program that is to end well; gives what it prints."""
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise AssertionError(f'{argv} ended so: {done.stdout}')
    return done.stdout


def cure_mdevctl() -> None:
    """Debian 13 has it in /usr/bin; this is the cure that doctor names."""
    _MDEVCTL.unlink(missing_ok=True)
    _MDEVCTL.symlink_to('/usr/bin/mdevctl')


def function(address: str, *path: str) -> pathlib.Path:
    return _PCI.joinpath(address, *path)


def read(address: str, *path: str) -> str:
    return function(address, *path).read_text().strip()


def unplug(gpu: str) -> None:
    if function(gpu).exists():
        function(gpu, 'remove').write_text('1')


def rescan() -> None:
    """Plug in what is not there."""
    _RESCAN.write_text('1')


def count_vfs(gpu: str) -> int:
    return int(read(gpu, 'sriov_numvfs'))


def virtual_function(gpu: str, number: int) -> str:
    return os.path.basename(os.readlink(function(gpu, f'virtfn{number}')))


def driver_of(address: str) -> str:
    return os.path.basename(os.readlink(function(address, 'driver')))


def list_vfs(gpu: str) -> list[str]:
    return [virtual_function(gpu, number) for number in range(count_vfs(gpu))]


def type_of(vf: str) -> str:
    """The id of the type of a function with vendor-specific VFIO."""
    return read(vf, 'nvidia', 'current_vgpu_type')


def typed_functions() -> list[str]:
    """The functions of the L40S that are vGPUs."""
    return [vf for vf in list_vfs(L40S) if type_of(vf) != '0']


def mdevs() -> list[str]:
    return sorted(os.listdir(_MDEVS))


def mdev_type(mdev: str) -> str:
    """The short name of the type of an mdev."""
    return (_MDEVS / mdev / 'mdev_type' / 'name').read_text().split()[-1]


def set_knob(gpu: str, knob: str, value: int) -> None:
    """Tell the fake GPU to be difficult."""
    function(gpu, 'fakevgpu', knob).write_text(f'{value}\n')


def node_device(address: str) -> str:
    """The name of a device at libvirt, which is that of its provider."""
    return 'pci_' + address.replace(':', '_').replace('.', '_')
