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

"""The walk of one GPU through the driver, on a host of the benchmarks.

For a process of its own: Nova is configured for good.
"""

import pathlib
import tempfile

from benchmarks import drivers
from benchmarks import fake_libvirt
from benchmarks import machines
from benchmarks import report
from nova_vgpu.tests import walks

_ONE_GPU = machines.Size(gpus=1, vfs=4, types=8, used=0)


def walk_gpu() -> walks.Walk:
    """The driver, which knows nothing yet, updates the provider tree."""
    with (
        tempfile.TemporaryDirectory() as directory,
        machines.machine(_ONE_GPU) as machine,
    ):
        drivers.configure(pathlib.Path(directory))
        fake = fake_libvirt.FakeLibvirt(machine)
        side = drivers.Side(report.OURS, machine, lambda: fake)
        return walks.record(side.update)
