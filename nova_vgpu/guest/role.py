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

"""What the Ansible role gpu_guest does in a guest.

It decides nothing itself: the role's variables and the guest's facts become a
request, like the options and ``--facts`` of ``guest cloud-init``, and the
files are those of the user data.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import os
import re
import typing

from nova_vgpu.guest import cloud_config
from nova_vgpu.guest import facts
from nova_vgpu.guest import facts_file
from nova_vgpu.guest import merging
from nova_vgpu.guest import option_names
from nova_vgpu.guest import setup

PREFIX = 'gpu_guest_'
#: Options that other variables stand for, which facts already contain.
_OVERRIDDEN = ('gpu_cluster',)
#: The options that the role has as variables.
OPTIONS = tuple(
    name
    for names in merging.TOGETHER
    for name in names
    if name not in _OVERRIDDEN
)
FAMILY = 'Debian'

_CURE = 'Become root (become: true), or set is_virtual_gpu.'
_VARIABLES = {
    option: 'is_gpu_cluster' if name in _OVERRIDDEN else f'{PREFIX}{name}'
    for name, option in option_names.COMMAND_OPTIONS.items()
}
_DRIVERS: Mapping[bool | None, str] = {
    True: facts.VGPU_GUEST,
    False: facts.DATACENTER,
}
# The role always has the facts of the guest itself.
_OR_FACTS = re.compile(r', or --facts [^.]*')


@dataclasses.dataclass(frozen=True, slots=True)
class Variables:
    """What is said to the role; None is what nothing is said about.

    ``found`` is the local fact, ``family`` the family of systems that the
    guest is of. Facts contain what is_virtual_gpu and is_gpu_cluster override;
    the former is here for guests in which no GPU is found.
    """

    options: Mapping[str, typing.Any]
    found: typing.Any
    family: str
    has_gpu: bool | None = None
    is_virtual_gpu: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RolePlan:
    """What the role does: nothing at all unless ``is_wanted``."""

    has_gpu: bool | None
    is_wanted: bool = False
    problems: tuple[str, ...] = ()
    files: tuple[setup.File, ...] = ()

    @property
    def directories(self) -> tuple[str, ...]:
        """Those that the files are in."""
        return tuple(sorted({os.path.dirname(it.path) for it in self.files}))


def make_plan(said: Variables, read: merging.Read) -> RolePlan:
    found = said.found if facts_file.are_facts(said.found) else {}
    has_gpu = found.get('has_gpu') if said.has_gpu is None else said.has_gpu
    if has_gpu is False:
        return RolePlan(False)
    if has_gpu is not True or not found:
        return RolePlan(None, problems=(_explain_unknown(found),))
    if found.get('gpus') and not facts_file.needs_nvidia(found):
        return RolePlan(True)
    values, problems = _find_values(said, found)
    request, wrong = merging.make_request(
        [dict(_clean(said.options)), values], read
    )
    problems += tuple(map(name_variables, wrong))
    if said.family != FAMILY:
        problems += (
            f'The guest is a {said.family}, not a Debian or Ubuntu, and '
            'cannot be set up. Set has_gpu to false for it.',
        )
    if problems:
        return RolePlan(True, True, problems)
    files = cloud_config.list_files(setup.decide(request))
    return RolePlan(True, True, (), files)


def _find_values(
    said: Variables, found: dict[str, typing.Any]
) -> tuple[dict[str, typing.Any], tuple[str, ...]]:
    """What the facts say, and why they do not say enough."""
    values, problem = facts_file.find_values(found, _CURE)
    if not found.get('gpus'):
        # has_gpu says that there is one all the same.
        driver = _DRIVERS.get(said.is_virtual_gpu)
        return values | ({'driver': driver} if driver else {}), ()
    if problem:
        # So that the driver is not missing as well.
        return values | {'driver': setup.NO_DRIVER}, (
            f'The facts of the guest: {problem}',
        )
    return values, ()


def _explain_unknown(found: dict[str, typing.Any]) -> str:
    if not found:
        return (
            'The guest does not have facts: /etc/ansible/facts.d/gpu.fact '
            'failed, which needs Python 3.6.'
        )
    reasons = ' '.join(map(str, found.get('problems') or ()))
    return (
        f'Whether the guest has a GPU is unknown. {reasons} Become root '
        '(become: true), or set has_gpu.'
    )


def _clean(
    options: Mapping[str, typing.Any],
) -> Iterator[tuple[str, typing.Any]]:
    """Options as they are checked: an inventory has other types in places."""
    for name in OPTIONS:
        value = options.get(name)
        if value is None or value == '':
            continue
        if name == 'cdi':
            yield name, parse_boolean(value)
        elif name == 'licence_servers':
            several = value.split(',') if isinstance(value, str) else value
            yield name, [str(each).strip() for each in several]
        else:
            yield name, str(value)


def parse_boolean(value: typing.Any) -> bool | None:
    """What a variable says, which is text on a command line."""
    return facts.parse_boolean(str(value))


def name_variables(problem: str) -> str:
    """A message of the command, with the names of the variables."""
    return option_names.rename(_OR_FACTS.sub('', problem), _VARIABLES)
