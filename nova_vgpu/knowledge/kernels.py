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

"""What releases and configurations of Linux kernels tell.

VFIO's DMA logging reports what a device writes to the memory of its guest. It
came with Linux 6.1. Since 6.7 its code is built only with
``CONFIG_IOMMUFD_DRIVER``; without that the kernel refuses to report. (Linux
kernel, drivers/vfio/vfio_main.c, include/linux/iova_bitmap.h.) Distributions
may have it in older ones.
"""

import re

_RELEASE = re.compile(r'([0-9]{1,3})\.([0-9]{1,4})', re.ASCII)
_IOMMUFD_DRIVER = re.compile(r'^CONFIG_IOMMUFD_DRIVER=y$', re.MULTILINE)
_WITH_LOGGING = (6, 1)
_WITH_IOMMUFD = (6, 7)


def parse_release(release: str) -> tuple[int, int] | None:
    """The version in the release of a kernel; None if it has none."""
    match = _RELEASE.match(release)
    return (int(match[1]), int(match[2])) if match else None


def has_dma_logging(release: str, configuration: str | None) -> bool | None:
    """Whether a kernel has DMA logging; None if that is unknown.

    :param configuration: the text of its ``.config``; None if unknown.
    """
    version = parse_release(release)
    if configuration and _IOMMUFD_DRIVER.search(configuration):
        return True
    if version is None or version < _WITH_LOGGING:
        return None
    if version < _WITH_IOMMUFD:
        return True
    return None if configuration is None else False
