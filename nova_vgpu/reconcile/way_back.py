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


"""The way back from an apply: every step the other way round, last one first.

A step that has nothing to do does nothing, so that a way back which was cut
off begins again. Where it disables VFs and enables them again, to switch MIG
mode, two things can be in its way that it made itself: a GPU on the stub
driver, and vGPUs that came back.
"""

from collections.abc import Iterator
import dataclasses
import typing

from nova_vgpu import values
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import steps


def plan(planned: values.GPUSteps, host: values.Host) -> values.GPUSteps:
    """The way back on a host, where an earlier one may have been cut off."""
    back = undo(planned)
    found = [gpu for gpu in host.gpus if str(gpu) == planned.gpu]
    if not found or not any(
        isinstance(step, values.SetMigMode) for step in back.steps
    ):
        return back
    names = dict(type_matching.list_type_names(host))
    cleared = [
        _turn(step)
        for step in back.steps
        if isinstance(step, steps.VGPUStep)
        and steps.creates(step)
        and _is_there(step, found[0], names)
    ]
    return dataclasses.replace(
        back, steps=(*_repair(found[0]), *cleared, *back.steps)
    )


def undo(planned: values.GPUSteps) -> values.GPUSteps:
    """Every step the other way round, the last one first."""
    return values.GPUSteps(
        planned.gpu,
        tuple(
            _turn(step)
            for step in reversed(planned.steps)
            if not isinstance(step, values.RepairDriver | values.AwaitTypes)
        ),
    )


def _turn(step: typing.Any) -> values.Step:
    turned: values.Step = dataclasses.replace(
        step, before=step.after, after=step.before
    )
    return turned


def _repair(gpu: values.PhysicalGPU) -> Iterator[values.Step]:
    if gpu.driver == readiness.STUB_DRIVER:
        yield values.RepairDriver(str(gpu))


def _is_there(
    step: steps.VGPUStep, gpu: values.PhysicalGPU, names: dict[str, str]
) -> bool:
    """Whether the vGPU that a step makes is there, and is of its type."""
    return any(
        vgpu.name == steps.vgpu_in(step)
        and type_matching.find_matches(
            steps.type_in(step),
            [values.VGPUType(vgpu.type_id, names.get(vgpu.type_id))],
        )
        for vgpu in gpu.all_vgpus
    )
