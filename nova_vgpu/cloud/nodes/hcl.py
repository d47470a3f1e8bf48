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

"""Terraform's language: blocks with attributes, and blocks within.

Strings are templates there: what begins a part to be evaluated is escaped, so
that names of the cloud stay names.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re
import typing

_ESCAPES = {'\n': r'\n', '\r': r'\r', '\t': r'\t', '"': r'\"', '\\': r'\\'}
# What begins a part to be evaluated, unless its first character is written by
# its code.
_TEMPLATE = re.compile(r'[$%](?=\{)')


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """Text that Terraform evaluates: never made of what users give."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """A block: its words, what is assigned in it, and blocks within."""

    words: tuple[str, ...]
    body: Mapping[str, typing.Any]
    blocks: tuple['Block', ...] = ()


def dump(blocks: tuple[Block, ...]) -> str:
    """The text of blocks, in the layout of "terraform fmt"."""
    return '\n'.join(
        ''.join(f'{line}\n' for line in _write(block)) for block in blocks
    )


def quote(text: str) -> str:
    """A string that means itself."""
    escaped = ''.join(map(_escape, text))
    return f'"{_TEMPLATE.sub(lambda found: _encode(found[0]), escaped)}"'


def _encode(char: str) -> str:
    code = ord(char)
    return f'\\u{code:04x}' if code < 0x10000 else f'\\U{code:08x}'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() else _encode(char)


def _write(block: Block) -> Iterator[str]:
    kind, *labels = block.words
    yield ' '.join([kind, *map(quote, labels), '{'])
    width = max(map(len, block.body), default=0)
    for name, value in block.body.items():
        yield f'  {name:{width}} = {_write_value(value)}'
    for number, inner in enumerate(block.blocks):
        if number or block.body:
            yield ''
        yield from (f'  {line}'.rstrip() for line in _write(inner))
    yield '}'


def _write_value(value: typing.Any) -> str:
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Mapping):
        inner = ', '.join(
            f'{quote(key)} = {_write_value(of)}' for key, of in value.items()
        )
        return f'{{ {inner} }}'
    return str(value)
