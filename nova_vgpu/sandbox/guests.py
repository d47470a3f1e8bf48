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


"""Guests and hosts as ``nova-vgpu guest facts`` reads them.

A :class:`Machine` is what one has in sysfs, procfs and elsewhere;
:func:`write_machine` makes a directory tree of it. ``MACHINES`` has those of
the tests and the documentation.
"""

from collections.abc import Mapping
import dataclasses
import pathlib
import types

from nova_vgpu.sandbox import guest_pci

_NVIDIA, _INTEL, _AMD = 0x10DE, 0x8086, 0x1002
_VGA, _3D, _DISPLAY, _ACCELERATOR = 0x030000, 0x030200, 0x038000, 0x120000
KERNEL = '6.12.0-1-amd64'
#: What the first 64 bytes are: more is for root.
HEADER_BYTES = 64
_NO_IDS = b'\xff\xff\xff\xff'


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A PCI function. ``readable`` is how much of its configuration is."""

    address: str
    ids: tuple[int, int]
    subsystem: tuple[int, int]
    pci_class: int
    capabilities: guest_pci.Capabilities
    driver: str | None = None
    physical_function: str | None = None
    total_vfs: int | None = None
    vfs: int | None = None
    pin: int = 1
    header: bytes = b''
    readable: int = 4096

    @property
    def config(self) -> bytes:
        header = self.header
        if self.physical_function is not None:
            header = _NO_IDS
        return guest_pci.make_config(
            *self.ids,
            self.subsystem,
            self.pci_class,
            self.capabilities,
            self.pin,
            header,
        )[: self.readable]


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A guest or a host.

    ``modules`` are loaded, with their versions; ``available`` could be.
    ``files`` has more, by their paths.
    """

    devices: tuple[Device, ...]
    is_guest: bool = True
    modules: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    available: tuple[str, ...] = ()
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    nvidia_smi: str | None = None


def write_machine(machine: Machine, root: pathlib.Path) -> None:
    """Write it below a directory, which becomes its root."""
    flags = 'fpu vme sse2' + (' hypervisor' if machine.is_guest else '')
    files = {
        'proc/cpuinfo': f'processor\t: 0\nflags\t\t: {flags}\n',
        'proc/sys/kernel/osrelease': f'{KERNEL}\n',
        f'lib/modules/{KERNEL}/modules.dep': ''.join(
            f'updates/dkms/{name}.ko.xz:\n' for name in machine.available
        ),
        f'lib/modules/{KERNEL}/modules.builtin': 'kernel/fs/ext4/ext4.ko\n',
        **{
            f'sys/module/{name}/{"version" if version else "refcnt"}': (
                f'{version or 1}\n'
            )
            for name, version in machine.modules.items()
        },
        **machine.files,
    }
    if machine.nvidia_smi is not None:
        files['usr/bin/nvidia-smi'] = '#!/bin/sh\ncat "$0.txt"\n'
        files['usr/bin/nvidia-smi.txt'] = machine.nvidia_smi
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if name.endswith('nvidia-smi'):
            path.chmod(0o755)
    (root / 'sys/bus/pci/devices').mkdir(parents=True, exist_ok=True)
    for device in machine.devices:
        _write_device(device, root)


def _write_device(device: Device, root: pathlib.Path) -> None:
    folder = root / 'sys/devices/pci0000:00' / device.address
    folder.mkdir(parents=True)
    files = {
        'vendor': f'0x{device.ids[0]:04x}',
        'device': f'0x{device.ids[1]:04x}',
        'subsystem_vendor': f'0x{device.subsystem[0]:04x}',
        'subsystem_device': f'0x{device.subsystem[1]:04x}',
        'class': f'0x{device.pci_class:06x}',
    }
    if device.total_vfs is not None:
        files['sriov_totalvfs'] = str(device.total_vfs)
        files['sriov_numvfs'] = str(device.vfs or 0)
    for name, text in files.items():
        (folder / name).write_text(f'{text}\n')
    (folder / 'config').write_bytes(device.config)
    if device.driver is not None:
        driver = root / 'sys/bus/pci/drivers' / device.driver
        driver.mkdir(parents=True, exist_ok=True)
        (folder / 'driver').symlink_to(
            f'../../../bus/pci/drivers/{device.driver}'
        )
    if device.physical_function is not None:
        (folder / 'physfn').symlink_to(f'../{device.physical_function}')
    (root / 'sys/bus/pci/devices' / device.address).symlink_to(
        f'../../../devices/pci0000:00/{device.address}'
    )


def make_nvidia_smi(
    address: str, name: str, mode: str, product: str = '', status: str = 'N/A'
) -> str:
    """The lines of ``nvidia-smi -q`` that matter, for one GPU.

    Their form is that of NVIDIA's AI Enterprise guide, "Verifying the License
    Status of a Licensed NVIDIA vGPU for Compute Guest VM".
    """
    return (
        '==============NVSMI LOG==============\n\n'
        'Driver Version                            : 550.144.03\n\n'
        'Attached GPUs                             : 1\n'
        f'GPU 0000{address.upper()}\n'
        f'    Product Name                          : {name}\n'
        '    Product Brand                         : NVIDIA\n'
        '    GPU Virtualization Mode\n'
        f'        Virtualization Mode               : {mode}\n'
        '        Host VGPU Mode                    : N/A\n'
        '    vGPU Software Licensed Product\n'
        f'        Product Name                      : {product}\n'
        f'        License Status                    : {status}\n'
        '    PCI\n'
        '        Bus                               : 0x06\n'
    )


_LICENSED = 'Licensed (Expiry: 2027-3-19 7:29:4 GMT)'
_VGPU_550 = guest_pci.make_vgpu_capabilities('550.144.02', 'r550_00')


def _t4_vgpu(**changes: object) -> Device:
    device = Device(
        '0000:06:00.0',
        (_NVIDIA, 0x1EB8),
        (_NVIDIA, 0x130D),
        _VGA,
        _VGPU_550,
        driver='nvidia',
    )
    return dataclasses.replace(device, **changes)  # type: ignore[arg-type]


_A100 = Device(
    '0000:07:00.0',
    (_NVIDIA, 0x20F1),
    (_NVIDIA, 0x145F),
    _3D,
    guest_pci.WHOLE_NVIDIA,
)
_FLEX_VF = Device(
    '0000:06:00.0',
    (_INTEL, 0x56C0),
    (_INTEL, 0x4905),
    _DISPLAY,
    guest_pci.INTEL_VF,
    driver='xe',
    pin=0,
)
_MI300X_VF = Device(
    '0000:08:00.0',
    (_AMD, 0x74B5),
    (_AMD, 0x74A1),
    _ACCELERATOR,
    guest_pci.AMD,
    driver='amdgpu',
    pin=0,
)
_EMULATED = Device(
    '0000:00:01.0', (0x1AF4, 0x1050), (0x1AF4, 0x1100), _VGA, {}, 'virtio-pci'
)
_A40_ADDRESS = '0000:41:00.0'
_A40_FUNCTIONS = (
    Device(
        _A40_ADDRESS,
        (_NVIDIA, 0x2235),
        (_NVIDIA, 0x145A),
        _3D,
        guest_pci.WHOLE_NVIDIA,
        driver='nvidia',
        total_vfs=32,
        vfs=2,
    ),
    *(
        Device(
            f'0000:41:00.{number}',
            (_NVIDIA, 0x2235),
            (_NVIDIA, 0x0000),
            _3D,
            guest_pci.BARE_NVIDIA_VF,
            driver='nvidia',
            physical_function=_A40_ADDRESS,
            pin=0,
        )
        for number in (4, 5)
    ),
)

MACHINES: Mapping[str, Machine] = types.MappingProxyType(
    {
        't4-host': Machine(
            (
                Device(
                    '0000:3d:00.0',
                    (_NVIDIA, 0x1EB8),
                    (_NVIDIA, 0x12A2),
                    _3D,
                    guest_pci.WHOLE_NVIDIA,
                    driver='nvidia',
                    total_vfs=16,
                ),
            ),
            is_guest=False,
            modules={'nvidia': '570.86.15'},
            nvidia_smi=make_nvidia_smi('0000:3d:00.0', 'Tesla T4', 'None'),
        ),
        't4-vgpu': Machine(
            (_EMULATED, _t4_vgpu()),
            modules={'nvidia': '550.144.03'},
            files={
                'usr/bin/nvidia-gridd': '',
                'etc/nvidia/ClientConfigToken/site.tok': 'secret',
            },
            nvidia_smi=make_nvidia_smi(
                '0000:06:00.0',
                'GRID T4-2Q',
                'VGPU',
                'NVIDIA RTX Virtual Workstation',
                _LICENSED,
            ),
        ),
        't4-vgpu-without-driver': Machine((_EMULATED, _t4_vgpu(driver=None))),
        't4-vgpu-as-a-user': Machine(
            (_EMULATED, _t4_vgpu(driver=None, readable=HEADER_BYTES)),
        ),
        'a100-passthrough': Machine(
            (_EMULATED, _A100),
            available=('nvidia',),
        ),
        'a100-mig-vgpu': Machine(
            (
                dataclasses.replace(
                    _A100,
                    subsystem=(_NVIDIA, 0x1493),
                    capabilities=_VGPU_550,
                    driver='nvidia',
                ),
            ),
            modules={'nvidia': '550.144.03'},
            nvidia_smi=make_nvidia_smi(
                '0000:07:00.0',
                'GRID A100-1-5C',
                'VGPU',
                'NVIDIA Virtual Compute Server',
                'Unlicensed (Restricted)',
            ),
        ),
        'oem-board': Machine(
            (
                Device(
                    '0000:00:03.0',
                    (_NVIDIA, 0x1EB1),
                    (0x1028, 0x12A0),
                    _VGA,
                    guest_pci.OLDER_NVIDIA,
                    header=guest_pci.DELL_HEADER,
                ),
            ),
        ),
        'vgpu-host': Machine(
            _A40_FUNCTIONS,
            is_guest=False,
            modules={'nvidia': '550.144.02', 'nvidia_vgpu_vfio': None},
        ),
        'intel-vf': Machine(
            (_EMULATED, _FLEX_VF),
            modules={'xe': None},
            files={
                'sys/kernel/debug/dri/0000:06:00.0/sriov_info': (
                    'supported: yes\nenabled: yes\nmode: SR-IOV VF\n'
                ),
            },
        ),
        'intel-vf-as-a-user': Machine(
            (dataclasses.replace(_FLEX_VF, readable=HEADER_BYTES),),
            modules={'xe': None},
        ),
        'amd-vf': Machine(
            (_EMULATED, _MI300X_VF), modules={'amdgpu': '6.10.5'}
        ),
        'no-gpu': Machine((_EMULATED,)),
        'two-kinds': Machine(
            (_t4_vgpu(driver=None), _A100),
        ),
        'two-vendors': Machine(
            (_t4_vgpu(driver='nouveau'), _MI300X_VF),
            modules={'nouveau': None, 'amdgpu': '6.10.5'},
        ),
        'gpudirect-clique': Machine(
            (
                dataclasses.replace(
                    _A100, capabilities=guest_pci.IN_CLIQUE, driver='nvidia'
                ),
            ),
            modules={'nvidia': '570.86.15'},
        ),
        'vf-without-vgpu': Machine(
            (
                dataclasses.replace(
                    _A40_FUNCTIONS[1],
                    address='0000:06:00.0',
                    physical_function=None,
                    driver=None,
                ),
            ),
        ),
        'gvt-g': Machine(
            (
                Device(
                    '0000:00:03.0',
                    (_INTEL, 0x591D),
                    (0x1028, 0x06DC),
                    _VGA,
                    guest_pci.INTEL,
                    driver='i915',
                ),
            ),
            modules={'i915': None},
        ),
    }
)
