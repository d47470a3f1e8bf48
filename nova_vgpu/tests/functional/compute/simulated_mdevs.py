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

"""Mediated devices for Nova, whose tests have a libvirt of their own."""

import libvirt
from nova.tests.fixtures import libvirt as fakelibvirt

from nova_vgpu.sandbox import mdevs


class LibvirtError(fakelibvirt.libvirtError, libvirt.libvirtError):
    """An error for whoever catches Nova's fake one or the real one.

    Nova's modules have the fake in libvirt's place during tests; the rest of
    this project has libvirt itself.
    """


def error(message: str, code: int) -> Exception:
    made: Exception = fakelibvirt.make_libvirtError(
        LibvirtError,
        message,
        error_code=code,
        error_domain=fakelibvirt.VIR_FROM_NODEDEV,
        error_message=message,
    )
    return made


Mdev = mdevs.Mdev
Mdevs = mdevs.Mdevs

ERRORS = mdevs.Errors(
    make=error,
    kind=LibvirtError,
    internal_error=fakelibvirt.VIR_ERR_INTERNAL_ERROR,
    no_node_device=fakelibvirt.VIR_ERR_NO_NODE_DEVICE,
    operation_invalid=fakelibvirt.VIR_ERR_OPERATION_INVALID,
    xml_error=fakelibvirt.VIR_ERR_XML_ERROR,
)
