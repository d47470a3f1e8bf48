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

"""Guests as libvirt's XML; its test driver takes them in its ``<node>``."""

from collections.abc import Iterable

from nova_vgpu import values

_SHUT_OFF = 5  # VIR_DOMAIN_SHUTOFF

_DOMAIN = """
<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
  <name>{name}</name><uuid>{uuid}</uuid><memory>1024</memory>
  <os><type>hvm</type></os>
  <devices>{devices}</devices>
  {state}
</domain>"""

_HOSTDEV = """
<hostdev mode='subsystem' {kind}><source><address {address}/></source>
</hostdev>"""


def write_domain(
    uuid: str,
    name: str,
    *,
    mdevs: Iterable[str] = (),
    functions: Iterable[values.PciAddress] = (),
    more: str = '',
    running: bool = True,
) -> str:
    """A guest with these devices, and ``more`` of them."""
    devices = [
        *(
            _HOSTDEV.format(
                kind="type='mdev' model='vfio-pci'", address=f"uuid='{mdev}'"
            )
            for mdev in mdevs
        ),
        *(
            _HOSTDEV.format(
                kind="type='pci'", address=_write_address(function)
            )
            for function in functions
        ),
        more,
    ]
    state = f'<test:runstate>{_SHUT_OFF}</test:runstate>'
    return _DOMAIN.format(
        name=name,
        uuid=uuid,
        devices=''.join(devices),
        state='' if running else state,
    )


def _write_address(function: values.PciAddress) -> str:
    return (
        f"domain='{function.domain:#x}' bus='{function.bus:#x}' "
        f"slot='{function.slot:#x}' function='{function.function:#x}'"
    )
