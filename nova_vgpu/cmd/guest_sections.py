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

"""What of the sections about guests has no effect, as its name is wrong."""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.conf import guest
from nova_vgpu.plan import typos


def find_slips(
    written: Iterable[values.Written], flavor: str | None, project: str | None
) -> Iterator[str]:
    """Warnings about a flavor and a project without options, and typos.

    :param written: the content of the files.
    """
    entries = tuple(written)
    sections = {entry.section for entry in entries}
    for option, prefix, name in (
        ('--flavor', guest.FLAVOR_PREFIX, flavor),
        ('--project', guest.PROJECT_PREFIX, project),
    ):
        if name is not None:
            yield from _find_missing(option, prefix, name, sections)
    known = [option.dest for option in guest.guest_options()]
    read = {group.casefold() for group in guest.list_groups(flavor, project)}
    for entry in entries:
        if entry.section.casefold() in read and entry.name not in known:
            yield (
                f'[{entry.section}]{entry.name} in {entry.file} is not an '
                f'option.{_suggest(entry.name, known)}'
            )


def _find_missing(
    option: str, prefix: str, name: str, sections: Iterable[str]
) -> Iterator[str]:
    # oslo.config does not tell capital letters of sections from small ones.
    others = sorted(
        section[len(prefix) :]
        for section in sections
        if section.casefold().startswith(prefix)
    )
    if name.casefold() not in map(str.casefold, others):
        yield (
            f'{option} {name} changes nothing: the configuration has no '
            f'options in [{prefix}{name}].{_suggest(name, others)}'
        )


def _suggest(name: str, candidates: Iterable[str]) -> str:
    near = typos.find_nearest(name, candidates)
    return f' Did you mean {near}?' if near else ''
