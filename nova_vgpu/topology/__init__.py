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

"""How far the GPUs and network cards of a host are from each other.

:mod:`~nova_vgpu.topology.distance` decides it for two devices,
:mod:`~nova_vgpu.topology.islands` finds those that reach each other and names
their traits; the other modules show it. Nothing here reads the host.
"""
