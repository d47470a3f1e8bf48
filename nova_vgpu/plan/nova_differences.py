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

"""What a configuration with Nova's names means for Nova's own driver.

If it means something else here, a warning is given. GPUs that no type
lists serve the first type here. Nova's driver gives them the first type that
has no addresses, and nothing if all have some. ``max_instances`` is for one
GPU here, and for all GPUs of the host there.
"""

from collections.abc import Iterator
from collections.abc import Sequence

from nova_vgpu import values


def find_differences(
    declaration: values.Declaration, assignments: Sequence[values.Assignment]
) -> Iterator[values.Problem]:
    """Warnings, each with the option that resolves it."""
    if not declaration.has_novas_names:
        return
    if not declaration.unlisted_is_set:
        yield from _check_unlisted(declaration, assignments)
    for declared in declaration.types:
        yield from _check_max_instances(declared, assignments)


def _check_unlisted(
    declaration: values.Declaration, assignments: Sequence[values.Assignment]
) -> Iterator[values.Problem]:
    unlisted = [
        assigned
        for assigned in assignments
        if assigned.reason is values.Reason.FIRST_TYPE
        # Otherwise an error has the option as its cure.
        and assigned.type is not None
    ]
    default = next(
        (d for d in declaration.types if not d.device_addresses), None
    )
    if not unlisted or default is declaration.types[0]:
        return
    gpus = ', '.join(str(assigned.gpu) for assigned in unlisted)
    what, them = (
        (f'GPU {gpus} is not listed and serves', 'it')
        if len(unlisted) == 1
        else (f'GPUs {gpus} are not listed and serve', 'them')
    )
    if default is None:
        novas = f'not use {them}'
        cure = (
            'Set [devices]unlisted_gpus = ignore to do the same, or '
            f'first-type to use {them}.'
        )
    else:
        novas = f'use {default.name!r}, the first without addresses'
        cure = (
            f'List {them} in {default.option("device_addresses")} to do the '
            'same, or set [devices]unlisted_gpus = first-type.'
        )
    yield values.Problem(
        values.Severity.WARNING,
        'unlisted-unlike-nova',
        declaration.types_option,
        f'{declaration.types_option}: {what} the first type, '
        f"{declaration.types[0].name!r}. Nova's own driver would {novas}.",
        cure,
    )


def _check_max_instances(
    declared: values.DeclaredType, assignments: Sequence[values.Assignment]
) -> Iterator[values.Problem]:
    serving = sum(
        assigned.serves and assigned.declared.name == declared.name
        for assigned in assignments
    )
    most = declared.max_instances
    if most is None or not declared.is_novas_section or serving < 2:
        return
    option = declared.option('max_instances')
    yield values.Problem(
        values.Severity.WARNING,
        'max-instances-unlike-nova',
        option,
        f'{option}: {most} vGPUs on each of {serving} GPUs. '
        "Nova's own driver counts them over the host: "
        f'{most} on all of them.',
        f'Call the section [vgpu_{declared.name}] if each GPU is meant.',
    )
