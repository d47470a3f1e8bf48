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

"""Texts of plain data, in the YAML that Kubernetes, Helm and Heat read.

Names come from users of the cloud: nothing in them may become structure. The
data is dumped as a whole, and strings that readers of another version of YAML
take for numbers or booleans are quoted.
"""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import re
import typing

import yaml

from nova_vgpu.cloud import names

# "1e3" and "0o17" are numbers in YAML 1.2, "y" was a boolean in 1.1.
_AMBIGUOUS = re.compile(r'[-+.0-9].*|[yYnN]', re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A file, and what it has to say to its reader."""

    name: str
    text: str


class _Dumper(yaml.SafeDumper):  # type: ignore[misc] # without type hints
    """Repeats what is there twice: anchors are not for people."""

    def ignore_aliases(self, data: typing.Any) -> bool:
        return True


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "'" if _AMBIGUOUS.fullmatch(text) else None
    node: yaml.ScalarNode = dumper.represent_scalar(
        'tag:yaml.org,2002:str', text, style=style
    )
    return node


_Dumper.add_representer(str, _represent)


def dump(
    comments: Iterable[str], objects: Sequence[dict[str, typing.Any]]
) -> str:
    """Comments, and a document for each object in the order of its keys."""
    lines = [f'# {names.printable(line)}\n' for line in comments]
    texts = [
        '---\n' + yaml.dump(each, Dumper=_Dumper, sort_keys=False)
        for each in objects
    ]
    return ''.join([*lines, *texts])
