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

"""libvirt's node devices, damaged one element and attribute after the other.

Nothing may be raised, the GPUs that have no part in it are read as before, and
the device whose XML makes no sense is among the faults.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import copy
import re
from xml.etree import ElementTree

import libvirt
import testtools

from nova_vgpu import exception
from nova_vgpu.host import files
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.sandbox import node_devices
from nova_vgpu.tests.unit.host import test_fuzz as sysfs_fuzz

GARBAGE = (
    ('nothing', ''),
    ('no number', 'garbage'),
    ('a negative number', '-1'),
    ('5000 digits', '9' * 5000),
    ('digits of Unicode', '٣'),
    ('an underscore', '1_0'),
    ('two numbers', '1, 2'),
    ('half a number', '0x'),
    ('another number', '3'),
)
BOMB = (
    '<!DOCTYPE device [<!ENTITY a0 "ha">'
    + ''.join(
        f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">'
        for level in range(1, 12)
    )
    + ']><device><capability type="&a11;"/></device>'
)
WHOLE = (
    ('empty', ''),
    ('no XML', 'garbage'),
    ('another document', '<domain><name>x</name></domain>'),
    ('a bomb of entities', BOMB),
    (
        'a file of the host',
        '<!DOCTYPE device [<!ENTITY x SYSTEM "file:///dev/null">]>'
        '<device><capability>&x;</capability></device>',
    ),
    ('NUL bytes', '<device>\0</device>'),
    ('half a character', '<device>\ud800</device>'),
    ('nested deeply', '<device>' * 10**5),
)

# What a sound device may lack, and what may be any text.
OPTIONAL = frozenset(
    {'driver', 'driver/name', 'type/name', 'capability:mdev_types'}
    | {'capability:virt_functions@maxCount', 'capability:mdev_types@type'}
    | {'capability:mdev_types/type'}
)
FREE_TEXT = frozenset(
    {'driver/name', 'type/name', 'type@id', 'capability:mdev_types@type'}
)
FREE_NUMBERS = frozenset(
    {'capability:pci/class', 'vendor@id', 'product@id'}
    | {'type/availableInstances', 'capability:virt_functions@maxCount'}
)

Devices = dict[str, str | Exception]
#: From a device's XML to what is wrong with another, that one, and whether
#: it still makes sense, so that nobody can tell.
Damages = Callable[[str], Iterable[tuple[str, str, bool]]]


class Device:
    """A node device whose XML is what it is told to be."""

    def __init__(self, name: str, xml: str | Exception) -> None:
        self._name = name
        self._xml = xml

    def name(self) -> str:
        return self._name

    def XMLDesc(self, flags: int = 0) -> str:
        if isinstance(self._xml, Exception):
            raise self._xml
        return self._xml


class Connection:
    """As much of a connection to libvirt as the reader needs."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    def listAllDevices(self, flags: int = 0) -> list[Device]:
        return [Device(name, xml) for name, xml in self._devices.items()]


class BrokenConnectionError(libvirt.libvirtError):
    """What libvirt raises when its daemon is gone."""

    def get_error_domain(self) -> int:
        return int(libvirt.VIR_FROM_RPC)


class TestDamagedNodeDevices(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.xml = node_devices.list_device_xml(sysfs_fuzz.small_host())
        self.sound = libvirt_nodes.read_host(Connection({**self.xml}))
        self.assertEqual((), self.sound.faults)
        self.assertEqual(5, len(self.sound.gpus))
        self.assertEqual(12, len(self.xml))

    def test_whatever_is_missing(self) -> None:
        self.assert_robust(_without_each)

    def test_whatever_says_something_else(self) -> None:
        self.assert_robust(_with_each_garbled)

    def test_wherever_it_ends(self) -> None:
        def truncated(xml: str) -> Iterator[tuple[str, str, bool]]:
            for mark in re.finditer('[<>/"]', xml):
                yield f'ends at {mark.start()}', xml[: mark.start()], False

        self.assert_robust(truncated)

    def test_whatever_else_comes_instead(self) -> None:
        self.assert_robust(
            lambda xml: ((what, other, False) for what, other in WHOLE)
        )

    def test_a_device_that_vanishes_when_it_was_listed(self) -> None:
        gone = libvirt.libvirtError('Node device not found')
        wrong = [
            f'{name}: {finding}'
            for name in self.xml
            for finding in self.check(name, gone, False)
        ]
        self.assertEqual([], wrong)

    def test_a_connection_that_breaks_is_no_fault_of_the_device(self) -> None:
        for name in self.xml:
            devices: Devices = {
                **self.xml,
                name: BrokenConnectionError('gone'),
            }
            error = self.assertRaises(
                exception.HostUnreadable,
                libvirt_nodes.read_host,
                Connection(devices),
            )
            self.assertIn('libvirt', str(error))

    def test_a_sysfs_that_shows_nothing_adds_nothing(self) -> None:
        host = libvirt_nodes.read_host(
            Connection({**self.xml}), files.Files('/no/such/directory')
        )
        self.assertEqual(self.sound, host)

    def assert_robust(self, damages: Damages) -> None:
        wrong = [
            f'{name}: {description}: {finding}'
            for name, xml in self.xml.items()
            for description, damaged, makes_sense in damages(xml)
            for finding in self.check(name, damaged, makes_sense)
        ]
        self.assertEqual([], wrong)

    def check(
        self, name: str, damaged: str | Exception, makes_sense: bool
    ) -> Iterator[str]:
        """What is wrong with a reading while one device is out of order."""
        devices: Devices = {**self.xml, name: damaged}
        host = libvirt_nodes.read_host(Connection(devices))
        owner = self.owner_of(name)
        before = [gpu for gpu in self.sound.gpus if gpu.name != owner]
        after = [gpu for gpu in host.gpus if gpu.name != owner]
        if before != after:
            yield 'another GPU is not read as before'
        others = host.other_functions - self.sound.other_functions
        if others and not makes_sense:
            yield 'a part of a GPU is taken for another card'
        family = {name, *self.functions_of(owner)}
        told = any(fault.device in family for fault in host.faults)
        if host.gpus != self.sound.gpus and not makes_sense and not told:
            yield f'not among the faults: {list(map(str, host.faults))}'

    def owner_of(self, name: str) -> str | None:
        """The GPU that a device is, or is a part of."""
        parent = _parse(self.xml[name]).findtext('parent')
        for gpu in self.sound.gpus:
            if {name, parent} & self.functions_of(gpu.name):
                return gpu.name
        return None

    def functions_of(self, name: str | None) -> set[str | None]:
        return {
            function
            for gpu in self.sound.gpus
            if gpu.name == name
            for function in (gpu.name, *(vf.name for vf in gpu.vfs))
        }


def _without_each(xml: str) -> Iterator[tuple[str, str, bool]]:
    root = _parse(xml)
    for number, element in enumerate(root.iter()):
        label = _label(element)
        for attribute in element.attrib:
            damaged, same = _copy(root, number)
            del same.attrib[attribute]
            what = f'{label}@{attribute}'
            yield f'no {what}', _text(damaged), what in OPTIONAL
        for index, child in enumerate(element):
            damaged, same = _copy(root, number)
            same.remove(same[index])
            what = f'{label}/{_label(child)}'
            optional = bool({what, _label(child)} & OPTIONAL)
            yield f'no {what}', _text(damaged), optional


def _with_each_garbled(xml: str) -> Iterator[tuple[str, str, bool]]:
    root = _parse(xml)
    parents = {child: parent for parent in root.iter() for child in parent}
    for number, element in enumerate(root.iter()):
        label = _label(element)
        for description, garbage in GARBAGE:
            for attribute in element.attrib:
                damaged, same = _copy(root, number)
                same.set(attribute, garbage)
                what = f'{label}@{attribute}'
                sense = _makes_sense(what, garbage)
                yield f'{what} is {description}', _text(damaged), sense
            if element.text:
                damaged, same = _copy(root, number)
                same.text = garbage
                what = f'{_label(parents[element])}/{label}'
                sense = _makes_sense(what, garbage)
                yield f'{what} is {description}', _text(damaged), sense


def _makes_sense(what: str, value: str) -> bool:
    """Whether a value is as good as any in its place."""
    if what == 'type@id' and not value:
        return False
    return what in FREE_TEXT or (value == '3' and what in FREE_NUMBERS)


def _parse(xml: str) -> ElementTree.Element:
    return ElementTree.fromstring(xml)  # noqa: S314 (our own)


def _label(element: ElementTree.Element) -> str:
    kind = element.get('type')
    return f'{element.tag}:{kind}' if kind else element.tag


def _copy(
    root: ElementTree.Element, number: int
) -> tuple[ElementTree.Element, ElementTree.Element]:
    """A copy of a document, and the element of that number in it."""
    damaged = copy.deepcopy(root)
    return damaged, list(damaged.iter())[number]


def _text(root: ElementTree.Element) -> str:
    return ElementTree.tostring(root, encoding='unicode')
