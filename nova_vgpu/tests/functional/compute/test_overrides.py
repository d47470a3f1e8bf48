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

"""Every method of the driver beside Nova's own, on each supported Nova.

A Nova that changes one of them must not be met unprepared.
"""

import ast
from collections.abc import Iterator
import inspect
import textwrap
import typing

from nova.compute import provider_tree
from nova.scheduler.client import report
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host
import testtools

from nova_vgpu.compute import driver
from nova_vgpu.compute import nova_types

OURS = driver.LibvirtVGPUDriver
NOVAS = libvirt_driver.LibvirtDriver

#: What the collaborators expect, and whose it is in Nova.
EXPECTED: tuple[tuple[type, type], ...] = (
    (nova_types.Driver, NOVAS),
    (nova_types.Guest, libvirt_guest.Guest),
    (nova_types.Host, libvirt_host.Host),
    (nova_types.ProviderTree, provider_tree.ProviderTree),
    (nova_types.ReportClient, report.SchedulerReportClient),
)

Parameters = list[inspect.Parameter]


def list_overrides() -> Iterator[tuple[str, typing.Any]]:
    for name, value in vars(OURS).items():
        if name == '__init__' or not name.startswith('__'):
            yield name, value


def list_parameters(owner: type, name: str) -> Parameters:
    method = inspect.unwrap(getattr(owner, name))
    found = list(inspect.signature(method).parameters.values())
    return [p for p in found if p.name != 'self']


def list_asked(protocol: type) -> Iterator[str]:
    """The methods that a protocol, or one that it extends, has."""
    for owner in protocol.__mro__:
        if owner.__module__.startswith('nova_vgpu.'):
            for name, value in vars(owner).items():
                if inspect.isfunction(value) and value.__module__ == (
                    owner.__module__
                ):
                    yield name


def accepts(ours: Parameters, novas: Parameters) -> bool:
    """Whether each call that fits Nova's method fits ours."""
    named = [p for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
    is_open = {p.kind for p in ours} >= {
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    }
    if len(novas) != len(named) and not (is_open and len(novas) > len(named)):
        return False
    return all(
        own.name == theirs.name
        and (own.default is own.empty) == (theirs.default is theirs.empty)
        for own, theirs in zip(named, novas, strict=False)
    )


def can_call(expected: Parameters, novas: Parameters) -> bool:
    """Whether Nova's method takes what collaborators pass, in that order."""
    names = [p.name for p in expected]
    required = {p.name for p in novas if p.default is p.empty}
    return names == [p.name for p in novas if p.name in names] and (
        required <= set(names)
    )


def calls_super(method: typing.Any, name: str) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
    return any(
        isinstance(node, ast.Attribute)
        and ast.unparse(node) == f'super().{name}'
        for node in ast.walk(tree)
    )


class OverridesTest(testtools.TestCase):
    def test_the_driver_holds_nothing_else(self) -> None:
        own = {name for name, _ in list_overrides()}
        self.assertIn('spawn', own)
        self.assertEqual(set(), {n for n in own if not hasattr(NOVAS, n)})
        self.assertEqual((NOVAS,), OURS.__bases__)

    def test_each_is_a_method_as_novas_is(self) -> None:
        for name, method in list_overrides():
            self.assertTrue(inspect.isfunction(method), name)
            novas = inspect.getattr_static(NOVAS, name)
            self.assertTrue(inspect.isfunction(novas), name)

    def test_each_takes_what_novas_takes(self) -> None:
        for name, _ in list_overrides():
            ours, novas = (
                list_parameters(owner, name) for owner in (OURS, NOVAS)
            )
            self.assertTrue(accepts(ours, novas), f'{name}: {novas}')

    def test_each_says_what_it_does_with_novas(self) -> None:
        for name, method in list_overrides():
            said = (method.__doc__ or '').partition(" Nova's")[0]
            self.assertIn(said, ('Extends', 'Replaces'), name)
            self.assertEqual(
                said == 'Extends', calls_super(method, name), name
            )

    def test_what_collaborators_ask_of_nova_is_there(self) -> None:
        for expected, owner in EXPECTED:
            for name in list_asked(expected):
                novas = list_parameters(owner, name)
                self.assertTrue(
                    can_call(list_parameters(expected, name), novas),
                    f'{owner.__name__}.{name}: {novas}',
                )


class ComparisonTest(testtools.TestCase):
    """The comparison itself notices what it is for."""

    def test_a_nova_that_changed_is_noticed(self) -> None:
        def novas(
            context: object, instance: object, flag: bool = False
        ) -> None: ...

        cases: tuple[tuple[bool, typing.Any], ...] = (
            (True, lambda context, instance, flag=False: None),
            (True, lambda context, instance, *args, **kwargs: None),
            (True, lambda *args, **kwargs: None),
            (False, lambda context, instance: None),
            (False, lambda context, instance, flag: None),
            (False, lambda context, instance, other=False: None),
            (False, lambda instance, context, *args, **kwargs: None),
            (False, lambda context, instance, flag=False, more=1: None),
        )
        for fits, ours in cases:
            parameters = [
                list(inspect.signature(method).parameters.values())
                for method in (ours, novas)
            ]
            self.assertEqual(fits, accepts(*parameters), str(parameters[0]))
