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

"""``nova-vgpu-compute``: nova-compute, wherever Nova is installed.

Where this project and Nova are not installed into one directory (Nova from the
distribution, this from pip; a container's layers; an editable install), the
module ``nova.virt.vgpu`` is not where Nova looks for it. This program puts it
there and then is nova-compute, also by its name: oslo.config finds
``nova-compute.conf`` by that.
"""

import os
import sys

try:
    # First: it decides on monkey patching, before anything else of Nova's.
    from nova.cmd import compute
except ModuleNotFoundError as error:
    # This project has a directory of that name, too.
    if error.name not in ('nova', 'nova.cmd'):
        raise
    sys.exit(
        f'Nova is not installed for {sys.executable}. nova-vgpu-compute has '
        'to be in the environment of nova-compute.'
    )


def make_importable() -> None:
    """Let ``nova.virt.vgpu`` be found, without a file of that name."""
    import nova.virt

    from nova_vgpu.compute import shim

    sys.modules['nova.virt.vgpu'] = shim
    nova.virt.vgpu = shim


def main() -> None:
    sys.argv[0] = os.path.join(os.path.dirname(sys.argv[0]), 'nova-compute')
    make_importable()
    compute.main()
