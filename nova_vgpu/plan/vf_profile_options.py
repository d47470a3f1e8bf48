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

"""The options of types that are for VF profiles."""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities

_SCHEDULING = ('exec_quantum_ms', 'preempt_timeout_us')


def check_options(declared: values.DeclaredType) -> Iterator[values.Problem]:
    """Options of VF profiles, under a type that is none of that vendor."""
    is_profile = capabilities.parse_vf_profile(declared.name) is not None
    made_by = capabilities.vendor_of_type(declared.name)
    is_ones = {
        vendor: is_profile and made_by is not None and made_by.name == vendor
        for vendor in ('Intel', 'AMD')
    }
    written = [(name, 'Intel') for name, _ in list_scheduling(declared)]
    if declared.partition is not None:
        written.append(('partition', 'AMD'))
    for name, vendor in written:
        if is_ones[vendor]:
            continue
        option = declared.option(name)
        yield values.Problem(
            values.Severity.WARNING,
            'vf-profile-option',
            option,
            f'{option} has no effect: {declared.name!r} is not a VF profile '
            f'of {vendor}.',
            'Remove it.',
        )


def list_scheduling(
    declared: values.DeclaredType,
) -> Iterator[tuple[str, int]]:
    """What is set, by the names of fields of VFProfiles."""
    for name in _SCHEDULING:
        number = getattr(declared, name)
        if number is not None:
            yield name, number
