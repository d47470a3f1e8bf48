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

"""Problems of the declaration and of the reading, GPU by GPU aside."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.decisions import nearest
from nova_vgpu.decisions import resolution
from nova_vgpu.knowledge import traits


def check_declaration(
    declaration: values.Declaration,
) -> Iterator[values.Problem]:
    """What is wrong with the configuration on any host."""
    for declared in declaration.types:
        for trait in declared.traits:
            if not traits.is_valid(trait):
                option = declared.option('traits')
                yield values.Problem(
                    values.Severity.FATAL,
                    'bad-trait',
                    option,
                    f'{option}: {trait!r} is neither a standard trait nor a '
                    'well-formed custom one.',
                    f'Custom traits look like {traits.custom(trait)}.',
                )
    yield from _check_sections(declaration)


def _check_sections(
    declaration: values.Declaration,
) -> Iterator[values.Problem]:
    enabled = {declared.name.casefold() for declared in declaration.types}
    seen: dict[str, str] = {}
    for section in declaration.sections:
        of_type = section.partition('_')[2].casefold()
        if of_type not in enabled:
            yield _not_enabled(section, declaration)
        elif of_type in seen:
            yield values.Problem(
                values.Severity.WARNING,
                'two-sections',
                f'[{section}]',
                f'[{seen[of_type]}] and [{section}] are about the same type; '
                'where both set an option, the section named vgpu_ wins.',
                'Keep one of them.',
            )
        seen.setdefault(of_type, section)


def _not_enabled(
    section: str, declaration: values.Declaration
) -> values.Problem:
    of_type = section.partition('_')[2]
    near = nearest.find_nearest(of_type, [d.name for d in declaration.types])
    meant = f' Did you mean [vgpu_{near}]?' if near else ''
    return values.Problem(
        values.Severity.WARNING,
        'section-not-enabled',
        f'[{section}]',
        f'[{section}] is not used: {declaration.types_option} does not have '
        f'{of_type!r}.',
        f'Add the type there, or take the section out.{meant}',
    )


def check_faults(host: values.Host) -> Iterator[values.Problem]:
    """What could not be read on the host."""
    for fault in host.faults:
        yield values.Problem(
            values.Severity.ERROR,
            'unreadable',
            fault.device,
            f'{fault.device} cannot be read in full: {fault.source}: '
            f'{fault.reason}.',
            'See the kernel log about the device; some files need root.',
        )


def check_types(
    declaration: values.Declaration,
    host: values.Host,
    assignments: Sequence[values.Assignment],
    names: Mapping[str, str],
) -> Iterator[values.Problem]:
    """Enabled types that come to nothing."""
    in_use = {assigned.declared.name for assigned in assignments}
    for declared in declaration.types:
        if declared.name in in_use or declared.device_addresses:
            continue  # said GPU by GPU, or address by address
        offered = any(
            resolution.find_matches(
                declared.name, resolution.list_types(gpu, names)
            )
            for gpu in host.gpus
        )
        option = declaration.types_option
        ignored = declaration.unlisted is values.UnlistedGPUs.IGNORE
        if offered:
            yield values.Problem(
                values.Severity.WARNING,
                'type-unused',
                option,
                f'{option}: no GPU serves {declared.name!r}.',
                f'List GPUs in {declared.option("device_addresses")}: '
                + (
                    'GPUs that are not listed are ignored.'
                    if ignored
                    else 'only the first type takes GPUs that are not listed.'
                ),
            )
        else:
            yield values.Problem(
                values.Severity.ERROR,
                'type-on-no-gpu',
                option,
                f'{option}: no GPU of this host offers {declared.name!r}.',
                '"nova-vgpu type list" shows what there is.',
            )
