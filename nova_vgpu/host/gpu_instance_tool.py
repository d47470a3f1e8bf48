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

"""Switch MIG mode, create and remove GPU instances, by nvidia-smi.

::

    nvidia-smi -i <GPU> -mig 0|1
    nvidia-smi mig -cgi <profiles> -C -i <GPU>
    nvidia-smi mig -dci -gi <instance> -i <GPU>
    nvidia-smi mig -dgi -gi <instance> -i <GPU>

The program, and not NVML: one that hangs can be killed, and one that was
started continues to its end if this process is killed, so that an instance
gets its compute instance. What is in use is refused by the driver, too, which
is temporary if a process has the GPU open for a moment.

MIG mode is not switched while the GPU has virtual functions. To switch it
resets the GPU; if something has the GPU open, the mode is pending until the
next reset. Some GPUs lose the mode when the host reboots.
"""

from collections.abc import Sequence
import functools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import tools
from nova_vgpu.host import virtual_functions

# nvml.h: NVML_ERROR_IN_USE, which is also the exit code.
_IN_USE = 19
_IN_USE_TEXT = 'in use by another client'


def switch_mode(
    run: tools.Run,
    path: str,
    gpu: values.PciAddress,
    wanted: bool,
    seconds: float,
    keep: Sequence[int] = (),
) -> None:
    """Turn MIG mode on or off; it may be pending after that.

    :param keep: descriptors that the program inherits.
    :raises NotYet: if the GPU is busy at the moment.
    :raises StepFailed: if it failed.
    """
    _run(
        functools.partial(run, keep=keep),
        [path, '-i', str(gpu), '-mig', '1' if wanted else '0'],
        seconds,
        'Does the GPU support MIG, and are its virtual functions disabled?',
    )


def create(
    run: tools.Run,
    path: str,
    gpu: values.PciAddress,
    profile_id: int,
    number: int,
    seconds: float,
) -> None:
    """Create GPU instances of a profile, with their compute instances.

    :raises NotYet: if the GPU is busy at the moment.
    :raises StepFailed: if it failed.
    """
    profiles = ','.join([str(profile_id)] * number)
    argv = [path, 'mig', '-cgi', profiles, '-C', '-i', str(gpu)]
    _run(
        run,
        argv,
        seconds,
        'Other GPU instances may be in the way: "nvidia-smi mig -lgi" lists '
        'them, and "nvidia-smi mig -lgipp" where those of a profile can be.',
    )


def remove(
    run: tools.Run,
    path: str,
    gpu: values.PciAddress,
    instance: values.GPUInstance,
    seconds: float,
) -> None:
    """Remove a GPU instance with its compute instances.

    :raises NotYet: if the GPU is busy at the moment.
    :raises StepFailed: if it failed.
    """
    where = ['-gi', str(instance.id), '-i', str(gpu)]
    cure = 'Is it in use? "nvidia-smi mig -lci" lists compute instances.'
    if instance.is_complete:
        _run(run, [path, 'mig', '-dci', *where], seconds, cure)
    _run(run, [path, 'mig', '-dgi', *where], seconds, cure)


def _run(
    run: tools.Run, argv: Sequence[str], seconds: float, cure: str
) -> None:
    try:
        finished = run(argv, seconds)
    except (tools.MissingError, tools.TimedOut) as error:
        raise exception.StepFailed(
            f'{error}.', 'Is the vGPU host driver installed and running?'
        ) from error
    if finished.code == 0:
        return
    said = f'nvidia-smi ended with exit code {finished.code} and printed: '
    if finished.code == _IN_USE or _IN_USE_TEXT in finished.output.lower():
        raise virtual_functions.NotYet(f'{said}{finished.said}')
    raise exception.StepFailed(f'{said}{finished.said}.', cure)
