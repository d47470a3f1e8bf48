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

"""AMD: GPUs are shared by SR-IOV alone (MxGPU), without vGPU types.

The GIM driver fixes the number of virtual functions when it is loaded, so
there is nothing to declare a type for. The module makes such GPUs visible.
"""

from nova_vgpu.knowledge import vendors


class AMD(vendors.Vendor):
    name = 'AMD'
    pci_id = 0x1002


VENDOR = AMD()
