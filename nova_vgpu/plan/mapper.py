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

"""The mapper: from the configuration and the host to the plan.

One pass finds every assignment and every problem. A problem of severity FATAL
is the operator's mistake and keeps Nova from starting
(:func:`require_valid`); an ERROR concerns one GPU, which then has no
inventory, and leaves the others alone.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import address_matching
from nova_vgpu.plan import assignment
from nova_vgpu.plan import fixed_vfs
from nova_vgpu.plan import mig_problems
from nova_vgpu.plan import nova_conflicts
from nova_vgpu.plan import readiness
from nova_vgpu.plan import share_checks
from nova_vgpu.plan import shares
from nova_vgpu.plan import type_matching
from nova_vgpu.plan import validation

# Stands for the vendor of parents that are not PCI devices.
_VIRTUAL = 'virtual'


def make_plan(given: values.PlanInput) -> values.Plan:
    """The whole plan, for everything that needs one."""
    declaration, host = given.configuration.declaration, given.host
    changes = type_matching.find_changes_in_use(given)
    names = type_matching.list_type_names(host)
    # A divided GPU is rarely empty, and one that is full may name no types.
    known_names = {**dict(given.configuration.type_names), **names}
    nowhere = type_matching.find_nowhere(declaration, host, names)
    claims, address_problems = address_matching.find_claims(
        declaration.types, host, given.configuration.seen
    )
    problems = [
        *given.configuration.problems,
        *validation.check_declaration(declaration, host),
        *map(type_matching.make_change_problem, changes),
        *address_problems,
    ]
    assignments: list[values.Assignment] = []
    left_alone: list[values.LeftAlone] = []
    for placed, found in _place_all(given, claims, names, known_names):
        problems.extend(found)
        if isinstance(placed, values.LeftAlone):
            left_alone.append(placed)
        elif type_matching.is_changed(placed.declared, changes) or (
            nova_conflicts.is_nothing_left(placed)
        ):
            # No type at all, rather than a wrong one: a running nova-compute
            # must not assign it to servers either.
            assignments.append(placed)
        else:
            resolved, found = assignment.resolve(
                placed, known_names if placed.share else names
            )
            assignments.append(resolved)
            problems.extend(_without_repetition(found, placed, nowhere))
    misfits = [*share_checks.find_misfits(assignments, known_names)]
    problems = [*_without_room_of(misfits, problems), *misfits]
    problems += validation.check_types(declaration, host, assignments, nowhere)
    problems += nova_conflicts.find_differences(declaration, assignments)
    problems += mig_problems.find_unknown(given, assignments, known_names)
    return values.Plan(
        tuple(assignments),
        tuple(left_alone),
        _in_order(problems),
        frozenset(fault.device for fault in host.faults),
        declaration.types,
    )


def require_valid(plan: values.Plan) -> None:
    """Refuse a plan that the operator has to correct.

    :raises InvalidLibvirtGPUConfig: with every such problem.
    """
    fatal = plan.problems_of(values.Severity.FATAL)
    if fatal:
        raise exception.InvalidLibvirtGPUConfig(fatal)


def _without_repetition(
    found: Iterable[values.Problem],
    placed: values.Assignment,
    nowhere: frozenset[str],
) -> Iterator[values.Problem]:
    """A type that no GPU offers is one problem, not one per GPU."""
    for problem in found:
        if (
            problem.code != 'type-not-offered'
            or placed.reason is values.Reason.LISTED
            or placed.declared.name not in nowhere
            or not placed.gpu.types
        ):
            yield problem


def _without_room_of(
    misfits: Iterable[values.Problem], problems: Iterable[values.Problem]
) -> Iterator[values.Problem]:
    """No lack of room on a GPU whose numbers do not fit anyway."""
    too_full = {p.subject for p in misfits if p.code == 'shares-do-not-fit'}
    for problem in problems:
        is_lack = problem.code in ('no-room', 'too-few-gpu-instances')
        if not is_lack or problem.subject not in too_full:
            yield problem


def _place_all(
    given: values.PlanInput,
    claims: Iterable[address_matching.Claim],
    names: Mapping[str, str],
    known_names: Mapping[str, str],
) -> Iterator[
    tuple[values.Assignment | values.LeftAlone, Iterable[values.Problem]]
]:
    """What each GPU serves, without the VFs that Nova assigns.

    Other parents of mdevs are left out.

    :param known_names: what ids of types mean, or meant, on this host.
    """
    declaration = given.configuration.declaration
    first_vendors = _find_vendors_of_first(declaration, given.host, names)
    specs = declaration.competing_pci_devices
    vf_numbers = fixed_vfs.list_numbers(given.host, claims)
    for gpu in given.host.gpus:
        listed = nova_conflicts.find_listed(specs, gpu)
        of_gpu = [claim for claim in claims if claim.gpu.name == gpu.name]
        on_gpu = (
            _assign_listed(gpu, of_gpu, known_names)
            if of_gpu
            else [_assign_unlisted(gpu, declaration, first_vendors, listed)]
        )
        aside = nova_conflicts.list_aside(gpu, listed)
        for placed in on_gpu:
            if isinstance(placed, values.Assignment):
                yield (
                    dataclasses.replace(
                        placed,
                        functions=placed.functions - aside,
                        pci_devices=aside,
                        modes=given.modes.of(gpu.address),
                        vf_numbers=(
                            vf_numbers if fixed_vfs.is_fixed(gpu) else ()
                        ),
                    ),
                    nova_conflicts.find_pci_problems(placed, listed, aside),
                )
            elif not gpu.is_other_device:
                yield placed, ()


def _assign_listed(
    gpu: values.PhysicalGPU,
    of_gpu: list[address_matching.Claim],
    names: Mapping[str, str],
) -> list[values.Assignment | values.LeftAlone]:
    if address_matching.list_conflicts(of_gpu):
        return [values.LeftAlone(gpu, 'under two types')]
    return [*shares.place(gpu, of_gpu, names)]


def _assign_unlisted(
    gpu: values.PhysicalGPU,
    declaration: values.Declaration,
    first_vendors: frozenset[str],
    listed: nova_conflicts.Listed,
) -> values.Assignment | values.LeftAlone:
    """A GPU that no type lists serves the first type, or is left alone."""
    if not declaration.types:
        return values.LeftAlone(gpu, 'no type is enabled')
    if declaration.unlisted is values.UnlistedGPUs.IGNORE:
        return values.LeftAlone(gpu, 'not listed')
    if not capabilities.makes_vgpus(gpu):
        if gpu.vf_profiles is not None:
            return values.LeftAlone(gpu, 'not listed, and has no vGPU types')
        return values.LeftAlone(gpu, 'does not support vGPUs')
    if readiness.is_passed_through(gpu):
        return values.LeftAlone(gpu, 'not listed, and passed through')
    if nova_conflicts.is_whole(gpu, listed):
        return values.LeftAlone(gpu, 'not listed, and in [pci]device_spec')
    first = declaration.types[0]
    if first_vendors and _name_vendor(gpu) not in first_vendors:
        return values.LeftAlone(gpu, 'not listed, and of another vendor')
    return values.Assignment(
        gpu, first, values.Reason.FIRST_TYPE, gpu.functions
    )


def _find_vendors_of_first(
    declaration: values.Declaration,
    host: values.Host,
    names: Mapping[str, str],
) -> frozenset[str]:
    """The vendors of the first type; empty if unknown.

    The vendor of the GPUs that offer it, else by its spelling.
    """
    if not declaration.types:
        return frozenset()
    first = declaration.types[0].name
    offered = frozenset(
        _name_vendor(gpu)
        for gpu in host.gpus
        if type_matching.find_matches(
            first, type_matching.list_types(gpu, names)
        )
    )
    vendor = capabilities.vendor_of_type(first)
    if offered or vendor is None:
        return offered
    return frozenset({vendor.name})


def _name_vendor(gpu: values.PhysicalGPU) -> str:
    vendor = capabilities.vendor_of(gpu)
    return vendor.name if vendor else _VIRTUAL


def _in_order(
    problems: Iterable[values.Problem],
) -> tuple[values.Problem, ...]:
    """The worst first, without duplicates, otherwise in order."""
    ranks = list(values.Severity)
    once = dict.fromkeys(problems)
    return tuple(sorted(once, key=lambda p: ranks.index(p.severity)))
