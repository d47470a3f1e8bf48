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

"""The declaration: what ``[devices]`` and the groups of the types say.

``[pci]device_spec``, the PCI devices that Nova assigns to servers, is part of
it. The option belongs to Nova, and had two other names before. It is read as
nova/pci/devspec.py reads it. Each name is a separate option here, so that a
message can use the name in the file. A line that Nova refuses is skipped: Nova
does not start with it and reports it. So is a line with ``devname``: only
network cards have one.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
import itertools
import json
import re
import typing

from oslo_config import cfg

from nova_vgpu import values
from nova_vgpu.conf import opts

_CURES = {
    'unlisted_gpus': 'Set it to first-type or ignore.',
    'vgpu_creation': 'Set it to on-demand or ahead.',
    'switch_mig_mode': 'Set it to true or false.',
    'resource_class': 'Set it to VGPU, or to a name like CUSTOM_VGPU_BIG.',
    'mdev_class': 'Set it to VGPU, or to a name like CUSTOM_VGPU_BIG.',
    'max_instances': 'Set it to a whole number of at least 1, or remove it.',
}
_COMMENT = re.compile(r'\s[#;]')
_COMMENT_CURE = ' Put comments on separate lines.'

#: The old names first: Nova's option has the values of all three.
_NAMES = (
    ('pci', 'passthrough_whitelist'),
    (None, 'pci_passthrough_whitelist'),
    ('pci', 'device_spec'),
)
_ANY = '*'
_HEX = re.compile(r'[0-9a-f]*', re.ASCII | re.IGNORECASE)
#: The highest number of each part of an address, and how it is written.
_PARTS = ((0xFFFF, '04x'), (0xFF, '02x'), (0x1F, '02x'), (0x7, 'x'))
_KEYS = ('domain', 'bus', 'slot', 'function')
_HIGHEST_ID = 0xFFFF
#: In [DEFAULT]compute_driver.
_OUR_DRIVER = 'vgpu.'


def read_declaration(
    conf: cfg.ConfigOpts, written: Iterable[values.Written] = ()
) -> tuple[values.Declaration, tuple[values.Problem, ...]]:
    """The declaration of the configuration, and every invalid value.

    An option with an invalid value counts as not set.

    :param written: the content of the files, so that messages can use the
        names in them. If Nova's options are registered, those are used.
    """
    opts.register_opts(conf)
    problems: list[values.Problem] = []
    known = frozenset((w.name, w.section.casefold()) for w in written)
    sections = tuple(
        section
        for section in conf.list_all_sections()
        if section.lower().startswith(
            (opts.GROUP_PREFIX, opts.NOVA_GROUP_PREFIX)
        )
    )
    names, types_option = _read_enabled_types(conf, known, problems)
    for name in names:
        opts.register_type(conf, name)
    unlisted = _read(conf, opts.GROUP, 'unlisted_gpus', problems)
    creation = values.Creation(
        _read(conf, opts.GROUP, 'vgpu_creation', problems)
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
        pci_devices=_read_device_specs(conf),
        vgpus_are_pci_devices=_are_vgpus_pci_devices(conf, creation),
        switches_mig_mode=bool(
            _read(conf, opts.GROUP, 'switch_mig_mode', problems)
        ),
    )
    return declaration, tuple(problems)


def _read_type(
    conf: cfg.ConfigOpts,
    name: str,
    sections: tuple[str, ...],
    known: Container[opts.Name],
    problems: list[values.Problem],
) -> values.DeclaredType:
    ours = f'{opts.GROUP_PREFIX}{name}'
    novas = f'{opts.NOVA_GROUP_PREFIX}{name}'
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
        exec_quantum_ms=read('exec_quantum_ms', 'exec_quantum_ms'),
        preempt_timeout_us=read('preempt_timeout_us', 'preempt_timeout_us'),
        partition=read('partition', 'partition'),
    )


def _is_set(conf: cfg.ConfigOpts, option: str) -> bool:
    """Whether an option of ``[devices]`` is set."""
    found = conf.get_location(option, opts.GROUP)
    return found is not None and found.location is not (
        cfg.Locations.opt_default
    )


def _find_written(known: Container[opts.Name], *names: opts.Name) -> str:
    """The first of an option's names that a file contains, or the first."""
    name, group = next(
        ((n, g) for n, g in names if (n, g.casefold()) in known), names[0]
    )
    return f'[{group}]{name}'


def _read_enabled_types(
    conf: cfg.ConfigOpts,
    known: Container[opts.Name],
    problems: list[values.Problem],
) -> tuple[tuple[str, ...], str]:
    """The enabled types, each once, and the option that they were found in.

    Section names are case-insensitive, so types are, too.
    """
    ours, novas = 'enabled_vgpu_types', 'enabled_mdev_types'
    shown = _find_written(known, (ours, opts.GROUP), (novas, opts.GROUP))
    found = _read(conf, opts.GROUP, ours, problems, shown)
    if not found and novas in conf[opts.GROUP]:
        shown = f'[{opts.GROUP}]{novas}'
        found = _read(conf, opts.GROUP, novas, problems)
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
    value, reason = opts.read_option(conf, group, option)
    if reason:
        name = shown or f'[{group}]{option}'
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
    return value


def _are_vgpus_pci_devices(
    conf: cfg.ConfigOpts, creation: values.Creation
) -> bool:
    """Whether Nova's own driver serves vGPUs that are created ahead."""
    if creation is not values.Creation.AHEAD:
        return False
    driver = opts.read_novas(conf, cfg.StrOpt('compute_driver')) or ''
    return not driver.strip().startswith(_OUR_DRIVER)


def _read_device_specs(
    conf: cfg.ConfigOpts,
) -> tuple[values.PciDeviceSpec, ...]:
    found: dict[str, str] = {}
    for group, name in _NAMES:
        option = f'[{group or "DEFAULT"}]{name}'
        for text in opts.read_novas(
            conf, cfg.MultiStrOpt(name, default=[]), group
        ):
            found.setdefault(text, option)
    return tuple(
        spec
        for text, option in found.items()
        for spec in _parse_line(option, text)
    )


def _parse_line(option: str, text: str) -> Iterator[values.PciDeviceSpec]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    for entry in found if isinstance(found, list) else [found]:
        if isinstance(entry, dict) and not entry.get('devname'):
            try:
                yield _parse_spec(option, text, entry)
            except (ValueError, re.error):
                continue


def _parse_spec(
    option: str, text: str, entry: dict[str, typing.Any]
) -> values.PciDeviceSpec:
    """One specification.

    :raises ValueError: if Nova would refuse it.
    :raises re.error: likewise.
    """
    vendor_id = _parse_id(entry.get('vendor_id', _ANY))
    product_id = _parse_id(entry.get('product_id', _ANY))
    address = entry.get('address') or '*:*:*.*'
    if isinstance(address, dict):
        parts = tuple(_parse_text(address.get(key, '.*')) for key in _KEYS)
        is_single = all(_HEX.fullmatch(part) for part in parts)
        for part in parts:
            re.compile(part)
    else:
        written = _split_address(_parse_text(address))
        parts = tuple(map(_parse_part, written, _PARTS))
        is_single = _ANY not in written
    domain, bus, slot, function = parts
    return values.PciDeviceSpec(
        option,
        text,
        vendor_id,
        product_id,
        (domain, bus, slot, function),
        is_single,
    )


def _split_address(address: str) -> tuple[str, ...]:
    """Domain, bus, slot and function; missing parts match any."""
    front, _, function = address.partition('.')
    fields = front.split(':')
    if len(fields) > len(_KEYS) - 1:
        raise ValueError(f'{address!r} has too many parts')
    missing = [''] * (len(_KEYS) - 1 - len(fields))
    parts = (*missing, *fields, function)
    return tuple(part.strip() or _ANY for part in parts)


def _parse_part(text: str, bounds: tuple[int, str]) -> str:
    if text == _ANY:
        return ''
    highest, form = bounds
    number = int(text, 16)
    if not 0 <= number <= highest:
        raise ValueError(f'{text!r} is too high')
    return f'{number:{form}}$'


def _parse_id(text: object) -> int | None:
    text = _parse_text(text).strip()
    if text == _ANY:
        return None
    number = int(text, 16)
    if not 0 <= number <= _HIGHEST_ID:
        raise ValueError(f'{text!r} is too high')
    return number


def _parse_text(found: object) -> str:
    if not isinstance(found, str):
        raise ValueError(f'{found!r} is not a string')
    return found
