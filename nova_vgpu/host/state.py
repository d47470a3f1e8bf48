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


"""The directory for persistent state.

A file is replaced as a whole or extended by a line, and is on the disk when
the call returns. After a power cut a file has its old or its new content, or
an incomplete last line.
"""

import contextlib
import errno
import os

from nova_vgpu import exception
from nova_vgpu.host import files

DEFAULT_PATH = '/var/lib/nova-vgpu'

_MOST_BYTES = 16 * 1024 * 1024
_OPTION = '--state-dir'
_READABLE, _PRIVATE = 0o644, 0o600


def find_cure(directory: str, error: OSError, option: str = _OPTION) -> str:
    """The cure for a file that cannot be written in a directory.

    :param option: the option that names the directory, or the file.
    """
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return _suspect(option)
    while not os.path.isdir(directory) and directory != '/':
        directory = os.path.dirname(os.path.abspath(directory))
    return (
        f'Free space on its file system: df {directory}; df -i {directory}. '
        'Then run the command again.'
    )


def _suspect(option: str) -> str:
    return f'Is {option} right, and may this user write there?'


class StateDirectory:
    """The files that this project stores on a host.

    :param option: the option that an operator gives it with.
    """

    def __init__(
        self, path: str = DEFAULT_PATH, option: str = _OPTION
    ) -> None:
        self.path = path
        self._option = option
        self._files = files.Files(path, _MOST_BYTES)

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist.

        :raises StateUnusable: if it cannot be read.
        :raises StateDamaged: if it is not text.
        """
        try:
            return self._files.read(name)
        except files.Unreadable as error:
            if error.gone:
                return None
            if not isinstance(error.__cause__, OSError):
                # Zeros, as after a power cut, or too much text.
                raise exception.StateDamaged(f'{error}.') from error
            raise exception.StateUnusable(
                f'{error}. {_suspect(self._option)}'
            ) from error

    def replace(self, name: str, text: str) -> None:
        """Replace a file.

        :raises StateUnusable: if that fails; the old file stays.
        """
        self._replace(name, text, os.O_TRUNC, _READABLE)

    def replace_private(self, name: str, text: str) -> None:
        """Replace a file by one that only its owner can read.

        :raises StateUnusable: if that fails; the old file stays.
        """
        # An open file of another user is not written to.
        with contextlib.suppress(OSError):
            os.unlink(self._path(f'{name}.new'))
        self._replace(name, text, os.O_EXCL, _PRIVATE)

    def _replace(self, name: str, text: str, how: int, mode: int) -> None:
        path = self._path(name)
        new = self._path(f'{name}.new')
        try:
            self._write(new, os.O_CREAT | how, text, mode)
            os.replace(new, path)
            self._sync_directory()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(new)  # a part of it, on a disk that may be full
            raise self._unusable(path, error) from error

    def append(self, name: str, line: str) -> None:
        """Add a line to a file, which is created if necessary.

        :raises StateUnusable: if that fails; a part of the line may be there.
        """
        path = self._path(name)
        try:
            is_new = self._write(path, os.O_CREAT | os.O_APPEND, f'{line}\n')
            if is_new:
                self._sync_directory()
        except OSError as error:
            raise self._unusable(path, error) from error

    def set_aside(self, name: str, suffix: str) -> str:
        """Rename a file that cannot be used; returns its new path.

        :raises StateUnusable: if that fails.
        """
        path, aside = self._path(name), self._path(name + suffix)
        try:
            os.replace(path, aside)
            self._sync_directory()
        except OSError as error:
            raise self._unusable(path, error) from error
        return aside

    def _path(self, name: str) -> str:
        try:
            return self._files.path(name)
        except files.Unreadable as error:
            raise exception.StateUnusable(str(error)) from error

    def _write(
        self, path: str, flags: int, text: str, mode: int = _READABLE
    ) -> bool:
        """Write and sync; returns whether the file was empty before."""
        if not os.path.isdir(self.path):
            os.makedirs(self.path, exist_ok=True)
            os.chmod(self.path, 0o755)  # noqa: S103 (nova-compute reads it)
        flags |= os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, mode)
        try:
            # nova-compute's user reads some of it, whatever our umask is.
            os.fchmod(descriptor, mode)
            is_new = os.fstat(descriptor).st_size == 0
            data = text.encode()
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return is_new

    def _sync_directory(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _unusable(self, path: str, error: OSError) -> exception.StateUnusable:
        return exception.StateUnusable(
            f'{path} cannot be written: {(error.strerror or "").lower()}. '
            f'{find_cure(self.path, error, self._option)}'
        )
