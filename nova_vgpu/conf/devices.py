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

"""``[devices]`` and the ``[vgpu_<type>]`` groups.

The groups of the types are dynamic: they depend on the list of enabled types,
so they are registered after the files were parsed.

Nova's current names (``enabled_mdev_types``, ``[mdev_<type>]``,
``mdev_class``) are aliases. In a file they are read as deprecated names of our
options. On a configuration object that Nova uses as well, some are registered
options of Nova, which may have values that are in no file. Those are read, and
our options have no alias for them: otherwise the same log would call our name
deprecated and Nova's name, too.
"""

from collections.abc import Container
from collections.abc import Iterable
import itertools
import re
import typing

from oslo_config import cfg
from oslo_config import types

from nova_vgpu import values
from nova_vgpu.conf import pci

GROUP = 'devices'
GROUP_PREFIX = 'vgpu_'
NOVA_GROUP_PREFIX = 'mdev_'

_CURES = {
    'unlisted_gpus': 'Set it to first-type or ignore.',
    'vgpu_creation': 'Set it to on-demand or ahead.',
    'resource_class': 'Set it to VGPU, or to a name like CUSTOM_VGPU_BIG.',
    'mdev_class': 'Set it to VGPU, or to a name like CUSTOM_VGPU_BIG.',
    'max_instances': 'Set it to a whole number of at least 1, or remove it.',
}
_COMMENT = re.compile(r'\s[#;]')
_COMMENT_CURE = ' Put comments on separate lines.'
_RESOURCE_CLASS = r'^(VGPU|CUSTOM_[A-Z0-9_]+)$'

#: The name and the group of an option.
Name = tuple[str, str]


def devices_group() -> cfg.OptGroup:
    """A new object for ``[devices]``.

    A group that is registered with two configuration objects would copy the
    options and their overrides from one to the other.
    """
    return cfg.OptGroup(GROUP, title='Physical and virtual devices')


def device_options(novas: Container[Name] = ()) -> list[cfg.Opt]:
    """The options of ``[devices]``; ``novas`` do not become aliases."""
    return [
        cfg.ListOpt(
            'enabled_vgpu_types',
            default=[],
            deprecated_opts=_aliases(novas, ('enabled_mdev_types', GROUP)),
            help="""
The vGPU types of this host. Each physical GPU serves one of them.

A type is given by its id (``nvidia-558``), by the vendor's name for it
(``NVIDIA A40-2Q``) or by the short form of that (``A40-2Q``). Ids change with
the driver's release, names do not. ``nova-vgpu type list`` prints both.

The section ``[vgpu_<type>]`` lists the GPUs that serve a type; ``<type>`` is
written there as it is here. A GPU that is not listed in any section serves the
first type (see ``unlisted_gpus``).

``enabled_mdev_types``, Nova's name for this option, is read too.

Related options:

* ``[devices]unlisted_gpus``
* ``[vgpu_<type>]device_addresses``
""",
        ),
        cfg.StrOpt(
            'unlisted_gpus',
            default=values.UnlistedGPUs.FIRST_TYPE.value,
            choices=[
                (
                    values.UnlistedGPUs.FIRST_TYPE.value,
                    'The GPU serves the first type of ``enabled_vgpu_types``.',
                ),
                (
                    values.UnlistedGPUs.IGNORE.value,
                    'It is not used.',
                ),
            ],
            help="""
What to do with a GPU that is not in any ``[vgpu_<type>]device_addresses``.

Related options:

* ``[devices]enabled_vgpu_types``
* ``[vgpu_<type>]device_addresses``
""",
        ),
        cfg.StrOpt(
            'vgpu_creation',
            default=values.Creation.ON_DEMAND.value,
            choices=[
                (
                    values.Creation.ON_DEMAND.value,
                    'When a server needs one.',
                ),
                (
                    values.Creation.AHEAD.value,
                    'By ``nova-vgpu apply``, as many as each GPU serves.',
                ),
            ],
            help="""
When vGPUs are created.

``ahead`` is for hosts where the consumer of vGPUs cannot create them, such as
Nova's PCI passthrough. vGPUs are then not removed when a server is deleted.

Related options:

* ``[devices]enabled_vgpu_types``
""",
        ),
    ]


def type_options(type_name: str, novas: Container[Name] = ()) -> list[cfg.Opt]:
    """The options of ``[vgpu_<type>]``; ``novas`` do not become aliases."""
    nova_group = f'{NOVA_GROUP_PREFIX}{type_name}'
    return [
        cfg.ListOpt(
            'device_addresses',
            default=[],
            deprecated_opts=_aliases(novas, ('device_addresses', nova_group)),
            help="""
PCI addresses of the physical GPUs that serve this type.

``0000:84:00.0``, ``84:00.0`` and ``00000000:84:00.0`` are the same, in upper
or lower case. The address of a virtual function selects that function of its
GPU: if only some functions of a GPU are listed, only those are used. A GPU may
be listed under one type only.
""",
        ),
        cfg.StrOpt(
            'resource_class',
            regex=_RESOURCE_CLASS,
            max_length=255,
            deprecated_opts=_aliases(
                novas,
                ('mdev_class', f'{GROUP_PREFIX}{type_name}'),
                ('resource_class', nova_group),
                ('mdev_class', nova_group),
            ),
            help="""
Resource class of the inventory: ``VGPU`` (the default) or a ``CUSTOM_`` one.

``mdev_class``, Nova's name for this option, is read too.
""",
        ),
        cfg.IntOpt(
            'max_instances',
            min=1,
            deprecated_opts=_aliases(novas, ('max_instances', nova_group)),
            help="""
Maximum number of vGPUs of this type on one physical GPU.

It can only lower the limit of the hardware. Existing vGPUs are not removed,
and the inventory is never less than their number. If unset, the type's maximum
and the number of virtual functions are the only limits.
""",
        ),
        cfg.ListOpt(
            'traits',
            default=[],
            item_type=types.String(),
            deprecated_opts=_aliases(novas, ('traits', nova_group)),
            help="""
Additional traits for every provider of this type, beside those of the GPU and
the type: ``CUSTOM_`` traits or standard ones.
""",
        ),
    ]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register ``[devices]``; to be called before the files are parsed."""
    conf.register_group(devices_group())
    _register(conf, GROUP, device_options(_list_registered(conf, GROUP)))


def _register_type(conf: cfg.ConfigOpts, name: str) -> None:
    """Register the group of one enabled type; the files must be parsed."""
    group = f'{GROUP_PREFIX}{name}'
    novas = _list_registered(conf, f'{NOVA_GROUP_PREFIX}{name}')
    conf.register_group(cfg.OptGroup(group))
    _register(conf, group, type_options(name, novas))


def _register(
    conf: cfg.ConfigOpts, group: str, options: Iterable[cfg.Opt]
) -> None:
    for option in options:
        if option.dest not in conf[group]:
            conf.register_opt(option, group=group)


def _list_registered(conf: cfg.ConfigOpts, group: str) -> frozenset[Name]:
    """The options that are registered in a group."""
    if group not in conf:
        return frozenset()
    return frozenset((option, group) for option in conf[group])


def read_declaration(
    conf: cfg.ConfigOpts, written: Iterable[values.Written] = ()
) -> tuple[values.Declaration, tuple[values.Problem, ...]]:
    """The declaration of the configuration, and every invalid value.

    An option with an invalid value counts as not set.

    :param written: the content of the files, so that messages can use the
        names in them. If Nova's options are registered, those are used.
    """
    register_opts(conf)
    problems: list[values.Problem] = []
    known = frozenset((w.name, w.section.casefold()) for w in written)
    sections = tuple(
        section
        for section in conf.list_all_sections()
        if section.lower().startswith((GROUP_PREFIX, NOVA_GROUP_PREFIX))
    )
    names, types_option = _read_enabled_types(conf, known, problems)
    for name in names:
        _register_type(conf, name)
    unlisted = _read(conf, 'devices', 'unlisted_gpus', problems)
    creation = values.Creation(
        _read(conf, 'devices', 'vgpu_creation', problems)
        or values.Creation.ON_DEMAND.value
    )
    declaration = values.Declaration(
        types=tuple(
            _read_type(conf, name, sections, known, problems) for name in names
        ),
        unlisted=values.UnlistedGPUs(
            unlisted or values.UnlistedGPUs.FIRST_TYPE.value
        ),
        creation=creation,
        sections=sections,
        types_option=types_option,
        # None: it was set to something else.
        unlisted_is_set=unlisted is None or _is_set(conf, 'unlisted_gpus'),
        pci_devices=_read_pci_devices(conf, names, creation),
    )
    return declaration, tuple(problems)


def _read_pci_devices(
    conf: cfg.ConfigOpts, names: Iterable[str], creation: values.Creation
) -> tuple[values.PciDeviceSpec, ...]:
    """Nova's PCI devices, if they can conflict with vGPUs.

    vGPUs that are created ahead are PCI devices of Nova's driver.
    """
    is_for_them = creation is values.Creation.AHEAD and not pci.is_our_driver(
        conf
    )
    return () if is_for_them or not names else pci.read_device_specs(conf)


def _read_type(
    conf: cfg.ConfigOpts,
    name: str,
    sections: tuple[str, ...],
    known: Container[Name],
    problems: list[values.Problem],
) -> values.DeclaredType:
    ours = f'{GROUP_PREFIX}{name}'
    novas = f'{NOVA_GROUP_PREFIX}{name}'
    written = {section.lower() for section in sections}
    only_novas = novas.lower() in written and ours.lower() not in written
    shown = novas if only_novas else ours

    def read(option: str, novas_option: str) -> typing.Any:
        shown_option = _find_written(
            known,
            (option, shown),
            *itertools.product((option, novas_option), (ours, novas)),
        )
        value = _read(conf, ours, option, problems, shown_option)
        if value or novas not in conf or novas_option not in conf[novas]:
            return value
        return _read(conf, novas, novas_option, problems)

    return values.DeclaredType(
        name=name,
        group=shown,
        device_addresses=_without_empty(
            read('device_addresses', 'device_addresses')
        ),
        resource_class=read('resource_class', 'mdev_class') or 'VGPU',
        max_instances=read('max_instances', 'max_instances'),
        traits=_without_empty(read('traits', 'traits')),
    )


def _is_set(conf: cfg.ConfigOpts, option: str) -> bool:
    """Whether an option of ``[devices]`` is set."""
    found = conf.get_location(option, GROUP)
    return found is not None and found.location is not (
        cfg.Locations.opt_default
    )


def _find_written(known: Container[Name], *names: Name) -> str:
    """The first of an option's names that a file contains, or the first."""
    name, group = next(
        ((n, g) for n, g in names if (n, g.casefold()) in known), names[0]
    )
    return f'[{group}]{name}'


def _read_enabled_types(
    conf: cfg.ConfigOpts,
    known: Container[Name],
    problems: list[values.Problem],
) -> tuple[tuple[str, ...], str]:
    """The enabled types, each once, and the option that they were found in.

    Section names are case-insensitive, so types are, too.
    """
    ours, novas = 'enabled_vgpu_types', 'enabled_mdev_types'
    shown = _find_written(known, (ours, GROUP), (novas, GROUP))
    found = _read(conf, GROUP, ours, problems, shown)
    if not found and novas in conf[GROUP]:
        shown = f'[{GROUP}]{novas}'
        found = _read(conf, GROUP, novas, problems)
    by_case: dict[str, str] = {}
    for name in _without_empty(found):
        by_case.setdefault(name.casefold(), name)
    return tuple(by_case.values()), shown


def _without_empty(found: Iterable[str] | None) -> tuple[str, ...]:
    """The entries of a list without empty ones (a comma too many)."""
    return tuple(entry for entry in found or () if entry)


def _read(
    conf: cfg.ConfigOpts,
    group: str,
    option: str,
    problems: list[values.Problem],
    shown: str | None = None,
) -> typing.Any:
    """An option's value, or None and a problem if it is invalid."""
    try:
        return conf[group][option]
    except (ValueError, cfg.Error, RecursionError) as error:
        # A value of the wrong kind, or with a $reference that leads nowhere
        # or in a circle.
        name = shown or f'[{group}]{option}'
        # "Value for option … from LocationInfo(…) is not valid: the reason"
        reason = str(error).rpartition('is not valid: ')[2].rstrip('.')
        if isinstance(error, RecursionError):
            reason = 'it refers to itself'
        behind = _COMMENT_CURE if _COMMENT.search(reason) else ''
        problems.append(
            values.Problem(
                values.Severity.FATAL,
                'bad-value',
                name,
                f'{name} is invalid: {reason}.',
                _CURES.get(option, 'Correct the value.') + behind,
            )
        )
        return None


def _aliases(novas: Container[Name], *names: Name) -> list[cfg.DeprecatedOpt]:
    return [
        cfg.DeprecatedOpt(name, group=group)
        for name, group in names
        if (name, group) not in novas
    ]
