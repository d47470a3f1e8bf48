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

"""What is around the GPUs: kernel, IOMMU, mdevctl, vGPU manager, parameters.

::

    /proc/cmdline                      the kernel command line
    /sys/class/iommu                   the IOMMUs that the kernel uses
    /sys/kernel/iommu_groups           the groups of devices that they isolate
    /proc/<pid>/comm                   is the vGPU manager running?
    /sys/module/nvidia/version         the driver, also where it is on the bus
    /proc/driver/nvidia/params         what it was loaded with
    /etc/modprobe.d and so on          what it would be loaded with
    /etc/udev/rules.d and so on        where udev calls mdevctl

All of it is below one root, so that tests can provide any host. A file that
does not exist is unknown; one that cannot be read is a fault, and the others
are still read.

The manager is searched among the processes: its systemd unit is not the only
way to start it (it may be in a container), and the name of its process fits
into the 15 characters that the kernel stores. ``nvidia-vgpud`` sets the GPUs
up and ends, so it is not a sign of a running manager.
"""

from collections.abc import Iterator
import re

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.knowledge import vgpu_scheduler

#: Not '/': paths are built with a slash behind the root.
DEFAULT_ROOT = ''

_MANAGER = 'nvidia-vgpu-mgr'
_MDEVCTL = 'mdevctl'

# The first directory that has a file of a name wins. (udev(7), modprobe.d(5))
_CONFIGURATION_ROOTS = (
    ('etc',),
    ('run',),
    ('usr', 'local', 'lib'),
    ('usr', 'lib'),
    ('lib',),
)
_UDEV = ('udev', 'rules.d')
_MODPROBE = ('modprobe.d',)
_BINARIES = (
    ('usr', 'sbin'),
    ('usr', 'bin'),
    ('usr', 'local', 'sbin'),
    ('usr', 'local', 'bin'),
)

_PID = re.compile(r'[0-9]{1,9}', re.ASCII)
_CALL = re.compile(r'(?<![\w/.+-])((?:/[\w.+-]+)+/mdevctl)(?![\w/.+-])')
_VERSION = re.compile(r'\b([0-9]{3,4}(?:\.[0-9]{1,4}){1,3})\b', re.ASCII)
_PARAMETER = re.compile(r'(\w+):\s*"?([^"\n]*)"?')
_OPTIONS = re.compile(r'\s*options\s+nvidia\s+(.*)')
_DWORDS = re.compile(rf'\b{vgpu_scheduler.PARAMETER}=(?:"([^"]*)"|(\S+))')


def read(tree: files.Files) -> values.Environment:
    """Read everything once."""
    return _Reading(tree).read()


class _Reading:
    """One reading of the environment."""

    def __init__(self, tree: files.Files) -> None:
        self._files = tree
        self._faults: list[values.ReadFault] = []

    def read(self) -> values.Environment:
        parameters = self._read_parameters()
        return values.Environment(
            command_line=self._seen('proc', 'cmdline'),
            iommus=self._count('sys', 'class', 'iommu'),
            iommu_groups=self._count('sys', 'kernel', 'iommu_groups'),
            mdevctl=tuple(self._find_mdevctl()),
            udev_calls=tuple(self._read_udev_calls()),
            vgpu_managers=self._find_managers(),
            driver_version=self._read_driver_version(),
            loaded_dwords=parameters.get('RegistryDwords'),
            loaded_dwords_per_gpu=parameters.get('RegistryDwordsPerDevice'),
            modprobe_dwords=tuple(self._read_modprobe()),
            faults=tuple(self._faults),
        )

    def _text(self, *path: str) -> str | None:
        """The text of a file; None if it does not exist or cannot be read."""
        try:
            return self._files.read(*path)
        except files.Unreadable as error:
            if not error.gone:
                self._add_fault(error)
            return None

    def _seen(self, *path: str) -> values.Evidence | None:
        text = self._text(*path)
        if text is None:
            return None
        return values.Evidence(self._files.path(*path), text)

    def _list(self, *path: str) -> tuple[str, ...]:
        try:
            return self._files.list(*path)
        except files.Unreadable as error:
            if not error.gone:
                self._add_fault(error)
            return ()

    def _count(self, *path: str) -> int | None:
        try:
            return len(self._files.list(*path))
        except files.Unreadable as error:
            if error.gone:
                return 0
            self._add_fault(error)
            return None

    def _add_fault(self, error: files.Unreadable) -> None:
        self._faults.append(values.ReadFault('host', error.path, error.reason))

    def _find_managers(self) -> tuple[int, ...] | None:
        found = []
        seen = 0
        for name in self._list('proc'):
            if _PID.fullmatch(name) is None:
                continue
            try:
                called = self._files.read('proc', name, 'comm')
            except files.Unreadable:
                continue  # it has ended, or is hidden from this user
            seen += 1
            if called == _MANAGER:
                found.append(int(name))
        # With hidepid= a user sees only their own processes.
        others = self._is_readable('proc', '1', 'comm')
        return tuple(found) if found or (seen and others) else None

    def _is_readable(self, *path: str) -> bool:
        try:
            self._files.read(*path)
        except files.Unreadable:
            return False
        return True

    def _find_mdevctl(self) -> Iterator[str]:
        places = [*_BINARIES]
        for directory in ('sbin', 'bin'):
            try:
                self._files.link(directory)
            except files.Unreadable:
                places.append((directory,))  # and not a link to those in usr
        for place in places:
            if _MDEVCTL in self._list(*place):
                yield self._files.path(*place, _MDEVCTL)

    def _read_udev_calls(self) -> Iterator[values.UdevCall]:
        for rule, text in self._read_configuration(_UDEV, '.rules'):
            for line in text.splitlines():
                if line.lstrip().startswith('#'):
                    continue
                for program in _CALL.findall(line):
                    yield values.UdevCall(
                        rule, program, self._is_there(program)
                    )

    def _is_there(self, program: str) -> bool:
        *directory, name = program.strip('/').split('/')
        try:
            return name in self._files.list(*directory)
        except files.Unreadable:
            return False

    def _read_driver_version(self) -> values.Evidence | None:
        for path in (
            ('sys', 'module', 'nvidia', 'version'),
            ('proc', 'driver', 'nvidia', 'version'),
        ):
            match = _VERSION.search(self._text(*path) or '')
            if match:
                return values.Evidence(self._files.path(*path), match[1])
        return None

    def _read_parameters(self) -> dict[str, values.Evidence]:
        path = ('proc', 'driver', 'nvidia', 'params')
        text = self._text(*path)
        if text is None:
            return {}
        source = self._files.path(*path)
        return {
            match[1]: values.Evidence(source, match[2])
            for match in map(_PARAMETER.fullmatch, text.splitlines())
            if match
        }

    def _read_modprobe(self) -> Iterator[values.Evidence]:
        for path, text in self._read_configuration(_MODPROBE, '.conf'):
            for line in text.splitlines():
                options = _OPTIONS.fullmatch(line)
                for match in _DWORDS.finditer(options[1] if options else ''):
                    yield values.Evidence(path, match[1] or match[2] or '')

    def _read_configuration(
        self, below: tuple[str, ...], suffix: str
    ) -> Iterator[tuple[str, str]]:
        """The files that count, in the order of their names."""
        where: dict[str, tuple[str, ...]] = {}
        for root in _CONFIGURATION_ROOTS:
            for name in self._list(*root, *below):
                if name.endswith(suffix):
                    where.setdefault(name, (*root, *below, name))
        for _, path in sorted(where.items()):
            if self._is_masked(path):
                continue
            text = self._text(*path)
            if text is not None:
                yield self._files.path(*path), text

    def _is_masked(self, path: tuple[str, ...]) -> bool:
        try:
            return self._files.link(*path) == '/dev/null'
        except files.Unreadable:
            return False
