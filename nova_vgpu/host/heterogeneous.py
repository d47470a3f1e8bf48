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


"""vGPUs of different sizes on one GPU: NVIDIA's heterogeneous mode.

The mode can be changed only while the GPU has no vGPU, and is lost when the
host reboots. ::

    nvidia-smi vgpu -shm 1 -i <GPU>
"""

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import tools

DEFAULT_TOOL = '/usr/bin/nvidia-smi'

_SHOWN = 400


def set_mixing(
    run: tools.Run,
    path: str,
    gpu: values.PciAddress,
    wanted: bool,
    seconds: float,
) -> None:
    """Allow vGPUs of different sizes on a GPU, or of one size only.

    :raises StepFailed: if it cannot be done.
    """
    argv = [path, 'vgpu', '-shm', '1' if wanted else '0', '-i', str(gpu)]
    try:
        finished = run(argv, seconds)
    except (tools.MissingError, tools.TimedOut) as error:
        raise exception.StepFailed(
            f'{error}.', 'Is the vGPU host driver installed and running?'
        ) from error
    if finished.code:
        said = ' '.join(finished.output.split())[:_SHOWN] or 'nothing'
        raise exception.StepFailed(
            f'nvidia-smi ended with exit code {finished.code} and printed: '
            f'{said}.',
            'Not every GPU and driver supports mixed sizes; without it, all '
            'vGPUs of a GPU must have one size.',
        )
