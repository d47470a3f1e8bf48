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

"""The IOMMU groups of a simulated host, as sysfs shows them."""

from collections.abc import Iterable

from nova_vgpu.sandbox import memory_tree

#: Where they are.
PATH = ('kernel', 'iommu_groups')

#: A function: its group if it has one, and its directory.
Member = tuple[int | None, memory_tree.Path]


def make_groups(
    functions: Iterable[Member],
) -> dict[str, memory_tree.Node]:
    """The groups, with links to the functions that are in them."""
    members: dict[str, dict[str, memory_tree.Node]] = {}
    for group, place in functions:
        if group is not None:
            of_group = members.setdefault(str(group), {})
            of_group[place[-1]] = memory_tree.Link(place)
    return {
        number: _make_directory({'devices': _make_directory(of_group)})
        for number, of_group in members.items()
    }


def make_link(group: int) -> memory_tree.Link:
    """The link from a function to its group."""
    return memory_tree.Link((*PATH, str(group)))


def _make_directory(
    entries: dict[str, memory_tree.Node],
) -> memory_tree.Directory:
    return memory_tree.Directory(lambda: entries)
