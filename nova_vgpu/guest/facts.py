#!/usr/bin/env python3
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

"""Which GPUs this machine has, and which driver and licence they need.

This file is the module behind ``nova-vgpu guest facts``. It is also complete
in itself: copied to ``/etc/ansible/facts.d/gpu.fact`` of a guest and made
executable, it prints one JSON object, which is ``ansible_local.gpu``. It needs
Python 3.6 or newer and nothing else.

It only reads: the files of sysfs, procfs and some of the system, all below one
root directory, and the output of ``nvidia-smi -q`` if NVIDIA's driver is
loaded. What cannot be read is "unknown" (null), which is not "no", and
``problems`` says why. No content of these files makes it fail.

A vGPU of NVIDIA is recognised by its own vendor-specific PCI capability. Its
subsystem id is not used for that: the ids of new types and of boards of other
manufacturers are in no list.
"""

import argparse
import contextlib
import json
import os
import re
import selectors
import signal
import stat
import subprocess
import sys
import time
import typing

NVIDIA, INTEL, AMD = 'nvidia', 'intel', 'amd'
_VENDORS = {'10de': NVIDIA, '8086': INTEL, '1002': AMD}
# Base classes of PCI: display controllers, and processing accelerators. The
# latter are GPUs if they are AMD's; Intel's are NPUs.
_DISPLAY, _ACCELERATOR = '03', '12'

PHYSICAL, VGPU, VF, UNKNOWN = 'physical', 'vgpu', 'vf', 'unknown'

#: The kinds of drivers: of a vGPU, of a whole GPU, and of a host of vGPUs.
VGPU_GUEST, DATACENTER, VGPU_HOST = 'vgpu-guest', 'datacenter', 'vgpu-host'
#: What a GPU needs that the machine only passes on to guests.
NO_DRIVER = 'none'

LICENSED, UNLICENSED, NOT_NEEDED = 'licensed', 'unlicensed', 'not-needed'

# AMD gives virtual functions a device id of their own: pci.ids (names with
# "VF" or "MxGPU"), and the labels of ROCm/gpu-operator (gpu-nfd-default-rule).
_AMD_VFS = frozenset(
    (
        *('686c', '692f', '73ae', '73ce', '7410', '7461', '74b5', '74b6'),
        *('74b9', '74bc', '74bd', '75b0', '75b3', '75b8'),
    )
)
# The first byte of the device ids of Broadwell, Skylake, Broxton, Kaby Lake,
# Coffee Lake and Comet Lake, which can have GVT-g: Linux,
# drivers/gpu/drm/i915/intel_gvt.c and include/drm/intel/pciids.h.
_INTEL_GVT = frozenset(('0a', '16', '19', '1a', '3e', '59', '5a', '87', '9b'))

_ADDRESS = re.compile(r'[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]')
_HEX = re.compile(r'0x([0-9a-f]{4,8})')
_RELEASE = re.compile(r'[A-Za-z0-9][A-Za-z0-9._+~-]{0,120}')
_VERSION = re.compile(r'[0-9][A-Za-z0-9.+~-]{0,40}')
# In the first line of /proc/driver/nvidia/version, behind other words.
_NVIDIA_VERSION = re.compile(r'(?<= )[0-9]{3}(?:\.[0-9]{1,4}){1,3}(?= )')
# "GRID T4-2Q", "NVIDIA A100-1-5CME": the digit before the size counts the
# slices of a MIG instance.
_TYPE = re.compile(
    r'(?:GRID |NVIDIA )?(.{1,40}?-(?:([1-9])-)?[0-9]{1,3}[ABCQ][0-9A-Z]{0,6})'
)

_MOST_BYTES = 65536
_MOST_BYTES_OF_LISTS = 8 * 1024 * 1024
_LONGEST_LINE = 300
_LONGEST_TEXT = 120


# What was found: values.


class VendorCapabilities(typing.NamedTuple):
    """The vendor-specific capabilities of a function, without their headers.

    ``gap`` says what of the list could not be read; empty if it is complete.
    """

    payloads: typing.Tuple[bytes, ...] = ()
    gap: str = ''


class HostDriver(typing.NamedTuple):
    """What a vGPU tells about the driver of its host."""

    version: typing.Optional[str] = None
    branch: typing.Optional[str] = None


class Licence(typing.NamedTuple):
    """The licence of one GPU; ``status`` is the text of nvidia-smi."""

    state: str = UNKNOWN
    product: typing.Optional[str] = None
    status: typing.Optional[str] = None
    expiry: typing.Optional[str] = None


class DriverView(typing.NamedTuple):
    """What nvidia-smi says about one GPU."""

    name: typing.Optional[str] = None
    mode: typing.Optional[str] = None
    licence_product: typing.Optional[str] = None
    licence_status: typing.Optional[str] = None


class Function(typing.NamedTuple):
    """A PCI function that is a GPU, as it is read."""

    address: str
    vendor_id: str
    device_id: str
    subsystem_vendor_id: typing.Optional[str]
    subsystem_device_id: typing.Optional[str]
    pci_class: str
    config: typing.Optional[bytes]
    kernel_driver: typing.Optional[str]
    physical_function: typing.Optional[str]
    total_vfs: typing.Optional[int]
    vfs: typing.Optional[int]
    has_vgpu_types: bool
    xe_mode: typing.Optional[str]

    @property
    def vendor(self) -> str:
        return _VENDORS[self.vendor_id]

    @property
    def has_interrupt_pin(self) -> typing.Optional[bool]:
        """A VF has none: SR-IOV specification 1.1, section 3.4.1.18."""
        if self.config is None or len(self.config) <= _INTERRUPT_PIN:
            return None
        if self.config[:_HEADER_BYTES].count(0xFF) == _HEADER_BYTES:
            return None
        return self.config[_INTERRUPT_PIN] != 0


class GPU(typing.NamedTuple):
    """One GPU. ``reason`` is why it has this ``kind``."""

    address: str
    vendor: str
    vendor_id: str
    device_id: str
    subsystem_vendor_id: typing.Optional[str]
    subsystem_device_id: typing.Optional[str]
    pci_class: str
    kind: str
    reason: str
    name: typing.Optional[str]
    vgpu_type: typing.Optional[str]
    is_mig_backed: typing.Optional[bool]
    host_driver_version: typing.Optional[str]
    host_driver_branch: typing.Optional[str]
    physical_function: typing.Optional[str]
    vfs: typing.Optional[int]
    kernel_driver: typing.Optional[str]
    driver_needed: typing.Optional[str]
    licence: Licence


class Driver(typing.NamedTuple):
    """A driver that is needed, and whether it is there.

    ``is_right_kind`` is unknown unless something proves it; ``reason`` says
    what.
    """

    kind: typing.Optional[str]
    gpus: typing.Tuple[str, ...]
    module: str
    is_installed: typing.Optional[bool]
    is_loaded: bool
    version: typing.Optional[str]
    is_right_kind: typing.Optional[bool]
    reason: str


class Override(typing.NamedTuple):
    """A fact that the operator has set, and where."""

    value: bool
    source: str


class Facts(typing.NamedTuple):
    """Everything, in the order in which it is printed."""

    has_gpu: typing.Optional[bool]
    is_virtual_gpu: typing.Optional[bool]
    is_gpu_cluster: bool
    is_guest: typing.Optional[bool]
    drivers_needed: typing.Tuple[str, ...]
    licence: str
    is_licence_configured: typing.Optional[bool]
    gpus: typing.Tuple[GPU, ...]
    drivers: typing.Tuple[Driver, ...]
    detected: typing.Dict[str, typing.Optional[bool]]
    overrides: typing.Dict[str, Override]
    problems: typing.Tuple[str, ...]


def make_plain(value: typing.Any) -> typing.Any:
    """The same of dictionaries, lists, text and numbers, for JSON."""
    if hasattr(value, '_asdict'):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: make_plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [make_plain(inner) for inner in value]
    return value


# The configuration space. The offsets are those of the Linux kernel's
# include/uapi/linux/pci_regs.h.

_HEADER_BYTES = 64
_STANDARD_BYTES = 256
_COMMAND_STATUS, _HAS_CAPABILITIES = 0x06, 0x10
_HEADER_TYPE = 0x0E
_FIRST_CAPABILITY = 0x34
_INTERRUPT_PIN = 0x3D
_VENDOR_SPECIFIC = 0x09
_NOT_A_CAPABILITY = 0xFF
_NOT_ROOT = 'only root can read its PCI capabilities'


def find_vendor_capabilities(data: bytes) -> VendorCapabilities:
    """All vendor-specific capabilities, as far as the data has them.

    GPUs have more than one: QEMU adds one for GPUDirect (payload "P2P"), and
    an empty capability (id 0) in the middle of the list is normal on a T4.
    """
    if len(data) < _HEADER_BYTES:
        return VendorCapabilities(
            gap=f'its configuration space is cut off after {len(data)} bytes'
        )
    if data[:_HEADER_BYTES].count(0xFF) == _HEADER_BYTES:
        return VendorCapabilities(gap='the device does not answer')
    if data[_HEADER_TYPE] & 0x7F:
        return VendorCapabilities(gap='its PCI header is not that of a GPU')
    if not data[_COMMAND_STATUS] & _HAS_CAPABILITIES:
        return VendorCapabilities()
    if len(data) == _HEADER_BYTES:
        return VendorCapabilities(gap=_NOT_ROOT)
    return _walk_capabilities(data[:_STANDARD_BYTES])


def _walk_capabilities(data: bytes) -> VendorCapabilities:
    payloads = []
    gap = ''
    seen = set()  # type: typing.Set[int]
    at = data[_FIRST_CAPABILITY] & 0xFC
    while at:
        if at < _HEADER_BYTES or at in seen:
            gap = 'its list of PCI capabilities is damaged'
            break
        if at + 3 > len(data):
            gap = f'its configuration space is cut off after {len(data)} bytes'
            break
        seen.add(at)
        found, following, length = data[at], data[at + 1], data[at + 2]
        if found == _NOT_A_CAPABILITY:
            gap = 'its list of PCI capabilities is damaged'
            break
        if found == _VENDOR_SPECIFIC:
            payloads.append(data[at + 3 : at + length])
            if length < 3 or at + length > len(data):
                gap = 'a vendor-specific PCI capability is cut off'
        at = following & 0xFC
    return VendorCapabilities(tuple(payloads), gap)


# The vGPU's capability. Its payload is "VF" and then records of an id, a
# length that counts both, and data; record 0 is the version (10 bytes) and the
# branch (10 bytes) of the host's driver, padded with zeros. The layout is what
# NVIDIA's gpu-feature-discovery (internal/vgpu, now in k8s-device-plugin)
# reads; a V100 vGPU shows the same capability of 27 bytes at 0xd0 (lspci in
# cloud-hypervisor/cloud-hypervisor issue 5319).

_SIGNATURE = b'VF'
_DRIVER_RECORD = 0
_PADDED = 10
_HOST_VERSION = re.compile(rb'[0-9]{2,4}(?:\.[0-9]{1,4}){1,3}')
_HOST_BRANCH = re.compile(rb'[A-Za-z0-9][A-Za-z0-9_.-]{0,9}')


def parse_vgpu_capability(payload: bytes) -> typing.Optional[HostDriver]:
    """What a vGPU tells about its host; None if it is not a vGPU's."""
    if not payload.startswith(_SIGNATURE):
        return None
    at = len(_SIGNATURE)
    while at + 2 <= len(payload):
        record, length = payload[at], payload[at + 1]
        if record == _DRIVER_RECORD:
            data = payload[at + 2 : at + max(length, 2)]
            return HostDriver(
                _match_padded(_HOST_VERSION, data[:_PADDED]),
                _match_padded(_HOST_BRANCH, data[_PADDED : 2 * _PADDED]),
            )
        if length < 2:
            break
        at += length
    return HostDriver()


def _match_padded(
    pattern: 'typing.Pattern[bytes]', data: bytes
) -> typing.Optional[str]:
    text = data.rstrip(b'\0')
    if len(data) < _PADDED or not pattern.fullmatch(text):
        return None
    return text.decode('ascii')


# Decisions.


def classify(
    function: Function,
    view: DriverView,
    is_guest: typing.Optional[bool] = None,
) -> typing.Tuple[str, str, HostDriver]:
    """The kind of a GPU, why, and what it tells about its host."""
    if function.physical_function is not None:
        why = f'a virtual function of {function.physical_function}'
        return VF, why, HostDriver()
    if function.vendor == NVIDIA:
        return _classify_nvidia(function, view)
    decide = _classify_intel if function.vendor == INTEL else _classify_amd
    kind, why = decide(function, is_guest)
    return kind, why, HostDriver()


def _classify_nvidia(
    function: Function, view: DriverView
) -> typing.Tuple[str, str, HostDriver]:
    found = VendorCapabilities(gap='its configuration space cannot be read')
    if function.config is not None:
        found = find_vendor_capabilities(function.config)
    for payload in found.payloads:
        host = parse_vgpu_capability(payload)
        if host is not None:
            return VGPU, 'it has the PCI capability of a vGPU', host
    kind, why = _classify_without_capability(function, view, found.gap)
    return kind, why, HostDriver()


def _classify_without_capability(
    function: Function, view: DriverView, gap: str
) -> typing.Tuple[str, str]:
    mode = (view.mode or '').lower()
    if mode == 'vgpu':
        return VGPU, 'nvidia-smi shows the virtualization mode VGPU'
    if function.total_vfs is not None:
        return PHYSICAL, 'it can have virtual functions itself'
    if mode in ('pass-through', 'none', 'host vgpu', 'host vsga'):
        return PHYSICAL, 'nvidia-smi shows the virtualization mode ' + str(
            view.mode
        )
    if gap:
        return UNKNOWN, gap
    if function.subsystem_device_id == '0000' and not (
        function.has_interrupt_pin
    ):
        return UNKNOWN, (
            'it looks like a virtual function without a vGPU: the host has '
            'to set a vGPU type on it before it is passed through'
        )
    return PHYSICAL, 'it does not have the PCI capability of a vGPU'


def _classify_intel(
    function: Function, is_guest: typing.Optional[bool]
) -> typing.Tuple[str, str]:
    if function.total_vfs is not None:
        return PHYSICAL, 'it can have virtual functions itself'
    if function.xe_mode == 'SR-IOV VF':
        return VF, 'the driver xe says that it is a virtual function'
    if function.xe_mode in ('SR-IOV PF', 'none'):
        return PHYSICAL, 'the driver xe says that it is not virtual'
    if not function.has_interrupt_pin:
        return UNKNOWN, _explain_pin(function)
    if is_guest is not False and function.device_id[:2] in _INTEL_GVT:
        return UNKNOWN, 'a GVT-g vGPU looks like the physical GPU'
    return PHYSICAL, 'it has an interrupt pin, a virtual function has none'


def _classify_amd(
    function: Function, _is_guest: typing.Optional[bool]
) -> typing.Tuple[str, str]:
    if function.total_vfs is not None:
        return PHYSICAL, 'it can have virtual functions itself'
    if function.device_id in _AMD_VFS:
        return VF, 'its device id is that of a virtual function'
    if not function.has_interrupt_pin:
        return UNKNOWN, _explain_pin(function)
    return PHYSICAL, 'it has an interrupt pin, a virtual function has none'


def _explain_pin(function: Function) -> str:
    if function.has_interrupt_pin is None:
        return 'its configuration space cannot be read'
    return 'it has no interrupt pin, so it may be a virtual function'


def detect_virtual(
    gpus: typing.Iterable[typing.Tuple[Function, str]],
) -> typing.Optional[bool]:
    """Whether there is a vGPU of NVIDIA; the VFs of a host are not vGPUs."""
    kinds = {kind for function, kind in gpus if function.vendor == NVIDIA}
    if VGPU in kinds:
        return True
    return None if UNKNOWN in kinds else False


def choose_driver(
    function: Function,
    kind: str,
    is_virtual_gpu: typing.Optional[bool],
    is_vgpu_host: bool,
) -> typing.Optional[str]:
    """The kind of driver that a GPU needs; None is unknown.

    The driver for vGPUs serves whole GPUs as well, so one vGPU decides for all
    GPUs of NVIDIA in a guest.
    """
    if function.kernel_driver == 'vfio-pci':
        return NO_DRIVER
    if function.vendor != NVIDIA:
        return function.vendor
    if kind == VF or (is_vgpu_host and kind == PHYSICAL):
        return VGPU_HOST
    if is_virtual_gpu is None:
        return None
    return VGPU_GUEST if is_virtual_gpu else DATACENTER


def decide_licence(
    kind: str, view: DriverView, is_configured: typing.Optional[bool]
) -> Licence:
    """The licence of a GPU of NVIDIA, as its driver tells.

    A whole GPU can have one, for a virtual workstation: it needs one if the
    operator has configured it.
    """
    status = view.licence_status
    if not status or status == 'N/A':
        return Licence(NOT_NEEDED if kind in (PHYSICAL, VF) else UNKNOWN)
    word = status.lower()
    state = UNKNOWN
    if word.startswith('licensed'):
        state = LICENSED
    elif word.startswith('unlicensed'):
        state = UNLICENSED
        if kind in (PHYSICAL, VF) and not is_configured:
            state = UNKNOWN if is_configured is None else NOT_NEEDED
    expiry = re.search(r'\(Expiry: ([^()]{1,60})\)', status)
    return Licence(
        state,
        view.licence_product,
        status,
        expiry.group(1) if expiry else None,
    )


def summarise_licences(gpus: typing.Iterable[GPU]) -> str:
    """The worst one, in the order of what the operator has to do."""
    states = {gpu.licence.state for gpu in gpus}
    for state in (UNLICENSED, UNKNOWN, LICENSED):
        if state in states:
            return state
    return NOT_NEEDED


def parse_type_name(
    name: typing.Optional[str],
) -> typing.Tuple[typing.Optional[str], typing.Optional[bool]]:
    """The vGPU type in the name of a GPU, and whether MIG backs it."""
    match = _TYPE.fullmatch(name or '')
    if match is None:
        return None, None
    return match.group(1), match.group(2) is not None


# Reading. Every path is below one root, every file may have any content.


class Tree:
    """The files below one root directory; what cannot be read is None."""

    def __init__(self, root: str = '/') -> None:
        self.root = root

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def read(
        self, *parts: str, most_bytes: int = _MOST_BYTES
    ) -> typing.Optional[bytes]:
        """The beginning of a regular file."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path(*parts), flags)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                return _read_up_to(descriptor, most_bytes)
            finally:
                os.close(descriptor)
        except OSError:
            return None

    def text(
        self, *parts: str, most_bytes: int = _MOST_BYTES
    ) -> typing.Optional[str]:
        data = self.read(*parts, most_bytes=most_bytes)
        return None if data is None else data.decode('utf-8', 'replace')

    def list(self, *parts: str) -> typing.Optional[typing.List[str]]:
        try:
            return sorted(os.listdir(self.path(*parts)))
        except OSError:
            return None

    def link(self, *parts: str) -> typing.Optional[str]:
        """The last part of what a symbolic link leads to."""
        try:
            target = os.readlink(self.path(*parts))
        except OSError:
            return None
        return os.path.basename(target)

    def exists(self, *parts: str) -> bool:
        return os.path.exists(self.path(*parts))

    def is_directory(self, *parts: str) -> bool:
        return os.path.isdir(self.path(*parts))


def _read_up_to(descriptor: int, most_bytes: int) -> bytes:
    data = b''
    while len(data) < most_bytes:
        more = os.read(descriptor, most_bytes - len(data))
        if not more:
            break
        data += more
    return data


_PCI = ('sys', 'bus', 'pci', 'devices')
_CONFIG_BYTES = 4096


def read_functions(
    tree: Tree,
) -> typing.Tuple[typing.Optional[typing.List[Function]], typing.List[str]]:
    """The GPUs on the PCI bus, and what could not be read.

    The first is None if it is unknown whether there are any.
    """
    where = tree.path(*_PCI)
    names = tree.list(*_PCI)
    if names is None:
        if tree.list('sys', 'bus') is not None and not tree.exists(*_PCI):
            return [], []  # a machine without PCI
        return None, [f'{where} cannot be read.']
    functions = []
    problems = []
    for name in names:
        if _ADDRESS.fullmatch(name) is None:
            shown = make_printable(name)
            problems.append(f'{shown!r} in {where} is not a PCI address.')
            continue
        function, problem = _read_function(tree, name)
        if function is not None:
            functions.append(function)
        if problem:
            problems.append(f'{name}: {problem}.')
    return functions, problems


def _read_function(
    tree: Tree, address: str
) -> typing.Tuple[typing.Optional[Function], str]:
    config = tree.read(*_PCI, address, 'config', most_bytes=_CONFIG_BYTES)
    vendor_id = _read_id(tree, address, 'vendor', config, 0x00)
    pci_class = _read_class(tree, address, config)
    if vendor_id is None or pci_class is None:
        return None, 'its vendor and class cannot be read'
    if not is_gpu(vendor_id, pci_class):
        return None, ''
    device_id = _read_id(tree, address, 'device', config, 0x02)
    if device_id is None:
        return None, 'its device id cannot be read'
    function = Function(
        address,
        vendor_id,
        device_id,
        _read_id(tree, address, 'subsystem_vendor', config, 0x2C),
        _read_id(tree, address, 'subsystem_device', config, 0x2E),
        pci_class,
        config,
        _read_name(tree.link(*_PCI, address, 'driver')),
        _read_address(tree.link(*_PCI, address, 'physfn')),
        _read_count(tree, address, 'sriov_totalvfs'),
        _read_count(tree, address, 'sriov_numvfs'),
        tree.is_directory(*_PCI, address, 'mdev_supported_types')
        or tree.is_directory(*_PCI, address, 'nvidia'),
        _read_xe_mode(tree, address),
    )
    return function, ''


def is_gpu(vendor_id: str, pci_class: str) -> bool:
    """Whether a function is a GPU of one of the three vendors."""
    vendor = _VENDORS.get(vendor_id)
    base = pci_class[:2]
    return vendor is not None and (
        base == _DISPLAY or (base == _ACCELERATOR and vendor == AMD)
    )


def _read_hex(tree: Tree, address: str, name: str) -> typing.Optional[str]:
    text = tree.text(*_PCI, address, name)
    match = _HEX.fullmatch((text or '').strip().lower())
    return match.group(1) if match else None


def _read_id(
    tree: Tree,
    address: str,
    name: str,
    config: typing.Optional[bytes],
    offset: int,
) -> typing.Optional[str]:
    """An id of four digits, from its file, else from the header.

    The file comes first: a virtual function has no ids in its header.
    """
    found = _read_hex(tree, address, name)
    if found is not None and len(found) == 4:
        return found
    if config is None or len(config) < offset + 2:
        return None
    return f'{config[offset] | config[offset + 1] << 8:04x}'


def _read_class(
    tree: Tree, address: str, config: typing.Optional[bytes]
) -> typing.Optional[str]:
    """Base class and subclass, as lspci prints them."""
    found = _read_hex(tree, address, 'class')
    if found is not None and len(found) == 6:
        return found[:4]
    if config is None or len(config) < 0x0C:
        return None
    return f'{config[0x0B]:02x}{config[0x0A]:02x}'


def _read_count(tree: Tree, address: str, name: str) -> typing.Optional[int]:
    text = (tree.text(*_PCI, address, name) or '').strip()
    return int(text) if re.fullmatch('[0-9]{1,5}', text) else None


def _read_address(name: typing.Optional[str]) -> typing.Optional[str]:
    return name if name and _ADDRESS.fullmatch(name) else None


def _read_name(name: typing.Optional[str]) -> typing.Optional[str]:
    return name if name and re.fullmatch('[A-Za-z0-9_-]{1,60}', name) else None


def _read_xe_mode(tree: Tree, address: str) -> typing.Optional[str]:
    """What Intel's driver xe says about itself; only root can read it.

    Linux, drivers/gpu/drm/xe/xe_debugfs.c and xe_sriov.c. The folder has the
    PCI address as its name since Linux 6.8.
    """
    folder = ('sys', 'kernel', 'debug', 'dri', address)
    text = tree.text(*folder, 'sriov_info') or ''
    match = re.search(
        r'^mode: (SR-IOV VF|SR-IOV PF|none)$', text, re.MULTILINE
    )
    return match.group(1) if match else None


_VIRTUAL_MACHINES = re.compile(
    'QEMU|KVM|OpenStack|VMware|VirtualBox|Virtual Machine|HVM domU'
)


def read_is_guest(tree: Tree) -> typing.Optional[bool]:
    """Whether this is a virtual machine; None is unknown."""
    for name in ('sys_vendor', 'product_name'):
        text = tree.text('sys', 'class', 'dmi', 'id', name)
        if text is not None and _VIRTUAL_MACHINES.search(text):
            return True
    text = tree.text('proc', 'cpuinfo')
    flags = re.search(r'^flags\s*:(.*)$', text or '', re.MULTILINE)
    if flags is None:
        return None
    return 'hypervisor' in flags.group(1).split()


_PCI_IDS = (
    ('usr', 'share', 'hwdata', 'pci.ids'),
    ('usr', 'share', 'misc', 'pci.ids'),
    ('usr', 'share', 'pci.ids'),
)


class Names:
    """The names of devices in pci.ids, which is read if it is needed."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lines = None  # type: typing.Optional[typing.List[str]]
        self._found = {}  # type: typing.Dict[typing.Any, typing.Optional[str]]

    def find(self, function: Function) -> typing.Optional[str]:
        """The name of the board, else that of the chip."""
        ids = (
            *(function.vendor_id, function.device_id),
            *(function.subsystem_vendor_id, function.subsystem_device_id),
        )
        if ids not in self._found:
            self._found[ids] = self._search(function)
        return self._found[ids]

    def _search(self, function: Function) -> typing.Optional[str]:
        if self._lines is None:
            self._lines = self._read()
        board = function.subsystem_vendor_id, function.subsystem_device_id
        subsystem = f'\t\t{board[0]} {board[1]}  '
        device = f'\t{function.device_id}  '
        vendor = f'{function.vendor_id}  '
        is_vendor = False
        name = None
        for line in self._lines:
            if not line.startswith(('\t', '#')):
                is_vendor = line.startswith(vendor)
            elif is_vendor and name is None and line.startswith(device):
                name = line[len(device) :]
            elif name is not None and line.startswith(subsystem):
                return make_printable(line[len(subsystem) :])
            elif name is not None and not line.startswith('\t\t'):
                break
        return make_printable(name) if name else None

    def _read(self) -> typing.List[str]:
        for path in _PCI_IDS:
            text = self._tree.text(*path, most_bytes=_MOST_BYTES_OF_LISTS)
            if text is not None:
                return text.splitlines()
        return []


def make_printable(text: str) -> str:
    """The text without what a terminal would act on, and not too long."""
    shown = ''.join(char if char.isprintable() else '?' for char in text)
    return shown.strip()[:_LONGEST_TEXT]


def read_driver_name(tree: Tree, address: str) -> typing.Optional[str]:
    """The name that NVIDIA's driver has for a GPU."""
    text = tree.text(
        'proc', 'driver', 'nvidia', 'gpus', address, 'information'
    )
    match = re.search(r'^Model:[ \t]+(\S.*)$', text or '', re.MULTILINE)
    if match is None or match.group(1).lower() == 'unknown':
        return None
    return make_printable(match.group(1))


# Drivers.


def read_driver(
    tree: Tree,
    kind: typing.Optional[str],
    functions: typing.Sequence[Function],
    views: typing.Mapping[str, DriverView],
) -> Driver:
    """The state of the driver that some GPUs need."""
    bound = {function.kernel_driver for function in functions}
    module = _choose_module(tree, kind, bound)
    is_loaded = tree.is_directory('sys', 'module', module)
    is_installed = True if is_loaded else _is_installed(tree, module)
    is_right, reason = None, 'the driver is not installed'
    if is_installed:
        modes = {
            (views.get(function.address, DriverView()).mode or '').lower()
            for function in functions
        }
        is_right, reason = _judge_kind(tree, kind, bound == {module}, modes)
    elif is_installed is None:
        reason = 'the list of kernel modules cannot be read'
    return Driver(
        kind,
        tuple(function.address for function in functions),
        module,
        is_installed,
        is_loaded,
        _read_version(tree, module),
        is_right,
        reason,
    )


def _choose_module(
    tree: Tree,
    kind: typing.Optional[str],
    bound: typing.Collection[typing.Optional[str]],
) -> str:
    if kind == AMD:
        return 'amdgpu'
    if kind != INTEL:
        return 'nvidia'
    for module in ('xe', 'i915'):
        if module in bound:
            return module
    is_xe = tree.is_directory('sys', 'module', 'xe')
    return 'xe' if is_xe else 'i915'


def _is_installed(tree: Tree, module: str) -> typing.Optional[bool]:
    """Whether the running kernel could load a module."""
    release = (tree.text('proc', 'sys', 'kernel', 'osrelease') or '').strip()
    if _RELEASE.fullmatch(release) is None:
        return None
    lists = [
        tree.text(
            *('lib', 'modules', release, name),
            most_bytes=_MOST_BYTES_OF_LISTS,
        )
        for name in ('modules.dep', 'modules.builtin')
    ]
    # Debian's package calls the file of "nvidia" nvidia-current.ko.
    wanted = re.compile(
        rf'^(?:\S*/)?{module}(?:-current)?\.ko(?:\.[a-z0-9]+)?(?::|$)',
        re.MULTILINE,
    )
    if any(text is not None and wanted.search(text) for text in lists):
        return True
    return None if lists[0] is None else False


def _read_version(tree: Tree, module: str) -> typing.Optional[str]:
    text = (tree.text('sys', 'module', module, 'version') or '').strip()
    if _VERSION.fullmatch(text):
        return text
    if module != 'nvidia':
        return None
    text = tree.text('proc', 'driver', 'nvidia', 'version') or ''
    match = _NVIDIA_VERSION.search(text[:_LONGEST_LINE])
    return match.group() if match else None


# The root directory of the driver container of NVIDIA's GPU operator.
_CONTAINER = ('run', 'nvidia', 'driver')
_PLACES = ((), _CONTAINER)  # type: typing.Tuple[typing.Tuple[str, ...], ...]
# nvidia-gridd gets the licence; only the driver for vGPU guests brings it.
_GRIDD = ('usr', 'bin', 'nvidia-gridd')


def _judge_kind(
    tree: Tree,
    kind: typing.Optional[str],
    is_bound: bool,
    modes: typing.Collection[str],
) -> typing.Tuple[typing.Optional[bool], str]:
    """Whether an installed driver is the kind that is needed, and why."""
    if kind in (INTEL, AMD):
        if is_bound:
            return True, 'it is bound to the GPU'
        return None, 'it is not bound to the GPU'
    is_host = is_host_driver(tree)
    if kind == VGPU_HOST:
        if is_host:
            return True, 'the vGPU manager is installed'
        return None, 'the vGPU manager was not found'
    if kind is None:
        return None, 'which driver is needed is unknown'
    if is_host:
        return False, 'it is the driver of a vGPU host'
    if kind == VGPU_GUEST:
        if 'vgpu' in modes:
            return True, 'nvidia-smi shows the virtualization mode VGPU'
        if any(tree.exists(*place, *_GRIDD) for place in _PLACES):
            return True, 'nvidia-gridd is installed'
        return None, 'nvidia-gridd was not found'
    if is_bound:
        return True, 'it is bound to the GPU'
    return None, 'it is not bound to the GPU'


def is_host_driver(tree: Tree) -> bool:
    """Whether the driver of NVIDIA is the one for hosts of vGPUs."""
    return tree.is_directory(
        'sys', 'module', 'nvidia_vgpu_vfio'
    ) or tree.exists('usr', 'bin', 'nvidia-vgpu-mgr')


def read_is_licence_configured(tree: Tree) -> typing.Optional[bool]:
    """Whether a licence server or a token is set; neither is printed.

    NVIDIA, Virtual GPU Client Licensing User Guide.
    """
    found = {_is_licence_configured(tree, place) for place in _PLACES}
    if True in found:
        return True
    return None if None in found else False


def _is_licence_configured(
    tree: Tree, place: typing.Tuple[str, ...]
) -> typing.Optional[bool]:
    folder = (*place, 'etc', 'nvidia', 'ClientConfigToken')
    tokens = tree.list(*folder)
    if any(name.endswith('.tok') for name in tokens or ()):
        return True
    gridd_conf = (*place, 'etc', 'nvidia', 'gridd.conf')
    conf = tree.text(*gridd_conf)
    if re.search(
        r'^[ \t]*(?:ServerAddress|ClientConfigTokenPath)[ \t]*=[ \t]*"?[^"\s]',
        conf or '',
        re.MULTILINE,
    ):
        return True
    is_hidden = (tokens is None and tree.exists(*folder)) or (
        conf is None and tree.exists(*gridd_conf)
    )
    return None if is_hidden else False


# nvidia-smi.

_CONTAINER_ROOT = os.path.join('/', *_CONTAINER)
_NVIDIA_SMI = (
    '/usr/bin/nvidia-smi',
    '/usr/local/bin/nvidia-smi',
    _CONTAINER_ROOT + '/usr/bin/nvidia-smi',
)
# Ansible waits for facts; a GPU that hangs must not make it wait for long.
_SECONDS = 10
_ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL': 'C'}
_MOST_BYTES_OF_OUTPUT = 1024 * 1024


def find_nvidia_smi() -> typing.Optional[str]:
    """Where nvidia-smi is on this machine."""
    for path in _NVIDIA_SMI:
        if os.access(path, os.X_OK):
            return path
    return None


def run_nvidia_smi(
    program: str, seconds: float = _SECONDS
) -> typing.Tuple[str, str]:
    """The output of ``nvidia-smi -q``, and what went wrong.

    There can be both: a GPU with a damaged infoROM is printed as well. A
    program that takes too long or prints too much is killed with all that it
    has started. One that hangs in the kernel survives that, and is left
    behind.
    """
    command = [program, '-q']
    if program.startswith(_CONTAINER_ROOT + '/'):
        # Its libraries are in the container.
        inside = program[len(_CONTAINER_ROOT) :]
        command = ['chroot', _CONTAINER_ROOT, inside, '-q']
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd='/',
            env=_ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        return '', f'{program} cannot be run: {error.strerror}.'
    try:
        output = _read_output(process, seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        return '', f'{program} timed out after {seconds:g} s.'
    problem = ''
    if process.returncode is None:
        _kill(process)
        problem = (
            f'{program} printed more than {_MOST_BYTES_OF_OUTPUT} bytes; the '
            'rest was not read.'
        )
    elif process.returncode:
        problem = f'{program} failed with exit code {process.returncode}.'
    return output.decode('utf-8', 'replace'), problem


def _read_output(process: 'subprocess.Popen[bytes]', seconds: float) -> bytes:
    """What a program prints until it ends, or until it is too much.

    In the second case the program has no exit code.

    :raises subprocess.TimeoutExpired: if it takes too long.
    """
    deadline = time.monotonic() + seconds
    pipe = typing.cast('typing.IO[bytes]', process.stdout)
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) <= _MOST_BYTES_OF_OUTPUT:
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, seconds)
            if not selector.select(left):
                continue
            data = os.read(pipe.fileno(), _MOST_BYTES)
            if not data:
                pipe.close()
                process.wait(left)
                break
            output += data
    return bytes(output[:_MOST_BYTES_OF_OUTPUT])


def _kill(process: 'subprocess.Popen[bytes]') -> None:
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(1)
    if process.stdout is not None:
        process.stdout.close()


_GPU_LINE = re.compile(r'GPU ([0-9A-F]{4,8}):([0-9A-F]{2}:[0-9A-F]{2}\.[0-7])')
_FIELD = re.compile(r'( *)([^:]{1,60}?) *: ?(.*)')
_LICENSED_PRODUCT = 'vgpu software licensed product'
_FIELDS = {
    ('', 'product name'): 'name',
    ('gpu virtualization mode', 'virtualization mode'): 'mode',
    (_LICENSED_PRODUCT, 'product name'): 'licence_product',
    (_LICENSED_PRODUCT, 'license status'): 'licence_status',
}


def parse_nvidia_smi(text: str) -> typing.Dict[str, DriverView]:
    """What ``nvidia-smi -q`` says about each GPU, by PCI address.

    A heading is indented by 4 and has no colon; its fields are indented by 8.
    """
    views = {}  # type: typing.Dict[str, DriverView]
    address = ''
    heading = ''
    for long_line in text.splitlines():
        line = long_line[:_LONGEST_LINE]
        match = _GPU_LINE.fullmatch(line.rstrip())
        if match is not None:
            domain = f'{int(match.group(1), 16):04x}'
            address = f'{domain}:{match.group(2).lower()}'
            views[address] = DriverView()
            continue
        field = _FIELD.fullmatch(line)
        if field is None:
            heading = line.strip().lower()
            continue
        if len(field.group(1)) <= 4:
            heading = ''
        name = _FIELDS.get((heading, field.group(2).lower()))
        if name is not None and address:
            value = make_printable(field.group(3))
            views[address] = views[address]._replace(**{name: value})
    return views


# What the operator sets.

IS_VIRTUAL_GPU, IS_GPU_CLUSTER = 'is_virtual_gpu', 'is_gpu_cluster'
OVERRIDABLE = (IS_VIRTUAL_GPU, IS_GPU_CLUSTER)
OVERRIDES_FILE = ('etc', 'ansible', 'facts.d', 'gpu.yaml')
_WORDS = {
    **dict.fromkeys(('yes', 'true', 'on', '1', 'y', 't'), True),
    **dict.fromkeys(('no', 'false', 'off', '0', 'n', 'f'), False),
}
_LINE = re.compile(r'(\w{1,60})\s*:\s*(.*?)\s*(?:(?:^|\s)#.*)?')


def name_variable(fact: str) -> str:
    """The environment variable that overrides a fact."""
    return 'NOVA_VGPU_' + fact.upper()


def parse_boolean(text: str) -> typing.Optional[bool]:
    """A truth value as Ansible writes it; None for none."""
    return _WORDS.get(text.strip().strip('"\'').lower())


def read_overrides(
    tree: Tree,
    environment: typing.Mapping[str, str],
    arguments: typing.Mapping[str, bool],
) -> typing.Tuple[typing.Dict[str, Override], typing.List[str]]:
    """What the operator has set: arguments, environment, file, in this order.

    The second are the mistakes.
    """
    overrides, problems = _read_overrides_file(tree)
    for fact in OVERRIDABLE:
        variable = name_variable(fact)
        text = environment.get(variable, '')
        value = parse_boolean(text)
        if value is not None:
            overrides[fact] = Override(value, variable)
        elif text.strip():
            problems.append(
                f'{variable}={make_printable(text)} is ignored: it has to be '
                'yes or no.'
            )
        if fact in arguments:
            option = '--' + fact.replace('_', '-')
            overrides[fact] = Override(arguments[fact], option)
    return overrides, problems


def _read_overrides_file(
    tree: Tree,
) -> typing.Tuple[typing.Dict[str, Override], typing.List[str]]:
    overrides = {}  # type: typing.Dict[str, Override]
    problems = []
    path = tree.path(*OVERRIDES_FILE)
    text = tree.text(*OVERRIDES_FILE)
    if text is None:
        if tree.exists(*OVERRIDES_FILE):
            problems.append(f'{path} cannot be read.')
        return overrides, problems
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()[:_LONGEST_LINE]
        if not content or content.startswith('#') or content == '---':
            continue
        match = _LINE.fullmatch(content)
        fact = match.group(1) if match else ''
        value = parse_boolean(match.group(2)) if match else None
        if fact not in OVERRIDABLE or value is None:
            problems.append(
                f'{path}, line {number}, is ignored: it has to be '
                '"is_virtual_gpu: yes", "is_gpu_cluster: yes", or the same '
                'with "no".'
            )
        else:
            overrides[fact] = Override(value, path)
    return overrides, problems


# All of it.

Ask = typing.Callable[[], typing.Tuple[str, str]]


def collect(
    tree: Tree,
    ask: typing.Optional[Ask] = None,
    environment: typing.Mapping[str, str] = os.environ,
    arguments: typing.Optional[typing.Mapping[str, bool]] = None,
) -> Facts:
    """All facts about the machine whose files these are.

    :param ask: what runs ``nvidia-smi -q``; it is not called unless a driver
        of NVIDIA is loaded, because nvidia-smi would load it.
    """
    functions, problems = read_functions(tree)
    overrides, mistakes = read_overrides(tree, environment, arguments or {})
    views = {}  # type: typing.Dict[str, DriverView]
    if ask is not None and tree.is_directory('sys', 'module', 'nvidia'):
        output, problem = ask()
        views = parse_nvidia_smi(output)
        mistakes += [problem] if problem else []
    is_complete = functions is not None and not problems
    survey = _Survey(tree, functions or [], views, overrides)
    has_gpu = True if functions else (False if is_complete else None)
    is_virtual = survey.detected
    if functions is None or (is_virtual is False and not is_complete):
        is_virtual = None
    detected = {IS_VIRTUAL_GPU: is_virtual}
    override = overrides.get(IS_VIRTUAL_GPU)
    cluster = overrides.get(IS_GPU_CLUSTER)
    drivers = survey.read_drivers()
    return Facts(
        has_gpu,
        override.value if override else is_virtual,
        cluster.value if cluster else False,
        survey.is_guest,
        tuple(driver.kind or UNKNOWN for driver in drivers),
        summarise_licences(survey.gpus) if is_complete else UNKNOWN,
        survey.is_licence_configured,
        survey.gpus,
        drivers,
        detected,
        overrides,
        (*problems, *survey.find_problems(drivers), *mistakes),
    )


class _Survey:
    """The GPUs that were read, with what is decided about them."""

    def __init__(
        self,
        tree: Tree,
        functions: typing.Sequence[Function],
        views: typing.Mapping[str, DriverView],
        overrides: typing.Mapping[str, Override],
    ) -> None:
        self._tree = tree
        self._functions = functions
        self._views = views
        self._names = Names(tree)
        self.is_guest = read_is_guest(tree)
        self.is_licence_configured = read_is_licence_configured(tree)
        self._kinds = {
            function.address: classify(
                function, self._view(function), self.is_guest
            )
            for function in functions
        }
        self.detected = detect_virtual(
            (function, self._kinds[function.address][0])
            for function in functions
        )
        override = overrides.get(IS_VIRTUAL_GPU)
        self._is_virtual = override.value if override else self.detected
        # An override that says what is detected anyway changes nothing.
        self._is_vgpu_host = self._is_virtual == self.detected and (
            is_host_driver(tree)
            or any(
                function.vfs or function.has_vgpu_types
                for function in functions
                if function.vendor == NVIDIA
            )
        )
        self.gpus = tuple(self._make_gpu(function) for function in functions)

    def _view(self, function: Function) -> DriverView:
        return self._views.get(function.address, DriverView())

    def _make_gpu(self, function: Function) -> GPU:
        kind, reason, host = self._kinds[function.address]
        view = self._view(function)
        name = (
            view.name
            or read_driver_name(self._tree, function.address)
            or self._names.find(function)
        )
        vgpu_type, is_mig_backed = parse_type_name(name)
        licence = Licence(NOT_NEEDED)
        if function.vendor == NVIDIA:
            licence = decide_licence(kind, view, self.is_licence_configured)
        is_vgpu = kind == VGPU
        return GPU(
            function.address,
            function.vendor,
            function.vendor_id,
            function.device_id,
            function.subsystem_vendor_id,
            function.subsystem_device_id,
            function.pci_class,
            kind,
            reason,
            name,
            vgpu_type if is_vgpu else None,
            is_mig_backed if is_vgpu else None,
            host.version,
            host.branch,
            function.physical_function,
            function.vfs,
            function.kernel_driver,
            choose_driver(
                function, kind, self._is_virtual, self._is_vgpu_host
            ),
            licence,
        )

    def read_drivers(self) -> typing.Tuple[Driver, ...]:
        """Each driver that is needed, in the order of the GPUs.

        None is needed for GPUs that are passed on to guests.
        """
        needed = {}  # type: typing.Dict[typing.Optional[str], typing.List[Function]]
        for function, gpu in zip(self._functions, self.gpus):
            if gpu.driver_needed != NO_DRIVER:
                needed.setdefault(gpu.driver_needed, []).append(function)
        return tuple(
            read_driver(self._tree, kind, functions, self._views)
            for kind, functions in needed.items()
        )

    def find_problems(
        self, drivers: typing.Iterable[Driver]
    ) -> typing.Iterator[str]:
        """What the operator should know or do."""
        for gpu in self.gpus:
            if gpu.kind == UNKNOWN:
                cure = ' Run it as root.' if gpu.reason == _NOT_ROOT else ''
                yield f'{gpu.address} is of unknown kind: {gpu.reason}.{cure}'
            elif gpu.kind == VGPU and gpu.host_driver_version is None:
                yield (
                    f'{gpu.address}: the driver version of its host is not in '
                    'its PCI capability, or only root can read it.'
                )
            if gpu.vendor == NVIDIA and gpu.kernel_driver == 'nouveau':
                yield (
                    f'{gpu.address}: nouveau is bound to it, which keeps the '
                    'driver of NVIDIA away. Blacklist nouveau and reboot.'
                )
        for driver in drivers:
            if driver.is_right_kind is False:
                yield '{}: the driver {} is not of the kind {}: {}.'.format(
                    ', '.join(driver.gpus),
                    driver.module,
                    driver.kind,
                    driver.reason,
                )


# The program.


def make_boolean_argument(text: str) -> bool:
    """A truth value on a command line."""
    value = parse_boolean(text)
    if value is None:
        raise argparse.ArgumentTypeError(f'{text!r} is not yes or no')
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command and of this file."""
    parser.add_argument(
        '--root',
        metavar='DIR',
        default='/',
        help='Read another machine, whose /sys, /proc and other files are '
        'below this directory. Default: /.',
    )
    parser.add_argument(
        '--nvidia-smi',
        metavar='PATH',
        help='nvidia-smi to run, or "" for none. Default: where the driver '
        'installs it, and none with --root.',
    )
    parser.add_argument(
        '--is-virtual-gpu',
        metavar='yes|no',
        type=make_boolean_argument,
        help='Whether the GPUs of NVIDIA are vGPUs, instead of what is '
        'detected.',
    )
    parser.add_argument(
        '--is-gpu-cluster',
        metavar='yes|no',
        type=make_boolean_argument,
        help='Whether the machine is a node of a GPU cluster. Default: no.',
    )


def collect_as_asked(arguments: argparse.Namespace) -> Facts:
    """All facts, according to the options of :func:`add_arguments`."""
    program = arguments.nvidia_smi
    if program is None and os.path.abspath(arguments.root) == '/':
        program = find_nvidia_smi()
    given = {
        fact: getattr(arguments, fact)
        for fact in OVERRIDABLE
        if getattr(arguments, fact) is not None
    }
    ask = (lambda: run_nvidia_smi(program)) if program else None
    return collect(Tree(arguments.root), ask, os.environ, given)


def main(argv: typing.Optional[typing.Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        description='Print which GPUs this machine has, and which driver and '
        'licence they need, as one JSON object. As an executable '
        '/etc/ansible/facts.d/gpu.fact it is ansible_local.gpu.'
    )
    add_arguments(parser)
    facts = collect_as_asked(parser.parse_args(argv))
    print(json.dumps(make_plain(facts), indent=2))
    return 0


if __name__ == '__main__':
    sys.exit(main())
