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

"""A tree of small text files that are not trusted.

Every path of sysfs that the project uses goes through :class:`Files`, so that
the tree can be anywhere (tests, a simulated host) and any unexpected content
raises one exception that names the file.
"""

from collections.abc import Mapping
import errno
import functools
import os
import re
import stat
import sys

from nova_vgpu import values
from nova_vgpu.host import type_backends

Path = tuple[str, ...]

#: The directories of PCI functions.
PCI: Path = ('bus', 'pci', 'devices')

# A sysfs attribute is at most one page. Larger "files" are not sysfs.
_USUAL_BYTES = 4096
_MOST_BYTES = 65536
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_LEADING_AWAY = frozenset(('', '.', '..'))
_FUNCTION = r'[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]'
# Every file of sysfs that this project writes to.
WRITABLE = (
    rf'bus/pci/devices/{_FUNCTION}/sriov_numvfs',
    rf'bus/pci/devices/{_FUNCTION}/driver_override',
    *(rf'bus/pci/devices/{_FUNCTION}/{f}' for f in type_backends.WRITABLE),
    r'bus/pci/drivers/pci-pf-stub/unbind',
    r'bus/pci/drivers_probe',
)
_WRITABLE = re.compile('|'.join(WRITABLE), re.ASCII)
_NUMBERS = {
    10: re.compile(r'[0-9]{1,9}', re.ASCII),
    16: re.compile(r'0x[0-9a-f]{1,8}', re.ASCII | re.IGNORECASE),
}
_HIGHEST = 0xFFFFFFFF


class Unreadable(Exception):
    """A file or directory does not have the expected content."""

    def __init__(self, path: str, reason: str, gone: bool = False) -> None:
        super().__init__(f'{path}: {reason}')
        self.path = path
        self.reason = reason
        #: It does not exist (any longer), as opposed to broken.
        self.gone = gone

    def __reduce__(self) -> tuple[type, tuple[str, str, bool]]:
        """Pickle with all arguments, for other processes."""
        return type(self), (self.path, self.reason, self.gone)

    def as_fault(self, device: str) -> values.ReadFault:
        """The fault of a device whose file or directory this is."""
        return values.ReadFault(device, self.path, self.reason)


class Files:
    """The files below one root directory."""

    def __init__(self, root: str, most_bytes: int = _MOST_BYTES) -> None:
        self.root = root
        self._most_bytes = most_bytes

    def read(self, *parts: str) -> str:
        """The text of a file, without white space around it.

        :raises Unreadable: also if it is not text, or too long.
        """
        path = self.path(*parts)
        data = self._read(path)
        try:
            text = data.decode('utf-8')
        except UnicodeDecodeError as error:
            raise Unreadable(path, 'is not UTF-8 text') from error
        if '\0' in text:
            raise Unreadable(path, 'is not UTF-8 text')
        return text.strip()

    def find_text(self, *parts: str) -> str | None:
        """The text of a file; None if it does not exist.

        :raises Unreadable: if it cannot be read.
        """
        try:
            return self.read(*parts)
        except Unreadable as error:
            if error.gone:
                return None
            raise

    def read_number(
        self, *parts: str, base: int = 10, highest: int = _HIGHEST
    ) -> int:
        """The number in a file.

        :raises Unreadable: also if it is not a number, or too high.
        """
        text = self.read(*parts)
        number = _parse_number(text, base)
        if number is not None and number <= highest:
            return number
        wanted = 'a number' if base == 10 else 'a hexadecimal number'
        raise self.unexpected(
            text, wanted if number is None else 'a number of 16 bits', *parts
        )

    def unexpected(self, text: str, wanted: str, *parts: str) -> Unreadable:
        """The error for a file with an unexpected text."""
        return Unreadable(
            self.path(*parts), f'holds {text[:40]!r} instead of {wanted}'
        )

    def read_binary(self, *parts: str) -> bytes:
        """The content of a file that is not text.

        :raises Unreadable: also if it is too long.
        """
        return self._read(self.path(*parts))

    def _read(self, path: str) -> bytes:
        try:
            # Without a file object, because there are thousands; and without
            # blocking, because a FIFO must not hang the reader.
            descriptor = os.open(path, _READ)
            try:
                data = os.read(descriptor, _USUAL_BYTES)
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Unreadable(path, 'is not a regular file')
                if len(data) == _USUAL_BYTES:
                    data += os.read(descriptor, self._most_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _unreadable(path, error) from error
        if len(data) > self._most_bytes:
            raise Unreadable(path, f'holds more than {self._most_bytes} bytes')
        return data

    def write(self, text: str, *parts: str) -> None:
        """Write to an existing file with one system call.

        :raises OSError: from the kernel; ``EACCES`` without a system call if
        this
            project never writes to such a file.
        :raises Unreadable: if a part of the path is not a plain name.
        """
        path = self.path(*parts)
        if _WRITABLE.fullmatch('/'.join(parts)) is None:
            raise PermissionError(
                errno.EACCES, 'not a file that may be written', path
            )
        # Not through a link: write to the named file only.
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def list(self, *parts: str) -> tuple[str, ...]:
        """The names in a directory, sorted.

        :raises Unreadable: also if it does not exist.
        """
        path = self.path(*parts)
        try:
            return tuple(sorted(map(_printable, os.listdir(path))))
        except OSError as error:
            raise _unreadable(path, error) from error

    def list_marked(self, *parts: str) -> Mapping[str, object]:
        """The names in a directory, each with its mark, in no order.

        :raises Unreadable: also if it does not exist.
        """
        path = self.path(*parts)
        try:
            with os.scandir(path) as entries:
                marks = {entry.name: entry.inode() for entry in entries}
        except OSError as error:
            raise _unreadable(path, error) from error
        if ''.join(marks).isascii():
            return marks
        return {_printable(name): mark for name, mark in marks.items()}

    def mark(self, *parts: str) -> object:
        """Identify a file, directory or link; a replacement has another mark.

        The kernel gives each object in sysfs a 64-bit number and never reuses
        one (``__kernfs_new_node`` in fs/kernfs/dir.c). So the same mark means
        the same object.

        :raises Unreadable: if it does not exist.
        """
        path = self.path(*parts)
        try:
            return os.lstat(path).st_ino
        except OSError as error:
            raise _unreadable(path, error) from error

    def link(self, *parts: str) -> str:
        """The target of a symbolic link, as it is written.

        :raises Unreadable: also if it is not a link.
        """
        path = self.path(*parts)
        try:
            return _printable(os.readlink(path))
        except OSError as error:
            raise _unreadable(path, error) from error

    def link_name(self, *parts: str) -> str:
        """The last part of the target of a symbolic link.

        :raises Unreadable: also if it is not a link.
        """
        # Hundreds of functions have the same driver, or type.
        return sys.intern(self.link(*parts).rstrip('/').split('/')[-1])

    def find_link_name(self, *parts: str) -> str | None:
        """The same; None if there is no such link.

        :raises Unreadable: if it is not a link, or cannot be read.
        """
        try:
            return self.link_name(*parts)
        except Unreadable as error:
            if error.gone:
                return None
            raise

    def path(self, *parts: str) -> str:
        """The path of something below the root.

        :raises Unreadable: if a part is not a plain name, which would lead
            elsewhere: parts also come from libvirt and from directories.
        """
        path = '/'.join((self.root, *parts))
        if not _LEADING_AWAY.isdisjoint(parts) or '/' in ''.join(parts):
            raise Unreadable(path, 'is not below the directory')
        return path


def is_directory(path: str) -> bool:
    """Whether the directory exists on this machine."""
    return os.path.isdir(path)


def read_stamp(path: str) -> object:
    """A value that changes if a file is replaced or written; None if missing.

    Not for sysfs, where it never changes.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


# Hundreds of functions have the same numbers.
@functools.lru_cache(maxsize=4096)
def _parse_number(text: str, base: int) -> int | None:
    return int(text, base) if _NUMBERS[base].fullmatch(text) else None


def _printable(name: str) -> str:
    """The name with bytes that are not UTF-8 escaped, so that it can be shown.

    Such a name leads nowhere, as if the file did not exist.
    """
    if name.isascii():
        return name
    return os.fsencode(name).decode('utf-8', 'backslashreplace')


def _unreadable(path: str, error: OSError) -> Unreadable:
    reason = (error.strerror or str(error)).lower()
    gone = error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO)
    return Unreadable(path, reason, gone)
