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

"""A tree of files in memory that reads like one on a disk.

Directories create their entries when they are read, so that a large host costs
only what is read of it. A writable file names the effect of writing to it; a
link names its target from the top.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import errno
import functools
import os
import typing

from nova_vgpu.host import files

Path = tuple[str, ...]

_FUNCTION_FILES: Path = ('vendor', 'device', 'class', 'subsystem_device')
_TYPE_FILES: Path = ('name', 'description')
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO)


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: Path


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """A file; without content it cannot be read, without ``store`` written.

    ``store`` is the effect of writing to it. ``data`` is content that is not
    text.
    """

    text: str | None
    store: Path = ()
    data: bytes | None = None


class Directory:
    """A directory whose entries are created on demand, once."""

    def __init__(self, make: Callable[[], Mapping[str, 'Node']]) -> None:
        self._make = make
        #: The targets of paths from here that were already resolved.
        self.known: dict[tuple[Path, bool], tuple[Path, Node]] = {}

    @functools.cached_property
    def entries(self) -> Mapping[str, 'Node']:
        return self._make()


Node = Directory | Link | Attribute


class Source(typing.Protocol):
    """Provides the current tree, and handles writes to it."""

    def get_root(self) -> Directory: ...

    def store(
        self, text: str, path: Path, find: Callable[[], Attribute]
    ) -> None: ...


class MemoryFiles(files.Files):
    """The files of a tree in memory, in the place of those on a disk."""

    def __init__(self, source: Source, root: str = '/sys') -> None:
        super().__init__(root)
        self._source = source

    def read(self, *parts: str) -> str:
        node = self._find(parts)[1]
        if isinstance(node, Directory):
            raise self._unreadable(parts, errno.EISDIR)
        if isinstance(node, Link) or node.text is None:
            raise self._unreadable(parts, errno.EACCES)
        return node.text.strip()

    def read_binary(self, *parts: str) -> bytes:
        node = self._find(parts)[1]
        if not isinstance(node, Attribute) or node.data is None:
            raise self._unreadable(parts, errno.EACCES)
        return node.data

    def list(self, *parts: str) -> tuple[str, ...]:
        node = self._find(parts)[1]
        if not isinstance(node, Directory):
            raise self._unreadable(parts, errno.ENOTDIR)
        return tuple(sorted(node.entries))

    def list_marked(self, *parts: str) -> dict[str, object]:
        return {name: self.mark(*parts, name) for name in self.list(*parts)}

    def mark(self, *parts: str) -> object:
        """A mark that changes when the content changes.

        As the kernel's: nothing of this changes in place.
        """
        match parts:
            case ('bus', 'pci', 'devices', _):
                names = _FUNCTION_FILES
            case (*_, 'mdev_supported_types', _):
                names = _TYPE_FILES
            case ('bus', 'mdev', 'devices', _):
                return self.link(*parts), self.link(*parts, 'mdev_type')
            case _:
                self._find(parts, follow=False)
                return parts
        there = self.list(*parts)
        return tuple(self.read(*parts, n) for n in names if n in there)

    def link(self, *parts: str) -> str:
        where, node = self._find(parts, follow=False)
        if not isinstance(node, Link):
            raise self._unreadable(parts, errno.EINVAL)
        return os.path.relpath('/'.join(node.target), '/'.join(where[:-1]))

    def write(self, text: str, *parts: str) -> None:
        path = self.path(*parts)

        def find() -> Attribute:
            try:
                node = walk(self._source.get_root(), parts, False)[1]
            except OSError as error:
                raise make_error(error.errno or 0, path) from error
            if isinstance(node, Directory):
                raise make_error(errno.EISDIR, path)
            if isinstance(node, Link):
                raise make_error(errno.ELOOP, path)
            if not node.store:
                raise make_error(errno.EACCES, path)
            return node

        self._source.store(text, parts, find)

    def _find(self, parts: Path, follow: bool = True) -> tuple[Path, Node]:
        self.path(*parts)
        try:
            return walk(self._source.get_root(), parts, follow)
        except OSError as error:
            raise self._unreadable(parts, error.errno or 0) from error

    def _unreadable(self, parts: Path, number: int) -> files.Unreadable:
        reason = os.strerror(number).lower()
        return files.Unreadable(self.path(*parts), reason, number in _GONE)


def walk(root: Directory, parts: Path, follow: bool) -> tuple[Path, Node]:
    """Where a path leads and what is there.

    :param follow: whether to follow a link at its end, too.
    :raises OSError: if it leads nowhere.
    """
    if (parts, follow) in root.known:
        return root.known[parts, follow]
    where: list[str] = []
    node: Node = root
    ahead = list(reversed(parts))
    while ahead:
        if not isinstance(node, Directory):
            raise make_error(errno.ENOTDIR, '/'.join(where))
        name = ahead.pop()
        where.append(name)
        found = node.entries.get(name)
        if found is None:
            raise make_error(errno.ENOENT, '/'.join(where))
        if isinstance(found, Link) and (ahead or follow):
            ahead.extend(reversed(found.target))
            where, node = [], root
        else:
            node = found
    root.known[parts, follow] = tuple(where), node
    return tuple(where), node


def make_error(number: int, where: str) -> OSError:
    """An error as the kernel gives it."""
    return OSError(number, os.strerror(number), where)
