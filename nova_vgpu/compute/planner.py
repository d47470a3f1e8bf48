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


"""What is declared, and what it means on this host: the plan.

It is made again only if the host has changed since: Nova asks often, and from
many threads. Everything is decided by :mod:`nova_vgpu.plan`; what is kept here
is what that has to be told: the declaration, the host, and what is remembered.
Each plan is written to the tables where Nova's own methods look for it.
"""

import collections
from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import threading

from oslo_config import cfg

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import host_files
from nova_vgpu.compute import log
from nova_vgpu.compute import modes
from nova_vgpu.compute import nova_types
from nova_vgpu.conf import devices
from nova_vgpu.conf import live_migration
from nova_vgpu.host import files
from nova_vgpu.host import incremental_reader
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.host import state
from nova_vgpu.host import state_files
from nova_vgpu.host import sysfs
from nova_vgpu.host import vgpu_config_xml
from nova_vgpu.plan import address_matching
from nova_vgpu.plan import assignment
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_matching

STORE_FAILED = 'Could not store which GPUs this host has'
#: In front of the type of a vGPU that is a virtual function, where Nova
#: compares types before a live migration: one of the same type that is an
#: mdev cannot take its place.
FUNCTION_PREFIX = 'vfio:'


@dataclasses.dataclass(frozen=True, slots=True)
class _Planned:
    """A plan, and the host and the modes that it was made for.

    ``names`` are those of the types, by their ids.
    """

    host: values.Host
    modes: values.ModesRead
    plan: values.Plan
    names: Mapping[str, str]


class Planner:
    """Plans what the GPUs of this host serve."""

    #: sysfs of the host; None to go by libvirt instead.
    sysfs: files.Files | None = host_files.HostFiles(sysfs.DEFAULT_ROOT)
    #: Where the commands keep what one run has to tell the next.
    state_path: str = state.DEFAULT_PATH
    #: Where nova-compute's user may write; empty: below Nova's ``state_path``.
    own_state_path: str = ''

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        connect: Callable[[], libvirt_nodes.Connection],
        failures: log.FailureLog,
        tables: nova_types.Tables,
        read_modes: modes.ReadModes,
    ) -> None:
        """Nothing is read yet: libvirt may not be connected."""
        self._conf = conf
        self.connect = connect
        self._failures = failures
        self._tables = tables
        #: What NVML told of the GPUs.
        self.modes = modes.KnownModes(read_modes, failures)
        self._problem_log = log.ProblemLog()
        self.declaration = values.Declaration()
        # What ids of types meant, and which GPUs were here, when the service
        # started, or since then.
        self._configuration = values.Configuration()
        # Those of the last plan: which functions may hold vGPUs of a GPU.
        self._assignments: tuple[values.Assignment, ...] = ()
        #: Names of types by their ids, also of those that no GPU offers now.
        self.type_names: Mapping[str, str] = {}
        self._reader: incremental_reader.IncrementalReader | None = None
        self._completion = vgpu_config_xml.Completion(
            vgpu_config_xml.DEFAULT_PATH
        )
        # Tables that go with another plan than the one that is kept would
        # stay.
        self._lock = threading.Lock()
        self._planned: _Planned | None = None
        self._stored: frozenset[str] | None = None
        self._validated = False

    def add_seen(self, addresses: frozenset[str]) -> bool:
        """Let declared addresses be those of GPUs that were here.

        :returns: whether one of them was not known to be.
        """
        known = self._configuration.seen
        self._configuration = dataclasses.replace(
            self._configuration, seen=known | addresses
        )
        return not addresses <= known

    def read_declaration(self) -> values.Declaration:
        """Read what is declared, and what is stored of types and GPUs.

        Once: after a correction of nova.conf the files are written again, and
        this service goes on with what it read when it started.
        """
        declaration, problems = devices.read_declaration(self._conf)
        # This service does not switch it, whatever NVML tells.
        declaration = dataclasses.replace(declaration, switches_mig_mode=False)
        loaded = values.Configuration(declaration, problems)
        if loaded.declaration.types:
            self.own_state_path = self.own_state_path or (
                f'{self._conf.state_path}/{state_files.NOVA_DIRECTORY}'
            )
            loaded = state_files.recall(
                loaded, self.state_path, [self.own_state_path]
            )
        self._configuration = loaded
        self.declaration = loaded.declaration
        return loaded.declaration

    def read_migration_settings(self) -> values.MigrationSettings:
        """Nova's options about live migrations."""
        return live_migration.read_settings(self._conf)

    def accept(self) -> None:
        """From now on nothing that is wrong stops the service."""
        self._validated = True

    def _remember_gpus(self, host: values.Host) -> None:
        """Store which declared GPUs are here, for when one of them fails."""
        if not self.declaration.types:
            return
        seen = address_matching.list_seen(
            self._configuration.seen, self.declaration.types, host
        )
        self._configuration = dataclasses.replace(
            self._configuration, seen=seen
        )
        if seen == self._stored:
            return
        directory = state.StateDirectory(self.own_state_path)
        try:
            state_files.write_gpus(directory, seen)
        except exception.StateUnusable as error:
            self._failures.say(STORE_FAILED, error)
        else:
            self._failures.forget(STORE_FAILED)
            self._stored = seen

    def make_plan(self) -> values.Plan:
        """The plan for the host as it is now.

        :raises InvalidLibvirtGPUConfig: the first time, if the operator has to
            correct something. Later the same can only come from hardware that
            went away, or from another driver of the vendor's, neither of which
            takes the node down.
        """
        with self._lock:
            host = self._read_host()
            planned = self._planned
            if (
                planned is not None
                and planned.host is host
                and planned.modes is self.modes.latest
            ):
                if self._stored != self._configuration.seen:
                    self._remember_gpus(host)  # it failed before
                return planned.plan
            return self._plan_again(host)

    def refresh_modes(self) -> None:
        """Ask NVML, which can take a while, if a plan needs to know more.

        Not in :meth:`make_plan`: a report to Placement does not wait for it.

        :raises HostUnreadable: if the host cannot be read.
        """
        if not self.declaration.types:
            return
        with self._lock:
            # A plan reads it again soon enough.
            planned = self._planned
            host = planned.host if planned else self._read_host()
            before = dict(self._configuration.type_names)
        names = before | type_matching.list_type_names(host)
        if type_matching.may_need_modes(self.declaration.types, names):
            self.modes.refresh(host)

    def _plan_again(self, host: values.Host) -> values.Plan:
        known = self.modes.latest
        plan = mapper.make_plan(self._configuration.plan_input(host, known))
        if not self._validated:
            mapper.require_valid(plan)
            self._validated = True
        self._problem_log.say(plan.problems)
        self._remember_gpus(host)
        # A GPU that is full may name no type any more.
        self.type_names = {
            **self.type_names,
            **type_matching.list_type_names(host),
        }
        before = self._configuration.type_names
        type_names = type_matching.list_names_to_store(
            before, host, self.declaration
        )
        self._assignments = plan.assignments
        _fill_tables(self._tables, plan, self.declaration)
        # What is remembered from now on may lead to another plan.
        self._planned = (
            _Planned(host, known, plan, self.type_names)
            if type_names == before
            else None
        )
        self._configuration = dataclasses.replace(
            self._configuration, type_names=type_names
        )
        return plan

    def _read_host(self) -> values.Host:
        """The host as it is now; the same object if nothing has changed."""
        if self.sysfs is None:
            return libvirt_nodes.read_host(self.connect())
        if self._reader is None or self._reader.tree is not self.sysfs:
            self._reader = incremental_reader.IncrementalReader(
                self.sysfs, self._is_declared
            )
        host = self._reader.read()
        if self.sysfs.root == sysfs.DEFAULT_ROOT:
            host = self._completion.complete(host)
        return host

    def _is_declared(self, vgpu_type: values.VGPUType) -> bool:
        return any(
            type_matching.find_matches(declared.name, [vgpu_type])
            for declared in self.declaration.types
        )

    def plan_gpu(self, device: str | None) -> tuple[values.Assignment, ...]:
        """What a GPU serves as it is now, at no cost for the others.

        :param device: what a provider stands for: a GPU, its share for a
            type, or a virtual function, as long as Nova's driver made the
            providers. None: all GPUs.
        :returns: nothing if nothing is declared for it.
        """
        if device is None:
            return self.make_plan().assignments
        name = self.gpu_of(device)
        of_gpu = self._plan_whole_gpu(name)
        # A provider that does not tell the type is about to be replaced.
        own = tuple(a for a in of_gpu if a.device == device)
        return own or of_gpu

    def _plan_whole_gpu(self, name: str) -> tuple[values.Assignment, ...]:
        planned = self._planned
        fresh = self._reader.read_gpu(name) if self._reader else None
        before = planned.plan.assignments_of(name) if planned else ()
        if (
            planned is None
            or fresh is None
            or not before
            or before[0].gpu.types != fresh.types
            or before[0].gpu.functions != fresh.functions
            # One that has none may not have what is declared: see the mapper.
            or any(assigned.type is None for assigned in before)
        ):
            return self.make_plan().assignments_of(name)
        placed = (
            dataclasses.replace(assigned, gpu=fresh, type=None, capacity=None)
            for assigned in before
        )
        return tuple(assignment.resolve(a, planned.names)[0] for a in placed)

    def find_parent(self, mdev: str) -> str | None:
        """The function that an mdev is on, as sysfs has it at this moment."""
        return self._reader.find_parent(mdev) if self._reader else None

    def list_mdevs(self) -> frozenset[str] | None:
        """The mdevs that are there now; None if sysfs is not read."""
        return self._reader.list_mdevs() if self._reader else None

    def gpu_of(self, function: str) -> str:
        """The GPU of a function or a share; any other is its own."""
        for assigned in self._assignments:
            if function in assigned.functions or function == assigned.device:
                return assigned.gpu.name
        return values.split_device(function)[0]


def _fill_tables(
    tables: nova_types.Tables, plan: values.Plan, declared: values.Declaration
) -> None:
    """Let Nova's own methods find the plan."""
    types: dict[str, str] = {}
    classes: dict[str, str] = collections.defaultdict(lambda: 'VGPU')
    supported: set[str] = set()
    for assigned in plan.assignments:
        gpu = assigned.gpu
        # As Nova writes addresses.
        for name, address in (
            (gpu.name, str(gpu)),
            *((vf.name, str(vf.address)) for vf in gpu.vfs),
        ):
            if assigned.share is None or name in assigned.functions:
                classes[address] = assigned.declared.resource_class
            if assigned.type and name in assigned.functions:
                types[address] = assigned.type.id
        if assigned.type:
            supported.add(label_type(gpu, assigned.type.id))
    tables.pgpu_type_mapping = types
    tables.mdev_class_mapping = classes
    tables.virtual_mdevs = {
        a.gpu.name for a in plan.assignments if a.gpu.address is None
    }
    tables.supported_vgpu_types = sorted(supported) or [
        declared_type.name for declared_type in declared.types
    ]


def label_type(gpu: values.PhysicalGPU, type_id: str) -> str:
    """What a type is called where Nova compares types."""
    if gpu.framework in values.GIVING_FUNCTIONS:
        return FUNCTION_PREFIX + type_id
    return type_id
