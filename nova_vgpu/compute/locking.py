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

"""The locks that nova-compute holds while it chooses, makes or removes vGPUs.

:mod:`nova_vgpu.host.locks` says what they are for. Only servers with vGPUs
wait for them, and nothing waits without end: a command that hangs while it
holds one must not take the service with it. Reports to Placement are made
under a lock of Nova's that every build needs, so they do not wait at all.
"""

from collections.abc import Iterator
import contextlib
import time

from nova import utils as nova_utils
import nova.conf

from nova_vgpu import exception
from nova_vgpu.host import locks

CONF = nova.conf.CONF

#: How long a server waits. A command holds a lock for as long as it takes to
#: make or remove one vGPU.
WAIT_SECONDS = 60.0
#: How long the start of the service waits, before any server is started.
START_SECONDS = 10.0

_ALLOCATION = 'nova-vgpu-allocation'


class BusyHereError(exception.BusyError):
    """Another thread of nova-compute is at work on vGPUs."""


def get_directory() -> str:
    """Where Nova has its locks.

    :raises RequiredOptError: if the option is not set.
    """
    nova_utils.lockutils.external_lock(locks.CREATION)  # raises, opens nothing
    directory: str = CONF.oslo_concurrency.lock_path
    return directory


def hold_allocation(
    seconds: float = WAIT_SECONDS,
) -> contextlib.AbstractContextManager[None]:
    """What is free now stays so, as far as this process is concerned.

    :raises BusyHereError: if another thread does not end.
    """
    return _hold_in_process(_ALLOCATION, seconds)


@contextlib.contextmanager
def hold_creation(seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """vGPU managers crash when vGPUs are created side by side.

    Also by processes other than this one.

    :raises BusyError: if another thread or process does not end.
    :raises StateUnusable: if the lock file cannot be opened.
    """
    end = time.monotonic() + seconds
    directory = get_directory()
    locks.ensure_directory(directory)
    # First, because a file lock is the whole process's.
    with _hold_in_process(locks.CREATION, seconds):
        left = max(0.0, end - time.monotonic())
        with locks.hold_creation(directory, left):
            yield


@contextlib.contextmanager
def hold_claims() -> Iterator[None]:
    """Keep commands from removing what was chosen and no guest shows.

    :raises BusyError: if a command does not end.
    :raises StateUnusable: if the lock file cannot be opened.
    """
    if not CONF.oslo_concurrency.lock_path:
        # No type is declared, or the service would not have started.
        yield
        return
    directory = get_directory()
    locks.ensure_directory(directory)
    with locks.hold_claims(directory, WAIT_SECONDS, exclusive=False):
        yield


@contextlib.contextmanager
def _hold_in_process(name: str, seconds: float) -> Iterator[None]:
    semaphore = nova_utils.lockutils.internal_lock(name)
    if not semaphore.acquire(timeout=seconds):
        raise BusyHereError(
            f'Another thread of nova-compute has held {name} for more than '
            f'{seconds:g} seconds.'
        )
    try:
        yield
    finally:
        semaphore.release()
