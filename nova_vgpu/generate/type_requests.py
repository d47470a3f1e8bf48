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

"""The GPUs of an operator's type requests, or why they are refused.

A request is a type for one GPU or for all that offer it. A GPU that shows no
types, for example because its virtual functions are disabled, counts by its
model: the name of a type contains the model. Nothing is guessed: an ambiguous
request is refused, with all reasons at once.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching


def grant(
    host: values.Host, requests: Iterable[values.TypeRequest]
) -> tuple[values.MatchedRequest, ...]:
    """Every requested GPU with its type, in the order of requests.

    :raises RequestRefusedError: with every reason.
    """
    names = type_matching.list_type_names(host)
    granted: dict[str, values.MatchedRequest] = {}
    refused: list[str] = []
    for request in requests:
        found = (
            list(_for_all(host, request.type, names))
            if request.gpu is None
            else [_for_one(request.gpu, request.type, names)]
        )
        if not found:
            refused.append(_on_no_gpu(host, request.type, names))
        for answer in found:
            if isinstance(answer, str):
                refused.append(answer)
                continue
            first = granted.setdefault(answer.gpu.name, answer)
            if first != answer:
                refused.append(_twice(first, answer))
    if refused:
        raise exception.RequestRefusedError(dict.fromkeys(refused))
    return tuple(granted.values())


def refuse_not_ready(granted: values.MatchedRequest) -> str:
    """Why only the GPU itself can be listed if it shows no types."""
    obstacle = readiness.find_obstacle(granted.gpu)
    why = f': {obstacle.finding}. {obstacle.cure}' if obstacle else '.'
    return (
        f'GPU {granted.gpu} shows no types, so the functions to list are '
        'unknown. Request only GPUs that are ready (--type GPU=TYPE), or '
        f'prepare it{why}'
    )


def warn_of_maximum(gpu: values.PhysicalGPU, listed: int) -> str:
    """A GPU with an unknown number of functions to list."""
    return (
        f'GPU {gpu}: its maximum of vGPUs of the type is unknown, and '
        f'{listed} functions are listed. Remove those that are too many.'
    )


def _for_all(
    host: values.Host, requested: str, names: Mapping[str, str]
) -> Iterator[values.MatchedRequest | str]:
    for gpu in host.gpus:
        answer = _match(gpu, requested, names)
        if answer is None and not readiness.is_passed_through(gpu):
            answer = _match_model(gpu, requested, names)
        if answer is not None:
            yield answer


def _for_one(
    gpu: values.PhysicalGPU, requested: str, names: Mapping[str, str]
) -> values.MatchedRequest | str:
    return (
        _match(gpu, requested, names)
        or _match_model(gpu, requested, names)
        or _refuse(gpu, requested, names)
    )


def _match(
    gpu: values.PhysicalGPU, requested: str, names: Mapping[str, str]
) -> values.MatchedRequest | str | None:
    """The grant if the GPU offers the type; a reason if that is ambiguous."""
    types = type_matching.list_types(gpu, names)
    matches = type_matching.find_matches(requested, types)
    if len(matches) > 1:
        return (
            f'GPU {gpu} has more than one type that {requested!r} can mean: '
            f'{", ".join(map(str, matches))}. Write the id of the one that is '
            'meant.'
        )
    if not matches:
        return None
    return values.MatchedRequest(
        gpu, capabilities.short_name(matches[0]), matches[0]
    )


def _match_model(
    gpu: values.PhysicalGPU, requested: str, names: Mapping[str, str]
) -> values.MatchedRequest | None:
    """The grant if the GPU is of the model in the type's name."""
    if readiness.find_obstacle(gpu) is None:
        return None  # it shows itself what it offers
    # An id alone does not name the model; another GPU may name it.
    model = capabilities.model_of(gpu)
    name = capabilities.complete_name(names.get(requested, requested), model)
    if name is None or name.model != model:
        return None
    facts = capabilities.facts_of(gpu, values.VGPUType(name.short, name.short))
    if facts.max_instances is None:
        return None  # larger than the GPU, or unknown
    return values.MatchedRequest(gpu, name.short)


def _refuse(
    gpu: values.PhysicalGPU, requested: str, names: Mapping[str, str]
) -> str:
    types = type_matching.list_types(gpu, names)
    obstacle = readiness.find_obstacle(gpu)
    made_by = capabilities.vendor_of(gpu)
    if made_by is not None and made_by.parse_vf_profile(requested):
        return _write_profile(requested, str(gpu))
    if obstacle is None:
        if type_matching.may_be_hidden(gpu, names.get(requested, requested)):
            return _hidden(gpu, requested, names)
        near = type_matching.find_meant(requested, types)
        meant = f' Did you mean {near}?' if near else ''
        offered = type_matching.list_offers(gpu, types)
        return (
            f'GPU {gpu} does not offer {requested!r}. It offers: {offered}.'
            f'{meant}'
        )
    if obstacle.code == 'no-types-ever':
        return (
            f'GPU {gpu} never offers {requested!r}: {obstacle.finding}. '
            f'{obstacle.cure}'
        )
    model = capabilities.model_of(gpu)
    name = capabilities.complete_name(names.get(requested, requested), model)
    if model and name and name.model != model:
        return f'GPU {gpu} is of model {model} and never offers {requested!r}.'
    return (
        f'GPU {gpu} shows no types: {obstacle.finding}. Until then it is '
        f'unknown whether it offers {requested!r}. {obstacle.cure}'
    )


def _on_no_gpu(
    host: values.Host, requested: str, names: Mapping[str, str]
) -> str:
    for gpu in host.gpus:
        if type_matching.may_be_hidden(gpu, names.get(requested, requested)):
            return _hidden(gpu, requested, names)
        made_by = capabilities.vendor_of(gpu)
        if made_by is not None and made_by.parse_vf_profile(requested):
            return _write_profile(requested, str(gpu))
    types = [t for gpu in host.gpus for t in gpu.types]
    near = type_matching.find_meant(requested, types)
    meant = f'Did you mean {near}? ' if near else ''
    return (
        f'No GPU of this host offers {requested!r}. {meant}"nova-vgpu type '
        'list" shows the types.'
    )


def _write_profile(requested: str, gpu: str) -> str:
    return (
        f'{requested} is a VF profile, which this command does not write. '
        f'Write it to nova.conf: enabled_vgpu_types = {requested}, and in '
        f'[vgpu_{requested}] device_addresses = {gpu}'
    )


def _hidden(
    gpu: values.PhysicalGPU, requested: str, names: Mapping[str, str]
) -> str:
    unnamed = [
        t.id for t in type_matching.list_types(gpu, names) if not t.name
    ]
    cure = (
        f'To request {unnamed[0]}, which has no name now, use the id.'
        if unnamed
        else 'Try again when they are removed.'
    )
    return (
        f'GPU {gpu} does not offer {requested!r} now: it has vGPUs, and lists '
        f'only what fits beside them. {cure}'
    )


def _twice(first: values.MatchedRequest, second: values.MatchedRequest) -> str:
    return (
        f'GPU {first.gpu} is requested for {first.name} and {second.name}. '
        'This command writes one type for each GPU: name each GPU with its '
        f'type, --type {first.gpu}={first.name}. To have both on one GPU, '
        'write the number of vGPUs behind its address in the section of each '
        f'type: device_addresses = {first.gpu}=N'
    )
