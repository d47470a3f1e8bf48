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

"""What a guest knows about its GPUs, and how it is set up.

:mod:`~nova_vgpu.guest.facts` and :mod:`~nova_vgpu.guest.setup_program` are
files that also work by themselves, copied into a guest: they import nothing of
this project and need only Python 3.6.
"""
