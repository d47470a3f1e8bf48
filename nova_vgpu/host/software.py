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

"""The versions of what this host runs guests with.

::

    /proc/sys/kernel/osrelease           the release of the kernel
    /boot/config-<release>               how it was built; Debian, Ubuntu
    /usr/lib/modules/<release>/config    the same; Red Hat, Fedora
    /sys/module/nvidia/version           NVIDIA's driver

What does not exist, or cannot be read, is unknown.
"""

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.knowledge import kernels

#: Not '/': paths are built with a slash behind the root.
DEFAULT_ROOT = ''
#: The configuration of a kernel is some 300 KiB.
_MOST_BYTES = 4 * 1024 * 1024


def read_kernel(root: str) -> values.HostSoftware:
    """The kernel and NVIDIA's driver, as files tell.

    :param root: of the host's file system.
    """
    tree = files.Files(root, _MOST_BYTES)
    release = _find_text(tree, 'proc', 'sys', 'kernel', 'osrelease')
    driver = _find_text(tree, 'sys', 'module', 'nvidia', 'version')
    if release is None or '/' in release:
        return values.HostSoftware(driver=driver)
    configuration = _find_text(tree, 'boot', f'config-{release}') or (
        _find_text(tree, 'usr', 'lib', 'modules', release, 'config')
    )
    return values.HostSoftware(
        kernel=release,
        driver=driver,
        dma_logging=kernels.has_dma_logging(release, configuration),
    )


def _find_text(tree: files.Files, *path: str) -> str | None:
    try:
        return tree.find_text(*path)
    except files.Unreadable:
        return None


def parse_version(number: int) -> tuple[int, int, int]:
    """A version as libvirt encodes it: 8002002 is 8.2.2."""
    major, rest = divmod(number, 1_000_000)
    return (major, *divmod(rest, 1000))
