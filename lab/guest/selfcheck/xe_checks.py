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

"""The GPU of Intel whose driver provisions virtual functions."""

from lab.guest.selfcheck import guest_checks
from lab.guest.selfcheck import machine
from lab.guest.selfcheck import registry

_B60 = machine.B60
_GIB = 1 << 30
_STEP = 2 << 20
_VFS = 4
_EQUAL = 24480 // _VFS << 20


def _quotas(count: int = _VFS) -> list[int]:
    return [int(_B60.profile(n, 'vram_quota')) for n in range(1, count + 1)]


def _links() -> list[str]:
    """The VFs that sriov_admin shows as enabled, in its order."""
    total = machine.read_number(_B60.path / 'sriov_totalvfs')
    links = (_B60.admin / f'vf{n}' / 'device' for n in range(1, total + 1))
    return [link.readlink().name for link in links if link.is_symlink()]


@registry.check('B60: its ids and its directories')
def _tree() -> None:
    ids = (0x8086, 0xE211, 0x8086, 0x1114, 0x030000)
    registry.same('ids', _B60.ids(), ids)
    registry.same('driver', _B60.driver, 'xe')
    total = machine.read_number(_B60.path / 'sriov_totalvfs')
    vfs = {f'vf{number}' for number in range(1, total + 1)}
    found = {path.name for path in _B60.admin.iterdir()}
    registry.same('directories', found, {'.bulk_profile', 'pf', *vfs})
    timing = {'exec_quantum_ms', 'preempt_timeout_us', 'sched_priority'}
    for name, files in (('pf', timing), ('vf1', {'vram_quota', *timing})):
        paths = (_B60.admin / name / 'profile').iterdir()
        registry.same(f'of {name}', {path.name for path in paths}, files)
    device = _B60.admin / 'pf' / 'device'
    registry.same('of the GPU', device.readlink().name, _B60.address)
    registry.same('VFs', _links(), [])


@registry.check('B60: equal shares for VFs, as long as they are enabled')
def _equal() -> None:
    vfs = _B60.have_vfs(_VFS)
    registry.same('quotas', _quotas(), [_EQUAL] * _VFS)
    registry.same('links', _links(), [vf.address for vf in vfs])
    ids = (0x8086, 0xE211, 0x8086, 0, 0x030000)
    for vf in vfs:
        registry.same(f'ids of {vf.address}', vf.ids(), ids)
        registry.same('its driver', vf.driver, 'xe')
    total = machine.read_number(_B60.path / 'sriov_totalvfs')
    numbers = (total + 1, _VFS - 1)
    refused = [machine.refusal(_B60.numvfs, number) for number in numbers]
    registry.same('other numbers', refused, ['ERANGE', 'EBUSY'])
    machine.write(_B60.admin / 'vf1' / 'profile' / 'exec_quantum_ms', 20)
    machine.write(_B60.numvfs, 0)
    registry.same('quotas afterwards', _quotas(), [0] * _VFS)
    quantum = _B60.profile(1, 'exec_quantum_ms')
    registry.same('quantum afterwards', quantum, '0')
    registry.same('links afterwards', _links(), [])


@registry.check('B60: quotas, which keep the driver from choosing')
def _custom() -> None:
    quota = _B60.admin / 'vf1' / 'profile' / 'vram_quota'
    machine.write(quota, 6 * _GIB + 1)
    registry.same('rounded', _quotas(1), [6 * _GIB + _STEP])
    refused = [machine.refusal(quota, text) for text in ('x', 24 * _GIB)]
    registry.same('other quotas', refused, ['EINVAL', 'ENOSPC'])
    _B60.have_vfs(2)
    registry.same('the others', _quotas(), [6 * _GIB + _STEP, 0, 0, 0])
    other = _B60.admin / 'vf2' / 'profile' / 'vram_quota'
    registry.same('what is left', machine.refusal(other, 17 * _GIB), '')
    registry.same('one more', machine.refusal(quota, 7 * _GIB), 'ENOSPC')


@registry.check('B60: scheduling, of one VF and of all')
def _scheduling() -> None:
    for name, most in (
        ('exec_quantum_ms', 100_000),
        ('preempt_timeout_us', 100_000_000),
    ):
        machine.write(_B60.admin / 'vf2' / 'profile' / name, most)
        found = [_B60.profile(number, name) for number in (1, 2)]
        registry.same(name, found, ['0', str(most)])
        bulk = _B60.admin / '.bulk_profile' / name
        registry.same('too much', machine.refusal(bulk, most + 1), 'EIO')
        machine.write(bulk, 10)
        found = [_B60.profile(number, name) for number in (1, 2)]
        registry.same(f'{name} of all', found, ['10', '10'])
    name = 'sched_priority'
    own = _B60.admin / 'vf1' / 'profile' / name
    registry.same('of one', machine.refusal(own, 'normal'), 'EACCES')
    bulk = _B60.admin / '.bulk_profile' / name
    registry.same('high for all', machine.refusal(bulk, 'high'), 'EINVAL')
    machine.write(bulk, 'normal')
    registry.same('of all', _B60.profile(1, name), 'low [normal]')


@registry.check('B60: vfio-pci gets a VF, and xe gets it back')
def _vfio() -> None:
    (vf,) = _B60.have_vfs(1)
    for driver in ('vfio-pci', 'xe'):
        override = '' if driver == 'xe' else driver
        machine.write(vf.path / 'driver_override', override)
        vf.unbind()
        machine.write(machine.PROBE, vf.address)
        registry.same('its driver', vf.driver, driver)
        if driver == 'vfio-pci':
            registry.same('a guest', guest_checks.open_as_vfio(vf), '')


@registry.check('B60: comes and goes, with VFs')
def _presence() -> None:
    _B60.have_vfs(2)
    _B60.unbind()
    left = _B60.admin.exists(), machine.read(_B60.numvfs)
    registry.same('what is left', left, (False, '0'))
    _B60.bind('xe')
    _B60.have_vfs(2)
    registry.same('links', len(_links()), 2)
    machine.write(_B60.path / 'remove', 1)
    registry.same('the GPU', _B60.path.exists(), False)
    machine.write(machine.RESCAN, 1)
    registry.same('its driver', _B60.driver, 'xe')
    registry.same('quotas', _quotas(), [0] * _VFS)
