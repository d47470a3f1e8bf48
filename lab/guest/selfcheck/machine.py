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

"""The files of sysfs by which GPUs are known and changed."""

from collections.abc import Iterator
import contextlib
import errno
import functools
import os
import pathlib
import uuid

from lab.guest.selfcheck import registry

DEVICES = pathlib.Path('/sys/bus/pci/devices')
DRIVERS = pathlib.Path('/sys/bus/pci/drivers')
MDEVS = pathlib.Path('/sys/bus/mdev/devices')
RESCAN = pathlib.Path('/sys/bus/pci/rescan')
PROBE = pathlib.Path('/sys/bus/pci/drivers_probe')
STUB = 'pci-pf-stub'


def read(path: pathlib.Path) -> str:
    return path.read_text(encoding='utf-8').strip()


def read_number(path: pathlib.Path) -> int:
    return int(read(path), 0)


def write(path: pathlib.Path, text: object) -> None:
    """Write all of a text at once, as the kernel wants it."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, f'{text}\n'.encode())
    finally:
        os.close(fd)


def refusal(path: pathlib.Path, text: object) -> str:
    """The name of the error that a write ends with; nothing if it does not."""
    try:
        write(path, text)
    except OSError as e:
        return errno.errorcode.get(e.errno or 0, str(e))
    return ''


class Function:
    """A function of a GPU, with the types that it may offer."""

    def __init__(self, address: str = '') -> None:
        self._address = address

    @property
    def address(self) -> str:
        return self._address

    @property
    def path(self) -> pathlib.Path:
        return DEVICES / self.address

    @property
    def driver(self) -> str | None:
        try:
            return (self.path / 'driver').readlink().name
        except FileNotFoundError:
            return None

    def unbind(self) -> None:
        write(DRIVERS / (self.driver or '') / 'unbind', self.address)

    @property
    def node_device(self) -> str:
        return 'pci_' + self.address.replace(':', '_').replace('.', '_')

    def ids(self) -> tuple[int, ...]:
        """Vendor, device, those of the subsystem, and the class."""
        names = ('vendor', 'device', 'subsystem_vendor', 'subsystem_device')
        return tuple(
            read_number(self.path / name) for name in (*names, 'class')
        )

    # -- mdev ---------------------------------------------------------------

    @property
    def types(self) -> pathlib.Path:
        return self.path / 'mdev_supported_types'

    def type_path(self, name: str) -> pathlib.Path:
        """The directory of the type with a name, whatever its id is."""
        for path in self.types.iterdir():
            if read(path / 'name') == name:
                return path
        raise registry.Failed(f'{self.address} has no type {name}')

    def available(self, name: str) -> int:
        return read_number(self.type_path(name) / 'available_instances')

    def create(self, name: str) -> str:
        """Make an mdev; its UUID."""
        new = str(uuid.uuid4())
        write(self.type_path(name) / 'create', new)
        return new

    def refused_create(self, name: str, which: str | None = None) -> str:
        """The error with which an mdev is refused."""
        path = self.type_path(name) / 'create'
        return refusal(path, which or uuid.uuid4())

    # -- vendor-specific VFIO -----------------------------------------------

    @property
    def current(self) -> pathlib.Path:
        return self.path / 'nvidia' / 'current_vgpu_type'

    def creatable(self) -> dict[str, int]:
        """Names and numbers of the types that fit now."""
        text = read(self.path / 'nvidia' / 'creatable_vgpu_types')
        header, *lines = text.splitlines()
        registry.same('the header', header, 'ID    : vGPU Name')
        pairs = (line.split(' : ') for line in lines)
        return {name: int(number) for number, name in pairs}


class GPU(Function):
    """A physical function, known by its ids."""

    def __init__(
        self, vendor: int, device: int, own_driver: str = 'nvidia'
    ) -> None:
        super().__init__()
        self._ids = vendor, device
        self.own_driver = own_driver

    @functools.cached_property
    def address(self) -> str:
        """Where it was when it was first asked for.

        :raises Failed: if there is no such GPU, or another one.
        """
        found = [
            path.name
            for path in sorted(DEVICES.iterdir())
            if Function(path.name).ids()[:2] == self._ids
            and not (path / 'physfn').exists()
        ]
        if len(found) != 1:
            vendor, device = self._ids
            raise registry.Failed(
                f'{len(found)} GPUs are {vendor:04x}:{device:04x}, not 1: '
                'are the modules loaded, and the devices of QEMU there?'
            )
        return found[0]

    @property
    def knobs(self) -> pathlib.Path:
        return self.path / 'fakevgpu'

    @property
    def nvml(self) -> pathlib.Path:
        """What the library that stands in for NVML reads."""
        return self.path / 'fakenvml'

    @property
    def numvfs(self) -> pathlib.Path:
        return self.path / 'sriov_numvfs'

    @property
    def has_sriov(self) -> bool:
        return self.numvfs.exists()

    def vfs(self) -> list[Function]:
        count = read_number(self.numvfs) if self.has_sriov else 0
        links = (self.path / f'virtfn{i}' for i in range(count))
        return [Function(link.readlink().name) for link in links]

    def functions(self) -> list[Function]:
        return [self, *self.vfs()]

    def have_vfs(self, count: int) -> list[Function]:
        """So many VFs, of those that there may be."""
        if read_number(self.numvfs) < count:
            write(self.numvfs, 0)
            write(self.numvfs, count)
        return self.vfs()[:count]

    @contextlib.contextmanager
    def knob(self, name: str, value: int) -> Iterator[None]:
        before = read(self.knobs / name)
        write(self.knobs / name, value)
        try:
            yield
        finally:
            write(self.knobs / name, before)

    def bind(self, driver: str) -> None:
        own = driver == self.own_driver
        write(self.path / 'driver_override', '' if own else driver)
        write(DRIVERS / driver / 'bind', self.address)

    def clear(self) -> None:
        """No vGPUs and no faults, on its own driver; VFs stay."""
        if not self.path.exists():
            write(RESCAN, 1)
        if self.driver != self.own_driver:
            if self.driver is not None:
                write(self.numvfs, 0)
                self.unbind()
            self.bind(self.own_driver)
        write(self.knobs / 'create_errno', 0)
        write(self.knobs / 'delay_ms', 0)
        for function in self.functions():
            for mdev in MDEVS.glob('*') if MDEVS.exists() else ():
                if mdev.resolve().parent.name == function.address:
                    write(mdev / 'remove', 1)
            if function.current.exists():
                write(function.current, 0)
        if self is A100 and read(self.nvml / 'mig') != '0 0':
            write(self.numvfs, 0)
            write(self.nvml / 'mig', 0)
        # As it is when the driver comes: Intel's shares without being told.
        own = int(self.own_driver == 'i915')
        write(self.knobs / 'heterogeneous', own)


class ProvisionedGPU(GPU):
    """A GPU whose driver provisions its VFs; it has no knobs."""

    @property
    def admin(self) -> pathlib.Path:
        return self.path / 'sriov_admin'

    def profile(self, vf: int, name: str) -> str:
        """What a VF has of something; they are counted from 1."""
        return read(self.admin / f'vf{vf}' / 'profile' / name)

    def clear(self) -> None:
        """No VFs and no quotas, on its own driver."""
        if not self.path.exists():
            write(RESCAN, 1)
        if self.driver != self.own_driver:
            self.bind(self.own_driver)
        write(self.numvfs, 0)
        for name in ('vram_quota', 'exec_quantum_ms', 'preempt_timeout_us'):
            write(self.admin / '.bulk_profile' / name, 0)
        write(self.admin / '.bulk_profile' / 'sched_priority', 'low')


T4 = GPU(0x10DE, 0x1EB8)
A10 = GPU(0x10DE, 0x2236)
L40S = GPU(0x10DE, 0x26B9)
A100 = GPU(0x10DE, 0x20B5)
INTEL = GPU(0x8086, 0x191B, 'i915')
B60 = ProvisionedGPU(0x8086, 0xE211, 'xe')
#: Those of fakevgpu.
GPUS = (T4, A10, L40S, A100, INTEL)


def clear() -> None:
    for gpu in (*GPUS, B60):
        gpu.clear()
