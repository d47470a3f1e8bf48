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

"""nova-compute is killed at every write of an allocation, and starts again."""

from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import kill_runs


class OnPhysicalFunctionTest(kill_runs.Kills):
    # There is one function only, so that none can be chosen twice: a vGPU
    # that is left over shows at once where there is room for one.
    type_name = 'T4-16Q'
    gpu = hosts.gpu('84:00.0', boards.T4)
    capacity = 1


class OnVirtualFunctionsTest(kill_runs.Kills):
    type_name = 'A40-24Q'
    gpu = hosts.gpu('41:00.0', boards.A40, vfs=4)


class VendorVFIOTest(kill_runs.Kills):
    type_name = 'L40S-24Q'
    gpu = hosts.gpu('41:00.0', boards.L40S, vfs=4, vendor_vfio=True)
