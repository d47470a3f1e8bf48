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

"""Why a GPU, a virtual function or a type cannot be used.

From everything that was read to findings: the worst first, each with its
evidence and cure. A host without problems gets a few notes: the frameworks of
its GPUs, their schedulers, the licences that guests need.

Problems of the configuration are reported by ``check``. Here they are one
finding that refers to it.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.diagnose import gpu_findings
from nova_vgpu.diagnose import host_findings
from nova_vgpu.diagnose import mode_findings
from nova_vgpu.diagnose import scheduler_findings
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching

# Problems that only report a missing configuration.
_NOTHING_DECLARED = frozenset({'no-configuration', 'nothing-enabled'})
# Problems that have findings of their own.
_TOLD = (
    readiness.OBSTACLES
    | readiness.MIG_PROBLEMS
    | {'unreadable', 'type-id-changed', 'type-memory-lost'}
)
# How many of many are shown.
_EXAMPLES = 3


def diagnose(examined: values.DoctorInput) -> tuple[values.Finding, ...]:
    """Every finding, in order of severity."""
    found = [
        *host_findings.find(examined),
        *gpu_findings.find(examined),
        *mode_findings.find(examined),
        *_find_type_changes(examined),
        *_find_configuration_problems(examined),
        *scheduler_findings.find(examined),
        *host_findings.find_notes(examined),
    ]
    ranks = list(values.Severity)
    return tuple(sorted(found, key=lambda f: ranks.index(f.severity)))


def _find_type_changes(
    examined: values.DoctorInput,
) -> Iterator[values.Finding]:
    changes = type_matching.find_changes(
        examined.remembered, examined.host, examined.declaration
    )
    for change in changes:
        if change.option is not None:
            problem = type_matching.make_change_problem(change)
            yield values.Finding(
                values.Severity.ERROR,
                'type-id-changed',
                problem.subject,
                problem.message,
                (
                    values.Evidence(
                        'types.json', f'{change.id} = {change.old}'
                    ),
                    values.Evidence('host', f'{change.id} = {change.new}'),
                ),
                problem.cure,
            )
    others = [change for change in changes if change.option is None]
    if others:
        yield _other_ids_changed(others)


def _other_ids_changed(
    changes: list[type_matching.TypeChange],
) -> values.Finding:
    more = len(changes) - _EXAMPLES
    examples = [
        values.Evidence(change.id, f'{change.old}, now {change.new}')
        for change in changes[:_EXAMPLES]
    ]
    if more > 0:
        examples.append(values.Evidence('and', f'{more} more'))
    return values.Finding(
        values.Severity.NOTE,
        'type-id-changed',
        'types',
        f'Type ids that nova.conf does not use have other names than at the '
        f'last run ({len(changes)}).',
        tuple(examples),
        'Use names of types where possible. Definitions of mdevctl contain '
        'ids: check them with "mdevctl list --defined".',
    )


def _find_configuration_problems(
    examined: values.DoctorInput,
) -> Iterator[values.Finding]:
    left = [p for p in examined.plan.problems if p.code not in _TOLD]
    nothing = [p for p in left if p.code in _NOTHING_DECLARED]
    for problem in nothing:
        yield values.Finding(
            values.Severity.NOTE,
            'nothing-declared',
            problem.subject,
            'No type is enabled: every GPU is checked as one that is to serve '
            'vGPUs.',
            (values.Evidence('nova.conf', problem.message),),
            problem.cure,
        )
    left = [p for p in left if p not in nothing]
    if not left:
        return
    codes = dict.fromkeys(problem.code for problem in left)
    yield values.Finding(
        values.Severity.WARNING
        if all(p.severity is values.Severity.WARNING for p in left)
        else values.Severity.ERROR,
        'configuration-problems',
        'nova.conf',
        f'The configuration has problems ({len(left)}).',
        (values.Evidence('nova.conf', ', '.join(codes)),),
        'See "nova-vgpu check".',
    )
