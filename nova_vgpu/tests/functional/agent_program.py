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

"""``nova-vgpu`` on a simulated machine, as a program of its own.

The vendor's program says that it has begun on standard output, and goes on
when a line comes in on standard input: whoever starts this can do something
in the middle.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import sys
import typing

from nova_vgpu.cmd import main
from nova_vgpu.host import state
from nova_vgpu.host import tools
from nova_vgpu.lifecycle import host_access
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import machine
from nova_vgpu.tests import hosts

BEGUN = 'begun'


class Program(main.NovaVGPU):
    def __init__(self) -> None:
        super().__init__()
        self._machine = machine.Machine(hosts.gpu('41:00.0', boards.A40))

    def make_host_access(
        self, timeout: float, sriov_manage: str, may_change: bool = True
    ) -> host_access.HostAccess:
        return host_access.HostAccess(
            tree=self._machine.kernel.files,
            connect=self._connect,
            state=state.StateDirectory(self.options.state_dir),
            locks=self.options.state_dir,
            run=self._run,
            timeout=timeout,
        )

    @contextlib.contextmanager
    def _connect(self) -> Iterator[typing.Any]:
        yield self._machine.libvirt

    def _run(
        self, argv: Sequence[str], seconds: float, keep: Sequence[int] = ()
    ) -> tools.Finished:
        print(BEGUN, flush=True)
        sys.stdin.readline()
        return self._machine.tools.run(argv, seconds, keep)


if __name__ == '__main__':
    # What happens to the devices of this machine is not to be heard of.
    sys.modules['pyudev'] = typing.cast(typing.Any, None)
    sys.exit(Program().run(sys.argv[1:]))
