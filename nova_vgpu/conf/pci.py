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

"""``[pci]device_spec``: the PCI devices that Nova assigns to servers.

The option belongs to Nova, and had two other names before. It is read as
nova/pci/devspec.py reads it. Each name is a separate option here, so that a
message can use the name in the file. A line that Nova refuses is skipped: Nova
does not start with it and reports it. So is a line with ``devname``: only
network cards have one.
"""

from collections.abc import Iterator
import json
import re
import typing

from oslo_config import cfg

from nova_vgpu import values

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


def read_device_specs(
    conf: cfg.ConfigOpts,
) -> tuple[values.PciDeviceSpec, ...]:
    """Every device specification; the files must be parsed."""
    found: dict[str, str] = {}
    for group, name in _NAMES:
        option = f'[{group or "DEFAULT"}]{name}'
        for text in _read(conf, cfg.MultiStrOpt(name, default=[]), group):
            found.setdefault(text, option)
    return tuple(
        spec
        for text, option in found.items()
        for spec in _parse_line(option, text)
    )


def is_our_driver(conf: cfg.ConfigOpts) -> bool:
    """Whether nova-compute is configured to load this project's driver."""
    option = cfg.StrOpt('compute_driver')
    name: str = _read(conf, option, None) or ''
    return name.strip().startswith(_OUR_DRIVER)


def _read(
    conf: cfg.ConfigOpts, option: cfg.Opt, group: str | None
) -> typing.Any:
    if group is not None:
        conf.register_group(cfg.OptGroup(group))
    where = conf if group is None else conf[group]
    if option.dest not in where:
        conf.register_opt(option, group=group)
    try:
        return where[option.dest]
    except (ValueError, cfg.Error, RecursionError):
        return option.default  # an invalid $reference: Nova reports it


def _parse_line(option: str, text: str) -> Iterator[values.PciDeviceSpec]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    for entry in found if isinstance(found, list) else [found]:
        if isinstance(entry, dict) and not entry.get('devname'):
            try:
                yield _parse(option, text, entry)
            except (ValueError, re.error):
                continue


def _parse(
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
        parts = tuple(_text(address.get(key, '.*')) for key in _KEYS)
        is_single = all(_HEX.fullmatch(part) for part in parts)
        for part in parts:
            re.compile(part)
    else:
        written = _split(_text(address))
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


def _split(address: str) -> tuple[str, ...]:
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
    text = _text(text).strip()
    if text == _ANY:
        return None
    number = int(text, 16)
    if not 0 <= number <= _HIGHEST_ID:
        raise ValueError(f'{text!r} is too high')
    return number


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise ValueError(f'{found!r} is not a string')
    return found
