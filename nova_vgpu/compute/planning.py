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


"""The plan of this project where Nova's driver has its own tables.

::

    planning -> holding -> allocation -> recovery -> suspension
             -> operations -> migration -> driver

Each of these modules adds to the class of the one before it: first what is to
be, then the vGPUs of the host, then what servers go through, and at last what
Placement is told. Each override says which of Nova's methods it replaces or
extends, and why. Everything that is decided is decided by
:mod:`nova_vgpu.plan`, :mod:`nova_vgpu.reconcile` and :mod:`nova_vgpu.publish`;
here it is put into the shapes that Nova wants.
"""

import collections
from collections.abc import Mapping
import dataclasses
import threading
import typing

import nova.conf
from nova.virt.libvirt import driver as libvirt_driver

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import log
from nova_vgpu.conf import devices
from nova_vgpu.host import files
from nova_vgpu.host import gpu_store
from nova_vgpu.host import incremental_reader
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.host import state
from nova_vgpu.host import sysfs
from nova_vgpu.host import type_id_store
from nova_vgpu.host import vgpu_config_xml
from nova_vgpu.plan import address_matching
from nova_vgpu.plan import assignment
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_changes
from nova_vgpu.plan import type_matching

CONF = nova.conf.CONF

#: In front of the type of a vGPU that is a virtual function, where Nova
#: compares types before a live migration: one of the same type that is an
#: mdev cannot take its place.
FUNCTION_PREFIX = 'vfio:'


@dataclasses.dataclass(frozen=True, slots=True)
class _Planned:
    """A plan, and the host that it was made for.

    ``names`` are those of the types, by their ids.
    """

    host: values.Host
    plan: values.Plan
    names: Mapping[str, str]


# Nova has no type hints that mypy could follow.
class Planning(libvirt_driver.LibvirtDriver):  # type: ignore[misc]
    """What is declared, and what it means on this host."""

    #: sysfs of the host; None to go by libvirt instead.
    sysfs: files.Files | None = files.Files(sysfs.DEFAULT_ROOT)
    #: Where the commands keep what one run has to tell the next.
    state_path: str = state.DEFAULT_PATH
    #: Where nova-compute's user may write; None: below Nova's ``state_path``.
    own_state_path: str | None = None
    #: Nova's; None until the providers are first updated.
    provider_tree: typing.Any

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        self._problem_log = log.ProblemLog()
        self._failures = log.FailureLog()
        self._declaration = values.Declaration()
        self._declaration_problems: tuple[values.Problem, ...] = ()
        # The functions of each GPU that may hold its vGPUs, by its name.
        self._functions: dict[str, frozenset[str]] = {}
        self._type_names: Mapping[str, str] = {}
        self._monitor: incremental_reader.IncrementalReader | None = None
        self._completion = vgpu_config_xml.Completion(
            vgpu_config_xml.DEFAULT_PATH
        )
        # Nova asks from many threads. Tables that go with another plan than
        # the one that is kept would stay.
        self._planning_lock = threading.Lock()
        self._planned: _Planned | None = None
        # What ids of types meant when the service started, or since then.
        self._remembered: type_changes.Names = ()
        # Declared addresses that are, or were, those of GPUs of this host.
        self._seen: frozenset[str] = frozenset()
        self._noted: frozenset[str] | None = None
        self._validated = False
        super().__init__(*args, **kwargs)

    def _get_supported_vgpu_types(self) -> list[str]:
        """Replaces Nova's, which knows types by id only and reads no names.

        Called by ``LibvirtDriver.__init__``, when libvirt is not connected
        yet; the ids follow with the first plan.
        """
        self._declaration, self._declaration_problems = (
            devices.read_declaration(CONF)
        )
        self._recall_types()
        self._recall_gpus()
        self.mdev_classes = {
            declared.resource_class for declared in self._declaration.types
        }
        return [declared.name for declared in self._declaration.types]

    def _recall_types(self) -> None:
        """Read once what ids of types meant so far.

        Not again: after a correction of nova.conf the file is renewed, and
        this service goes on with what it read of nova.conf when it started.
        It is not written, for that is not for Nova's user to do.
        """
        if self._declaration.types:
            types = type_id_store.recall(state.StateDirectory(self.state_path))
            self._remembered = types.names
            self._declaration_problems += tuple(
                type_changes.list_lost(types.lost)
            )

    def _recall_gpus(self) -> None:
        """Read which GPUs were here when this host was last looked at."""
        if not self._declaration.types:
            return
        for path in (self.state_path, self._get_own_state_path()):
            try:
                self._seen |= gpu_store.read(state.StateDirectory(path))
            except exception.StateUnusable as error:
                self._failures.say(
                    'Could not tell which GPUs were here', error
                )

    def _get_own_state_path(self) -> str:
        return (
            self.own_state_path or f'{CONF.state_path}/{gpu_store.DIRECTORY}'
        )

    def _remember_gpus(self, host: values.Host) -> None:
        """Note which declared GPUs are here, for when one of them fails."""
        directory = state.StateDirectory(self._get_own_state_path())
        seen = address_matching.list_seen(
            self._seen, self._declaration.types, host
        )
        try:
            if seen != self._noted:
                gpu_store.write(directory, seen)
        except exception.StateUnusable as error:
            self._failures.say('Could not note which GPUs are here', error)
        else:
            self._failures.forget('Could not note which GPUs are here')
        self._seen = self._noted = seen

    def _make_plan(self) -> values.Plan:
        """The plan for the host as it is now.

        :raises InvalidLibvirtGPUConfig: the first time, if the operator has to
            correct something. Later the same can only come from hardware that
            went away, or from another driver of the vendor's, neither of which
            takes the node down.
        """
        with self._planning_lock:
            host = self._read_host()
            planned = self._planned
            if planned is not None and planned.host is host:
                return planned.plan
            return self._plan_anew(host)

    def _plan_anew(self, host: values.Host) -> values.Plan:
        plan = mapper.make_plan(
            self._declaration,
            host,
            self._declaration_problems,
            self._remembered,
            self._seen,
        )
        if not self._validated:
            mapper.require_valid(plan)
            self._validated = True
        self._problem_log.say(plan.problems)
        self._remember_gpus(host)
        # A GPU that is full may name no type any more.
        self._type_names = {
            **self._type_names,
            **type_matching.list_type_names(host),
        }
        remembered = type_changes.list_names(
            self._remembered, host, self._declaration
        )
        self._fill_tables(plan)
        # What is remembered from now on may lead to another plan.
        self._planned = (
            _Planned(host, plan, self._type_names)
            if remembered == self._remembered
            else None
        )
        self._remembered = remembered
        return plan

    def _read_host(self) -> values.Host:
        """The host as it is now; the same object if nothing has changed."""
        if self.sysfs is None:
            return libvirt_nodes.read_host(self._host.get_connection())
        if self._monitor is None or self._monitor.tree is not self.sysfs:
            self._monitor = incremental_reader.IncrementalReader(
                self.sysfs, self._is_declared
            )
        host = self._monitor.read()
        if self.sysfs.root == sysfs.DEFAULT_ROOT:
            host = self._completion.complete(host)
        return host

    def _is_declared(self, vgpu_type: values.VGPUType) -> bool:
        return any(
            type_matching.find_matches(declared.name, [vgpu_type])
            for declared in self._declaration.types
        )

    def _plan_gpu(self, name: str) -> values.Assignment | None:
        """What a GPU serves as it is now, at no cost for the others.

        :returns: None if nothing is declared for it.
        """
        planned = self._planned
        fresh = self._monitor.read_gpu(name) if self._monitor else None
        before = _find(planned.plan, name) if planned else None
        if (
            planned is not None
            and fresh is not None
            and before is not None
            # One that has none may not have what is declared: see the mapper.
            and before.type is not None
            and before.gpu.types == fresh.types
            and before.gpu.functions == fresh.functions
        ):
            placed = dataclasses.replace(
                before, gpu=fresh, type=None, capacity=None
            )
            return assignment.settle(placed, planned.names)[0]
        return _find(self._make_plan(), name)

    def _fill_tables(self, plan: values.Plan) -> None:
        """Let Nova's own methods find the plan where they look."""
        types: dict[str, str] = {}
        classes: dict[str, str] = collections.defaultdict(lambda: 'VGPU')
        functions: dict[str, frozenset[str]] = {}
        supported: set[str] = set()
        for assigned in plan.assignments:
            gpu = assigned.gpu
            functions[gpu.name] = assigned.functions
            for name, address in _addresses(gpu):
                classes[address] = assigned.declared.resource_class
                if assigned.type and name in assigned.functions:
                    types[address] = assigned.type.id
            if assigned.type:
                supported.add(_label(gpu, assigned.type))
        self.pgpu_type_mapping = types
        self.mdev_class_mapping = classes
        self._functions = functions
        self.virtual_mdevs = {
            a.gpu.name for a in plan.assignments if a.gpu.address is None
        }
        self.supported_vgpu_types = sorted(supported) or [
            declared.name for declared in self._declaration.types
        ]

    def _gpu_of(self, function: str) -> str:
        """The GPU of a function; one that no GPU has is its own."""
        for gpu, functions in self._functions.items():
            if function in functions:
                return gpu
        return function


def _find(plan: values.Plan, gpu: str) -> values.Assignment | None:
    for assigned in plan.assignments:
        if assigned.gpu.name == gpu:
            return assigned
    return None


def _addresses(gpu: values.PhysicalGPU) -> list[tuple[str, str]]:
    """Name and address, as Nova writes it, of a GPU and its functions."""
    return [
        (gpu.name, str(gpu)),
        *((vf.name, str(vf.address)) for vf in gpu.vfs),
    ]


def _label(gpu: values.PhysicalGPU, vgpu_type: values.VGPUType) -> str:
    """What a type is called where Nova compares types."""
    if gpu.framework is values.Framework.VENDOR_VFIO:
        return FUNCTION_PREFIX + vgpu_type.id
    return vgpu_type.id
