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

"""Write a simulated host into a directory, as a tree like /sys.

It is that of the demonstration, or the one that a file describes.
"""

import pathlib
import sys

from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import pcie_layout
from nova_vgpu.sandbox import tree

root, *files = map(pathlib.Path, sys.argv[1:])
simulated = host.demo_host()
if files:
    simulated = pcie_layout.parse(files[0].read_text())
tree.write_tree(simulated, root)
