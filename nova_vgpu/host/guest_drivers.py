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


"""The drivers and licences of guests with vGPUs, as NVML tells.

A guest's driver reports to the vGPU manager of the host, so the host knows it
without asking the guest: ``nvidia-smi vgpu -q`` shows the same. NVML knows
running guests only. The id of the guest is the UUID of its libvirt domain,
which is that of Nova's server. The version comes from the guest, which is not
trusted: a text that is not a version is dropped.
"""

from collections.abc import Iterator
import re
import typing
import uuid

from nova_vgpu import values
from nova_vgpu.host import nvml

# nvml.h: NVML_VGPU_VM_ID_*; of the other one, a domain ID, Xen has use.
_IS_UUID = 1
# nvml.h, nvmlVgpuInstanceGetVmDriverVersion(): no driver is installed, or the
# guest has not loaded it yet.
_NO_DRIVER = 'Not Available'
_VERSION = re.compile(r'[0-9]{1,5}(?:\.[0-9]{1,5}){1,3}')
# nvml.h: NVML_GRID_LICENSE_STATE_*
_STATES = {
    1: values.GuestLicence.UNINITIALIZED,
    2: values.GuestLicence.UNRESTRICTED,
    3: values.GuestLicence.RESTRICTED,
    4: values.GuestLicence.UNLICENSED,
    5: values.GuestLicence.LICENSED,
}


def read_guest_drivers(host: values.Host) -> tuple[values.GuestDriver, ...]:
    """A value for each vGPU of a running guest that NVML tells of."""
    addresses = nvml.list_addresses(host)
    if not addresses:
        return ()
    try:
        return nvml.use(
            lambda library: tuple(
                found
                for address in addresses
                for found in _read_gpu(library, address)
            )
        )
    except nvml.UnavailableError:
        return ()


def _read_gpu(
    library: nvml.Library, address: values.PciAddress
) -> Iterator[values.GuestDriver]:
    handle = library.find_gpu(address)
    if handle is None:
        return
    active = library.ask('nvmlDeviceGetActiveVgpus', list, handle) or []
    for vgpu in active:
        server = find_server(library, vgpu)
        if server is None:
            continue
        version = library.ask(
            'nvmlVgpuInstanceGetVmDriverVersion', nvml.parse_text, vgpu
        )
        yield values.GuestDriver(
            address,
            server,
            find_name(library, vgpu),
            None if version is None else version != _NO_DRIVER,
            version if version and _VERSION.fullmatch(version) else None,
            _read_licence(library, vgpu),
        )


def find_server(library: nvml.Library, vgpu: typing.Any) -> str | None:
    """The UUID of the server that has a vGPU; None if it is unknown."""
    return library.ask('nvmlVgpuInstanceGetVmID', _parse_id, vgpu)


def find_name(library: nvml.Library, vgpu: typing.Any) -> str:
    """The UUID of its mdev, or without one that of the vGPU itself."""
    for function in ('nvmlVgpuInstanceGetMdevUUID', 'nvmlVgpuInstanceGetUUID'):
        found = library.ask(function, nvml.parse_text, vgpu)
        if found:
            return found.lower()
    return str(vgpu)


def _read_licence(
    library: nvml.Library, vgpu: typing.Any
) -> values.GuestLicence:
    """From the function of drivers since branch 510, or from the older one."""
    found = library.ask(
        'nvmlVgpuInstanceGetLicenseInfo', _parse_licence, vgpu
    ) or library.ask('nvmlVgpuInstanceGetLicenseStatus', _parse_status, vgpu)
    return found or values.GuestLicence.UNKNOWN


def _parse_licence(info: typing.Any) -> values.GuestLicence:
    if info.isLicensed:
        return values.GuestLicence.LICENSED
    return _STATES.get(info.currentState, values.GuestLicence.UNKNOWN)


def _parse_status(is_licensed: int) -> values.GuestLicence:
    if is_licensed:
        return values.GuestLicence.LICENSED
    return values.GuestLicence.UNLICENSED


def _parse_id(answer: tuple[str | bytes, int]) -> str | None:
    """The UUID of a server; None if it is something else."""
    text, kind = answer
    if kind != _IS_UUID:
        return None
    try:
        return str(uuid.UUID(nvml.parse_text(text)))
    except ValueError:
        return None
