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

"""Filters of the role gpu_guest, which ask nova-vgpu for the decisions.

nova-vgpu has to be installed beside Ansible, on the controller.
"""

from collections.abc import Callable
from collections.abc import Mapping
import sys
import typing

try:
    from nova_vgpu.cmd import option_files
    from nova_vgpu.guest import facts
    from nova_vgpu.guest import role
except ImportError as error:
    MISSING: ImportError | None = error
else:
    MISSING = None

_Filter = Callable[..., typing.Any]


def require_nova_vgpu() -> None:
    if MISSING is not None:
        raise RuntimeError(
            f'nova-vgpu is not installed for {sys.executable}, with which '
            f'Ansible runs ({MISSING}). Install it there, with pip.'
        )


def find_fact_program(_: typing.Any = None) -> str:
    """The path, on the controller, of the program that is the local fact."""
    require_nova_vgpu()
    return facts.__file__


def make_plan(
    options: Mapping[str, typing.Any],
    found: typing.Any,
    family: str,
    has_gpu: typing.Any = None,
    is_virtual_gpu: typing.Any = None,
) -> dict[str, typing.Any]:
    """What the role does, as the tasks use it."""
    require_nova_vgpu()
    said = role.Variables(
        options,
        found,
        family,
        role.parse_boolean(has_gpu),
        role.parse_boolean(is_virtual_gpu),
    )
    plan = role.make_plan(said, option_files.read)
    return {
        'has_gpu': plan.has_gpu,
        'is_wanted': plan.is_wanted,
        'problems': list(plan.problems),
        'directories': list(plan.directories),
        'files': [
            {
                'path': file.path,
                'mode': f'{file.mode:04o}',
                'content': file.content.decode('ascii'),
                'is_secret': file.is_secret,
            }
            for file in plan.files
        ],
    }


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self) -> dict[str, _Filter]:
        return {
            'gpu_guest_fact_program': find_fact_program,
            'gpu_guest_plan': make_plan,
        }
