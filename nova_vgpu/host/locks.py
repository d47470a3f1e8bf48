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

"""Locks between the processes of one host.

``apply``
    One command at a time changes the host. It is in the state directory, and
    the vendor's programs that a command runs inherit it: if the command is
    killed, the next one waits until they end.

``nova-vgpu-creation``
    vGPUs are created and removed one at a time, by nova-compute and by the
    commands.

``nova-vgpu-claims``
    nova-compute holds it shared while a server has a pending allocation, a
    vGPU that no guest shows yet; commands that remove vGPUs hold it
    exclusively.

The last two are in nova-compute's lock directory. Every user who may create
files there may open them: commands run as root, nova-compute does not.

Not fasteners: its reader/writer lock is an fcntl lock of the whole process,
which other threads share and child programs do not inherit; these use flock.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import fcntl
import os
import stat
import time
import uuid

from nova_vgpu import exception
from nova_vgpu.host import files
from nova_vgpu.host import state

CREATION = 'nova-vgpu-creation'
CLAIMS = 'nova-vgpu-claims'

_APPLY = 'lock'
_POLL = 0.02
#: The kernel stores 15 characters of the name of a program.
_COMPUTE = ('nova-compute', 'nova-vgpu-compu')

Lock = Callable[[int, int], None]


@contextlib.contextmanager
def hold_apply(
    directory: str, seconds: float, waiting: Callable[[str], None]
) -> Iterator[int]:
    """Be the only command that changes the host.

    :param waiting: is called once with a message if this has to wait.
    :returns: the descriptor, for programs that inherit the lock.
    :raises BusyError: if the lock is not free in time.
    """
    path = os.path.join(directory, _APPLY)
    _make(directory)
    with _open(path) as descriptor:
        if not _try(fcntl.flock, descriptor, fcntl.LOCK_EX):
            holder = os.pread(descriptor, 32, 0).decode('ascii', 'replace')
            number = holder.strip() or 'with an unknown id'
            waiting(
                f'waiting for process {number}, which is changing this host'
            )
            _wait(fcntl.flock, descriptor, fcntl.LOCK_EX, path, seconds)
        os.ftruncate(descriptor, 0)
        # For processes that wait. The lock works without it: the disk may be
        # full.
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, f'{os.getpid()}\n'.encode(), 0)
        yield descriptor


@contextlib.contextmanager
def hold_creation(directory: str, seconds: float) -> Iterator[None]:
    """Be the only process that creates and removes vGPUs.

    :raises BusyError: if the lock is not free in time.
    """
    # An fcntl lock, as oslo.concurrency takes it in nova-compute.
    path = os.path.join(directory, CREATION)
    with _open(path) as descriptor:
        _wait(fcntl.lockf, descriptor, fcntl.LOCK_EX, path, seconds)
        yield


@contextlib.contextmanager
def hold_claims(
    directory: str, seconds: float, exclusive: bool
) -> Iterator[None]:
    """Prevent the removal of vGPUs, or be the only process to remove them.

    :raises BusyError: if the lock is not free in time.
    """
    path = os.path.join(directory, CLAIMS)
    with _open(path) as descriptor:
        how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        _wait(fcntl.flock, descriptor, how, path, seconds)
        yield


def ensure_directory(directory: str) -> None:
    """Create the directory of nova-compute's locks, as Nova itself would.

    Only for nova-compute: the directory must belong to its user.

    :raises StateUnusable: if it cannot be created.
    """
    _make(
        directory,
        "Let nova-compute's user write there, or set "
        '[oslo_concurrency]lock_path to another directory.',
    )


def _make(directory: str, cure: str | None = None) -> None:
    try:
        os.makedirs(directory, mode=0o755, exist_ok=True)
    except OSError as error:
        raise exception.StateUnusable(
            f'{directory} cannot be created: '
            f'{(error.strerror or "").lower()}. '
            f'{cure or state.find_cure(directory, error)}'
        ) from error


def list_unshared(
    proc: files.Files, path: str | None, own: str
) -> tuple[int, ...]:
    """The processes of nova-compute that use another lock directory.

    One in a container has its own directory, unless ours is mounted there.

    :param path: nova-compute's lock directory, as its process sees it.
    :param own: our lock directory.
    """
    found = []
    try:
        names = proc.list()
    except files.Unreadable:
        return ()
    for name in names:
        try:
            is_compute = name.isdecimal() and (
                proc.read(name, 'comm') in _COMPUTE
            )
        except files.Unreadable:
            continue  # it has ended, or is hidden from this user
        if is_compute and not _is_same(proc.path(name, 'root'), path, own):
            found.append(int(name))
    return tuple(found)


def _is_same(root: str, path: str | None, own: str) -> bool:
    """Whether a directory below another root is ours, if that can be read.

    A file system shows a directory with the same inode wherever it is mounted.
    """
    try:
        here = os.stat(own)
        there = os.stat(f'{root}/{path}') if path else None
    except PermissionError:
        return True
    except OSError:
        return False
    return there is not None and os.path.samestat(here, there)


def _wait(
    lock: Lock, descriptor: int, how: int, path: str, seconds: float
) -> None:
    deadline = time.monotonic() + seconds
    while not _try(lock, descriptor, how):
        if time.monotonic() > deadline:
            raise exception.BusyError(
                f'Timed out after {seconds:g} s: {path} is held by another '
                f'process. See which one: fuser {path}'
            )
        time.sleep(_POLL)


def _try(lock: Lock, descriptor: int, how: int) -> bool:
    try:
        lock(descriptor, how | fcntl.LOCK_NB)
    except OSError as error:
        if not isinstance(error, BlockingIOError | PermissionError):
            raise
        return False
    return True


@contextlib.contextmanager
def _open(path: str) -> Iterator[int]:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):
                _create(path)
        descriptor = os.open(path, flags)
        if os.geteuid() == 0:
            _repair(path, descriptor)
    except OSError as error:
        raise exception.StateUnusable(
            f'The lock {path} cannot be opened: '
            f'{(error.strerror or str(error)).lower()}. '
            f'{_find_cure(path, error)}'
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _find_cure(path: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return (
            'If nova-compute reports this, change the owner of the file to '
            'its user (chown); run commands as root.'
        )
    if isinstance(error, FileNotFoundError):
        return (
            'Is [oslo_concurrency]lock_path right? nova-compute creates the '
            'directory when it starts.'
        )
    return state.find_cure(os.path.dirname(path), error)


def _create(path: str) -> None:
    """Create the file atomically, with the owner of its directory.

    Under a unique name first: another process may create it now, too.
    """
    new = f'{path}.{uuid.uuid4().hex}'
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(new, flags, 0o644)
    try:
        _share(path, descriptor)
        os.link(new, path)
    finally:
        os.close(descriptor)
        os.unlink(new)


def _share(path: str, descriptor: int) -> None:
    """Let every user open a file who may create files in its directory."""
    directory = os.stat(os.path.dirname(path))
    os.fchmod(descriptor, 0o644 | stat.S_IMODE(directory.st_mode) & 0o022)
    if os.geteuid() == 0:
        os.fchown(descriptor, directory.st_uid, directory.st_gid)


def _repair(path: str, descriptor: int) -> None:
    """Share a file that an older release created for root only.

    Only an empty file of root with a single name: the directory's owner could
    have put a link to another file there.
    """
    found = os.fstat(descriptor)
    if (
        stat.S_ISREG(found.st_mode)
        and found.st_uid == 0
        and found.st_nlink == 1
        and found.st_size == 0
    ):
        _share(path, descriptor)
