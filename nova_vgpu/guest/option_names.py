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

"""The names that one option has: in messages, in sections and in the role.

Messages name the options of the command. A value may be from another place,
and then it is better named as it is written there.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import re

from nova_vgpu.guest import merging

_OTHERWISE = {
    'licence_token_file': '--licence-token',
    'licence_servers': '--licence-server',
}
#: The options of the command by their names in ``[guest]``.
COMMAND_OPTIONS: Mapping[str, str] = {
    name: _OTHERWISE.get(name, f'--{name.replace("_", "-")}')
    for names in merging.TOGETHER
    for name in names
}
_OPTION = re.compile(r'--[a-z][a-z0-9-]*')


def rename(problem: str, names: Mapping[str, str]) -> str:
    """A message with other names for options of the command."""
    return _OPTION.sub(lambda it: names.get(it[0], it[0]), problem)


def name_sections(
    problems: Sequence[str],
    places: Sequence[merging.Place],
    sections: Sequence[str],
) -> tuple[str, ...]:
    """Messages that name options of sections as they are written there.

    What is missing belongs into the section, too, that has what belongs to it:
    as an option of the command, it would count alone.

    :param sections: the name of the section for each place; '' for others.
    """
    written = {
        COMMAND_OPTIONS[name]: f'[{sections[number]}]{name}'
        for name, number in merging.find_origins(places).items()
        if sections[number]
    }
    return tuple(rename(problem, written) for problem in problems)
