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

"""What a host has and what is wrong with it, as labels of metrics.

Each of these series has the value 1; what it tells is in its labels. They are
few and bounded: one for each function or vGPU, for each vGPU of a guest, for
each problem, and for each step that is due. The types that each function
offers are not among them: the vGPUs of a GPU share its memory, so that one new
vGPU would replace the series of all functions of the GPU.
``nova_vgpu_type_available`` has the same for the GPU. Servers are named by
their UUIDs.
"""

from collections.abc import Callable
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.plan import function_states

#: The name of a metric, its label values and the number.
Number = tuple[str, tuple[str, ...], float]
#: The name of a type by its id.
NameType = Callable[[str], str]

_Function = values.PhysicalGPU | values.VirtualFunction


def describe_functions(
    report: values.DriftReport, name_type: NameType
) -> Iterator[Number]:
    """The functions of GPUs, and the vGPUs on them."""
    for gpu in report.plan.gpus:
        if gpu.sriov is not None:
            yield 'functions', (str(gpu), 'enabled'), len(gpu.vfs)
            yield 'functions', (str(gpu), 'possible'), gpu.sriov.total
        for function in _list_functions(gpu):
            for labels in _describe(function, report.usage, name_type):
                yield 'function_info', (str(gpu), *labels), 1


def _list_functions(gpu: values.PhysicalGPU) -> Iterator[_Function]:
    if gpu.offers or gpu.vgpus:
        yield gpu
    yield from gpu.vfs


def _describe(
    function: _Function, usage: values.Usage, name_type: NameType
) -> Iterator[tuple[str, ...]]:
    """The labels of a function: for each of its vGPUs, or for none."""
    place = str(function.address or function.name)
    state = function_states.find_state(function)
    for vgpu in function.vgpus:
        owner = usage.owners.get(vgpu.name)
        yield (
            place,
            function_states.FunctionState.TAKEN.value,
            name_type(vgpu.type_id),
            vgpu.uuid or place,
            owner.uuid if owner else '',
        )
    if state is not function_states.FunctionState.TAKEN:
        owner = usage.owners.get(function.name)
        yield place, state.value, '', '', owner.uuid if owner else ''


def describe_guests(report: values.DriftReport) -> Iterator[Number]:
    """The drivers of guests; what is unknown is an empty label."""
    for found in report.guest_drivers:
        version = found.version or ''
        if found.is_loaded is False:
            version = 'none'
        labels = (found.vgpu, found.server, version, found.licence.value)
        yield 'guest_info', (str(found.gpu), *labels), 1


def describe_findings(report: values.DriftReport) -> Iterator[Number]:
    """Problems, the steps of an apply, and what it would refuse."""
    for problem in report.plan.problems:
        labels = (problem.severity.value, problem.code, problem.subject)
        texts = (_on_one_line(problem.message), _on_one_line(problem.cure))
        yield 'problem_info', (*labels, *texts), 1
    for step in report.steps:
        yield 'drift_info', (step.gpu, _on_one_line(str(step))), 1
    for refusal in report.refusals:
        texts = (_on_one_line(refusal.message), _on_one_line(refusal.cure))
        yield 'refused_info', (refusal.gpu, *texts), 1


def _on_one_line(text: str) -> str:
    return ' '.join(text.split())
