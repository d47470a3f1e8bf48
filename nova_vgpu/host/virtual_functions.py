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

"""Enable and disable virtual functions.

NVIDIA's program is tried first, if it is installed::

    /usr/lib/nvidia/sriov-manage -e|-d <GPU>

While it runs it binds the GPU to ``pci-pf-stub``; if it is killed, the GPU
stays bound to that. It fails with "Cannot obtain unbindLock" while a process
has the GPU open, which is temporary. Other drivers, and some releases of
NVIDIA's, use the kernel's file ``sriov_numvfs``.
"""

from collections.abc import Sequence
import errno

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import tools

DEFAULT_TOOL = '/usr/lib/nvidia/sriov-manage'
STUB_DRIVER = 'pci-pf-stub'

_PASSES = 'unbindLock'
_NO_OVERRIDE = ('', '(null)')


class NotYet(Exception):
    """A temporary failure; try again."""


def set_vfs(
    tree: files.Files,
    gpu: values.PciAddress,
    number: int,
    tool: tuple[tools.Run, str] | None,
    seconds: float,
    keep: Sequence[int] = (),
) -> None:
    """Enable that many virtual functions: all of them, or 0.

    :param tool: the vendor's program, and what runs it; None if the vendor has
        none for this GPU.
    :raises NotYet: if the GPU is busy at the moment.
    :raises StepFailed: if it failed.
    """
    if tool is not None:
        run, path = tool
        argv = [path, '-e' if number else '-d', str(gpu)]
        try:
            finished = run(argv, seconds, keep)
        except tools.TimedOut as error:
            raise exception.StepFailed(
                f'{error} and was killed.',
                'Is the driver hung (see the kernel log)? What it left behind '
                'is repaired by the next run.',
            ) from error
        except tools.MissingError as error:
            _write_vfs(tree, gpu, number, f' ({error})')
        else:
            _require_success(path, finished)
        return
    _write_vfs(tree, gpu, number, '')


def repair_driver(tree: files.Files, gpu: values.PciAddress) -> None:
    """Bind a GPU to its own driver, if it is bound to the stub or unbound.

    :raises StepFailed: if no driver binds to it.
    """
    where = (*files.PCI, str(gpu))
    try:
        driver = tree.find_link_name(*where, 'driver')
        if driver in (None, STUB_DRIVER):
            # First, or the stub would bind to it again.
            _clear_override(tree, where)
        if driver == STUB_DRIVER:
            tree.write(
                f'{gpu}\n', 'bus', 'pci', 'drivers', STUB_DRIVER, 'unbind'
            )
            driver = None
        if driver is None:
            tree.write(f'{gpu}\n', 'bus', 'pci', 'drivers_probe')
            driver = tree.find_link_name(*where, 'driver')
    except OSError as error:
        raise failed_write(error) from error
    except files.Unreadable as error:
        raise exception.StepFailed(f'{error}.', 'Is the GPU gone?') from error
    if driver is None:
        raise exception.StepFailed(
            'No driver binds to it.',
            "Install and load the vendor's vGPU host driver.",
        )


def _clear_override(tree: files.Files, where: files.Path) -> None:
    """Allow the GPU's own driver again, if only the stub is allowed."""
    override = tree.read(*where, 'driver_override')
    if override in _NO_OVERRIDE:
        return
    if override != STUB_DRIVER:
        raise exception.StepFailed(
            f'Its driver_override is {override}: only that driver may use it.',
            'Remove it from the configuration, or clear the override.',
        )
    tree.write('\n', *where, 'driver_override')


def failed_write(error: OSError) -> exception.StepFailed:
    """The error for a write to sysfs that was refused."""
    reason = (error.strerror or str(error)).lower()
    cure = 'The kernel log may say more (journalctl -k).'
    if error.errno == errno.EROFS:
        cure = 'sysfs is read-only here: is this a container?'
    elif error.errno in (errno.EACCES, errno.EPERM):
        cure = 'Run it as root.'
    where = f'{error.filename}: ' if error.filename else ''
    return exception.StepFailed(f'{where}{reason}.', cure)


def _require_success(path: str, finished: tools.Finished) -> None:
    if finished.code == 0:
        return
    if _PASSES in finished.output:
        raise NotYet(
            f'{path}: a process has the GPU open ("Cannot obtain unbindLock")'
        )
    raise exception.StepFailed(
        f'{path} ended with exit code {finished.code} and printed: '
        f'{finished.said}.',
        'Is the vGPU manager running (systemctl status nvidia-vgpu-mgr)?',
    )


def _write_vfs(
    tree: files.Files, gpu: values.PciAddress, number: int, why: str
) -> None:
    try:
        tree.write(f'{number}\n', *files.PCI, str(gpu), 'sriov_numvfs')
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise exception.StepFailed(
                "Its driver refuses sriov_numvfs, and the vendor's program "
                f'cannot be run{why}.',
                'Install it with the vGPU host driver, or name it with '
                '--sriov-manage.',
            ) from error
        raise failed_write(error) from error
