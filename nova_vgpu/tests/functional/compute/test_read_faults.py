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

"""A node's update while something about its GPUs cannot be read.

Every read that the update of the GPUs makes fails in turn. CPU, memory and
disk have to be reported all the same.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import copy
import typing
import uuid

from keystoneauth1 import exceptions as ks_exception
from nova import objects
from nova.scheduler.client import report
from nova.tests.fixtures import libvirt as fakelibvirt
from oslo_db import exception as db_exception  # type: ignore[import-untyped]

from nova_vgpu.compute import driver
from nova_vgpu.compute import reconciler
from nova_vgpu.compute import service
from nova_vgpu.host import files
from nova_vgpu.sandbox import memory_tree
from nova_vgpu.tests.functional.compute import simulated_guests
from nova_vgpu.tests.functional.compute import simulated_libvirt
from nova_vgpu.tests.functional.compute import simulated_mdevs
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

L40S = f'host1_{test_vendor_vfio.L40S}'
T4 = f'host1_{test_servers.T4}'
LOST_T4 = f'host1_{test_servers.OTHER_T4}'


def _cannot_read() -> Exception:
    error = files.Unreadable('/some/file', 'input/output error')
    error.__cause__ = OSError(5, 'Input/output error')
    return error


def _libvirt_fails() -> Exception:
    return simulated_mdevs.error(
        'internal error: client socket is closed',
        fakelibvirt.VIR_ERR_INTERNAL_ERROR,
    )


def _find_bug() -> Exception:
    return KeyError('a bug')


#: All that is read in an update: of whom, how, and how it fails.
READS: tuple[tuple[type, tuple[str, ...], Callable[[], Exception]], ...] = (
    (
        memory_tree.MemoryFiles,
        ('read', 'list', 'list_marked', 'mark', 'link'),
        _cannot_read,
    ),
    (files.Files, ('read',), _cannot_read),  # the project's own state
    (
        simulated_libvirt.SimulatedConnection,
        (
            'listAllDevices',
            'listAllDomains',
            'lookupByUUIDString',
            'nodeDeviceLookupByName',
        ),
        _libvirt_fails,
    ),
    (simulated_guests.Guest, ('XMLDesc', 'UUIDString'), _libvirt_fails),
    (simulated_mdevs.Mdev, ('name', 'parent'), _libvirt_fails),
    (
        report.SchedulerReportClient,
        ('get_allocations_for_resource_provider',),
        ks_exception.ConnectFailure,
    ),
    (
        objects.MigrationList,
        ('get_by_filters',),
        db_exception.DBConnectionError,
    ),
)

Point = tuple[object, ...]


class Reads:
    """Watches what is read, and lets one of it fail."""

    def __init__(self) -> None:
        #: Not within a read, which may be made of others in a simulation.
        self.watches = False
        self.seen: list[Point] = []
        self.failing: Point | None = None
        #: What it fails with, if not as such a read does.
        self.fails_with: Callable[[], Exception] | None = None

    def patch(self, test: typing.Any) -> None:
        for owner, names, fails in READS:
            for name in names:
                method = vars(owner).get(name) or getattr(owner, name)
                test.patch(owner, name, self._wrap(owner, method, fails))
        for owner, name in (
            (driver.LibvirtVGPUDriver, '_update_provider_tree_for_vgpu'),
            (service.Service, 'reconcile'),
        ):
            test.patch(owner, name, self._watch(getattr(owner, name)))

    def _watch(self, method: Callable[..., None]) -> Callable[..., None]:
        def watch(*args: typing.Any, **kwargs: typing.Any) -> None:
            with self._watching(True):
                method(*args, **kwargs)

        return watch

    @contextlib.contextmanager
    def _watching(self, watches: bool) -> Iterator[None]:
        before, self.watches = self.watches, watches
        try:
            yield
        finally:
            self.watches = before

    def _wrap(
        self, owner: type, method: typing.Any, fails: Callable[[], Exception]
    ) -> typing.Any:
        bound = isinstance(method, classmethod)
        function = method.__func__ if bound else method

        def read(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            what = tuple(a for a in args if isinstance(a, str))
            point = (owner.__name__, function.__name__, *what)
            if self.watches:
                self.seen.append(point)
                if point == self.failing:
                    raise (self.fails_with or fails)()
            with self._watching(False):
                return function(*args, **kwargs)

        return classmethod(read) if bound else read


def _is_telling(point: Point) -> bool:
    """The type that is declared, and one that is not, stand for all types."""
    types = {str(p) for p in point if str(p).startswith('nvidia-')}
    return types <= {'nvidia-231', 'nvidia-222'}


class ReadFaultsTest(test_vendor_vfio.VendorVFIOTestBase):
    # What a thread would do is done after each update, and watched.
    in_background = False

    def setUp(self) -> None:
        super().setUp()
        self.declare('L40S-24Q', 'T4-2Q')
        self.list_addresses('T4-2Q', '84:00.0', '85:00.0')
        lost = test_servers.t4('85:00.0')
        self.start_host(
            'host1', test_vendor_vfio.l40s(vfs=2), test_servers.t4(), lost
        )
        trait = 'trait:CUSTOM_VGPU_TYPE_L40S_24Q'
        self.server = self.boot(
            flavor_id=self._create_flavor(
                extra_spec={'resources:VGPU': '1', trait: 'required'}
            )
        )
        self.hold(self.provider(test_servers.OTHER_T4))
        self.simulated['host1'].gpus.remove(lost)
        # Not declared any more: its usage is asked for at each update.
        self.list_addresses('T4-2Q', '84:00.0')
        self.restart_host('host1')
        self.connection().nodeDeviceDefineXML(
            f'<device><parent>{test_servers.T4}</parent>'
            "<capability type='mdev'><type id='nvidia-231'/>"
            f'<uuid>{uuid.uuid4()}</uuid></capability></device>'
        )
        self._run_periodics(raise_on_error=True)
        self.compute = self.computes['host1']
        self.published = self.compute.driver.provider_tree
        self.keep_answers()
        self.reads = Reads()
        self.reads.patch(self)

    def keep_answers(self) -> None:
        """Placement's, which do not change here and take their time."""
        client = report.SchedulerReportClient
        ask = client.get_allocations_for_resource_provider
        answers: dict[str, typing.Any] = {}

        def answer(asking: typing.Any, context: object, rp: str) -> typing.Any:
            if rp not in answers:
                answers[rp] = ask(asking, context, rp)
            return answers[rp]

        self.patch(client, 'get_allocations_for_resource_provider', answer)

    def hold(self, provider: str | None) -> None:
        """Let somebody have a vGPU of a provider."""
        body = {
            'allocations': {str(provider): {'resources': {'VGPU': 1}}},
            'project_id': str(uuid.uuid4()),
            'user_id': str(uuid.uuid4()),
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
        }
        self.placement.put(
            f'/allocations/{uuid.uuid4()}', body, version='1.38'
        )

    def update(self) -> typing.Any:
        """One update of the node, and what it has the driver's thread do.

        :returns: what Placement would hold then.
        """
        its_driver = self.compute.driver
        # So that it is looked up whether that server still comes.
        its_driver.instance_claimed_mdevs[str(uuid.uuid4())] = ['pci_nothing']
        tree = copy.deepcopy(self.published)
        tree.update_inventory('host1', {})
        self.reads.seen.clear()
        its_driver.update_provider_tree(tree, 'host1')
        its_driver.vgpus.service.reconcile()
        its_driver.instance_claimed_mdevs.clear()
        return tree

    def gpus_in(self, tree: typing.Any) -> dict[str, object]:
        return {
            name: (tree.data(name).inventory, tree.data(name).traits)
            for name in (L40S, T4, LOST_T4)
            if tree.exists(name)
        }

    def forget(self) -> None:
        """Let the next update read the host as if it were the first."""
        its_planner = self.compute.driver.vgpus.planner
        its_planner._reader = its_planner._planned = None

    def require_survival(
        self,
        point: Point,
        expected: dict[str, object],
        fails_with: Callable[[], Exception] | None = None,
    ) -> None:
        """One read fails: as it is known to, or with something else."""
        self.reads.failing, self.reads.fails_with = point, fails_with
        tree = self.update()
        self.reads.failing = None
        self.assertEqual(
            {'VCPU', 'MEMORY_MB', 'DISK_GB'},
            set(tree.data('host1').inventory),
            point,
        )
        gpus = self.gpus_in(tree)
        if fails_with is None and point[0] == 'MemoryFiles':
            # A GPU that cannot be read is not served; others are.
            concerned = L40S if '0000:41:00' in str(point) else T4
            gpus[concerned] = expected[concerned]
        self.assertEqual(expected, gpus, point)

    def test_whatever_cannot_be_read_the_node_is_reported(self) -> None:
        expected = self.gpus_in(self.update())
        self.assertEqual({L40S, T4, LOST_T4}, set(expected))
        kinds: set[Point] = set()
        for prepare in (self.forget, lambda: None):
            prepare()
            self.update()
            points = dict.fromkeys(filter(_is_telling, self.reads.seen))
            for point in points:
                prepare()
                self.require_survival(point, expected)
                if point[:2] not in kinds:
                    kinds.add(point[:2])
                    prepare()
                    self.require_survival(point, expected, _find_bug)
            self.assertEqual(expected, self.gpus_in(self.update()))
        self.assertEqual(
            {owner.__name__ for owner, _, _ in READS},
            {kind[0] for kind in kinds},
        )

        self.require_one_line()
        self.require_start(expected)

    def require_one_line(self) -> None:
        """It is logged once, and again after it had worked."""
        before = self.stdlog.logger.output.count(reconciler.FAILED)
        for failing in (True, True, False, True):
            self.reads.failing = (
                ('MigrationList', 'get_by_filters') if failing else None
            )
            self.update()
        self.reads.failing = None
        after = self.stdlog.logger.output.count(reconciler.FAILED)
        self.assertEqual(2, after - before)

    def require_start(self, expected: dict[str, object]) -> None:
        """nova-compute starts without a look at its GPUs, and looks later."""
        self.reads.failing = (
            *('MemoryFiles', 'list_marked'),
            *('bus', 'pci', 'devices'),
        )
        self.reads.fails_with, self.reads.watches = _find_bug, True
        self.compute = self.restart_host('host1')
        self.assertIn(service.LOOK_FAILED, self.stdlog.logger.output)
        self.assertEqual(expected, self.gpus_in(self.update()))
        self.reads.failing = None
        self.assertEqual(expected, self.gpus_in(self.update()))
