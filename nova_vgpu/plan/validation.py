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

"""Problems of the declaration, of its files and of reading the host.

oslo.config ignores unknown options, and of two lines for one option it uses
the last one. Such mistakes are only warnings, because the files are Nova's and
contain options that we do not know.

Not oslo-config-validator: it needs every option of every group in advance, but
ours are in groups named after types, among Nova's options that we do not know.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import re

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors
from nova_vgpu.plan import type_matching
from nova_vgpu.plan import typos
from nova_vgpu.plan import vf_profile_options

_DEVICES = 'devices'
_DRIVER = 'vgpu.LibvirtVGPUDriver'
_TYPE_PREFIXES = ('vgpu_', 'mdev_')
#: The sample configuration's placeholder for a type's section.
_PLACEHOLDER = 'vgpu_<type>'
#: Distinctive names, which no other project uses.
_DISTINCTIVE = frozenset(
    {'enabled_vgpu_types', 'enabled_mdev_types', 'unlisted_gpus'}
    | {'device_addresses'}
)
#: A line that should have continued the one above it.
_REST_OF_ADDRESS = re.compile(r'[0-9a-f]{1,8}', re.IGNORECASE)
#: Two names of one option: the first one counts.
_ALIASES = (
    ('enabled_vgpu_types', 'enabled_mdev_types'),
    ('resource_class', 'mdev_class'),
)


def check_declaration(
    declaration: values.Declaration, host: values.Host
) -> Iterator[values.Problem]:
    """Problems of the configuration, and of reading the host."""
    for declared in declaration.types:
        yield from _check_traits(declared)
        yield from vf_profile_options.check_options(declared)
    yield from _check_separators(declaration)
    yield from _check_sections(declaration)
    yield from _check_section_names(declaration, host)
    for fault in host.faults:
        yield values.Problem(
            values.Severity.ERROR,
            'unreadable',
            fault.device,
            f'{fault.device} cannot be read in full: {fault.source}: '
            f'{fault.reason}.',
            'See the kernel log about the device; some files need root.',
        )


def _check_traits(declared: values.DeclaredType) -> Iterator[values.Problem]:
    option = declared.option('traits')
    for trait in declared.traits:
        if not traits.is_valid(trait):
            yield values.Problem(
                values.Severity.FATAL,
                'bad-trait',
                option,
                f'{option}: {trait!r} is neither a standard trait nor a '
                'well-formed custom one.',
                'Custom traits look like '
                f'{traits.custom(trait.upper().removeprefix("CUSTOM_"))}.',
            )
        elif trait.startswith(traits.OWN_PREFIXES):
            yield values.Problem(
                values.Severity.WARNING,
                'reserved-trait',
                option,
                f'{option}: {trait} is a trait of a GPU or its type, and is '
                'removed from providers that do not have it.',
                'Use another prefix for your own traits.',
            )


def _check_separators(
    declaration: values.Declaration,
) -> Iterator[values.Problem]:
    option = declaration.types_option
    for declared in declaration.types:
        cure = typos.find_list_cure(declared.name)
        if cure is not None:
            yield values.Problem(
                values.Severity.FATAL,
                'bad-separator',
                option,
                f'{option}: {declared.name!r} is not one type.',
                cure,
            )


def _check_sections(
    declaration: values.Declaration,
) -> Iterator[values.Problem]:
    enabled = {declared.name.casefold() for declared in declaration.types}
    seen: dict[str, str] = {}
    for section in declaration.sections:
        of_type = section.partition('_')[2].casefold()
        if of_type == '<type>':
            continue  # as it stands in the sample configuration
        if of_type not in enabled:
            yield _not_enabled(section, declaration)
        elif of_type in seen:
            yield values.Problem(
                values.Severity.WARNING,
                'two-sections',
                f'[{section}]',
                f'[{seen[of_type]}] and [{section}] are for the same type; '
                'if both set an option, the section named vgpu_ wins.',
                'Keep one of them.',
            )
        seen.setdefault(of_type, section)


def _not_enabled(
    section: str, declaration: values.Declaration
) -> values.Problem:
    prefix, _, of_type = section.partition('_')
    near = typos.find_nearest(of_type, [d.name for d in declaration.types])
    if vendors.get_by_type_id(of_type):
        near = None  # similar ids are not a typing error
    meant = f' Did you mean [{prefix}_{near}]?' if near else ''
    return values.Problem(
        values.Severity.WARNING,
        'section-not-enabled',
        f'[{section}]',
        f'[{section}] is not used: {declaration.types_option} does not have '
        f'{of_type!r}.',
        f'Add the type there, or remove the section.{meant}',
    )


def _check_section_names(
    declaration: values.Declaration, host: values.Host
) -> Iterator[values.Problem]:
    """Sections that name an enabled type by another of its names.

    They are not read, and their GPUs serve another type.
    """
    types = [t for gpu in host.gpus for t in gpu.types]
    enabled = {d.name.casefold() for d in declaration.types}
    meant = {
        vgpu_type.id: declared.name
        for declared in declaration.types
        for vgpu_type in type_matching.find_matches(declared.name, types)
    }
    for section in declaration.sections:
        prefix, _, of_type = section.partition('_')
        if of_type.casefold() in enabled:
            continue
        for vgpu_type in type_matching.find_matches(of_type, types):
            if vgpu_type.id in meant:
                right = f'[{prefix}_{meant[vgpu_type.id]}]'
                yield values.Problem(
                    values.Severity.ERROR,
                    'section-misnamed',
                    f'[{section}]',
                    f'[{section}] is not read: {of_type!r} is enabled as '
                    f'{meant[vgpu_type.id]!r} in {declaration.types_option}.',
                    f'Rename the section to {right}.',
                )
                break


def check_types(
    declaration: values.Declaration,
    host: values.Host,
    assignments: Sequence[values.Assignment],
    nowhere: frozenset[str],
) -> Iterator[values.Problem]:
    """Enabled types without a GPU.

    :param nowhere: the declared types that no GPU of the host offers.
    """
    in_use = {assigned.declared.name for assigned in assignments}
    any_ready = any(gpu.types for gpu in host.gpus)
    by_default = {
        assigned.declared.name
        for assigned in assignments
        if assigned.reason is values.Reason.FIRST_TYPE
    }
    for declared in declaration.types:
        if declared.name not in nowhere:
            if declared.name not in in_use and not declared.device_addresses:
                yield _unused(declared, declaration)
        elif _is_listed_profile(declared):
            continue  # Its addresses are reported one by one.
        elif declared.name not in in_use or (
            # Its listed GPUs are reported one by one.
            any_ready and declared.name in by_default
        ):
            yield _on_no_gpu(declared, declaration.types_option, host)


def _is_listed_profile(declared: values.DeclaredType) -> bool:
    """Whether it is a VF profile, which no GPU offers before it has it."""
    is_profile = capabilities.parse_vf_profile(declared.name) is not None
    return is_profile and bool(declared.device_addresses)


def _unused(
    declared: values.DeclaredType, declaration: values.Declaration
) -> values.Problem:
    option = declaration.types_option
    who = (
        'GPUs that are not listed are ignored.'
        if declaration.unlisted is values.UnlistedGPUs.IGNORE
        else 'only the first type uses GPUs that are not listed.'
    )
    return values.Problem(
        values.Severity.WARNING,
        'type-unused',
        option,
        f'{option}: no GPU serves {declared.name!r}.',
        f'List GPUs in {declared.option("device_addresses")}: {who}',
    )


def _on_no_gpu(
    declared: values.DeclaredType, option: str, host: values.Host
) -> values.Problem:
    name = declared.name
    types = [t for gpu in host.gpus for t in gpu.types]
    known = {capabilities.short_name(t) for t in types}
    near = typos.find_nearest(name, sorted(known)) or next(
        # "231" is how the bare number of an id is written elsewhere.
        (t.id for t in types if t.id.endswith(f'-{name}')),
        None,
    )
    meant = f'Did you mean {near}? ' if near else ''
    return values.Problem(
        values.Severity.ERROR,
        'type-on-no-gpu',
        option,
        f'{option}: no GPU of this host offers {name!r}.',
        f'{meant}{_say_what_there_is(declared, host)}',
    )


def _say_what_there_is(
    declared: values.DeclaredType, host: values.Host
) -> str:
    """How to find types; or that there are none."""
    if not host.gpus:
        return 'This host has no GPUs.'
    made_by = capabilities.vendor_of_type(declared.name)
    here = map(capabilities.vendor_of, host.gpus)
    if made_by is not None and made_by not in here:
        return f'This host has no {made_by.name} GPUs.'
    if made_by is not None and made_by.parse_vf_profile(declared.name):
        return (
            'It is a VF profile, which only GPUs serve that are listed in '
            f'{declared.option("device_addresses")}.'
        )
    if any(gpu.types for gpu in host.gpus):
        return '"nova-vgpu type list" shows the types.'
    return (
        'No GPU of this host has vGPU types now; "nova-vgpu gpu list" shows '
        'why.'
    )


def find_slips(
    written: Iterable[values.Written],
    device_options: Iterable[str],
    type_options: Iterable[str],
) -> Iterator[values.Problem]:
    """Warnings about lines without effect."""
    names = {
        _DEVICES: (*device_options, 'enabled_mdev_types'),
        'type': (*type_options, 'mdev_class'),
    }
    seen: dict[tuple[str, str], values.Written] = {}
    for entry in written:
        section = entry.section.casefold()
        if section == _PLACEHOLDER:
            continue
        if (section, entry.name) == ('default', 'compute_driver'):
            yield from _check_driver(entry)
            continue
        if section == _DEVICES:
            yield from _check_devices(entry, names[_DEVICES])
        elif section.startswith(_TYPE_PREFIXES):
            yield from _check_type(entry, names['type'])
        elif entry.name in _DISTINCTIVE:
            yield _misplaced(entry)
            continue
        else:
            continue
        if len(entry.values) > 1:
            yield _warning(
                entry,
                'set-twice',
                f'is set {len(entry.values)} times in {entry.file}; only the '
                'last one counts.',
                'Keep one line, or one section of that name.',
            )
        seen[section, entry.name] = entry
    for counts, alias in _ALIASES:
        for (section, name), entry in seen.items():
            if name == alias and (section, counts) in seen:
                yield _warning(
                    entry,
                    'set-twice',
                    f'is not used, because {counts} is set too.',
                    'Keep one of the two.',
                )


def _check_driver(entry: values.Written) -> Iterator[values.Problem]:
    """A mistake here prevents nova-compute from starting."""
    written = entry.values[-1].strip()
    if written != _DRIVER and 'vgpu' in written.casefold():
        yield _warning(
            entry,
            'unknown-driver',
            f'is {written!r}, which Nova does not find.',
            f'Did you mean {_DRIVER}?',
        )


def _check_devices(
    entry: values.Written, known: tuple[str, ...]
) -> Iterator[values.Problem]:
    # Nova may have more options there, so only names similar to ours.
    near = typos.find_nearest(entry.name, known)
    if entry.name not in known and near:
        yield _warning(
            entry,
            'unknown-option',
            'is not an option.',
            f'Did you mean {near}?',
        )


def _check_type(
    entry: values.Written, known: tuple[str, ...]
) -> Iterator[values.Problem]:
    if entry.name in known:
        return
    near = typos.find_nearest(entry.name, known)
    if near:
        cure = f'Did you mean {near}?'
    elif _REST_OF_ADDRESS.fullmatch(entry.name):
        cure = 'Indent the line if it continues the list above it.'
    else:
        cure = f'The options of a type: {", ".join(known)}.'
    yield _warning(entry, 'unknown-option', 'is not an option.', cure)


def _misplaced(entry: values.Written) -> values.Problem:
    belongs = (
        'a section [vgpu_<type>]'
        if entry.name == 'device_addresses'
        else '[devices]'
    )
    return _warning(
        entry,
        'misplaced-option',
        'is not read there.',
        f'Move it to {belongs}.',
    )


def _warning(
    entry: values.Written, code: str, finding: str, cure: str
) -> values.Problem:
    option = f'[{entry.section}]{entry.name}'
    return values.Problem(
        values.Severity.WARNING, code, option, f'{option} {finding}', cure
    )
