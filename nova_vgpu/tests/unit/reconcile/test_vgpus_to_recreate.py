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

"""mdevs that are there as another type than they are to be."""

import testtools

from nova_vgpu import values
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.reconcile import vgpu_facts
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import plans

T4 = '0000:84:00.0'
NAME = 'pci_0000_84_00_0'
#: What it is now, and what it was.
T4_8Q, T4_4Q = 'nvidia-233', 'GRID T4-4Q'
DECLARED = (
    '[devices]\nenabled_vgpu_types = {0}\n'
    f'[vgpu_{{0}}]\ndevice_addresses = {T4}\n'
)


def server(running: bool, **noted: str | None) -> values.Guest:
    """A guest with mdevs of types of these names."""
    return values.Guest(
        'uuid',
        'web',
        running,
        frozenset(noted),
        vgpus=tuple(values.GuestVGPU(*item) for item in noted.items()),
    )


def keep(
    uuid: str, type_id: str | None = T4_8Q, parent: str = NAME
) -> values.VGPURecords:
    return values.VGPURecords(
        {uuid: values.MdevRecord(parent, T4_4Q, type_id)}
    )


class TestWhatIsTold(testtools.TestCase):
    """By whom an mdev is known, and when that is believed."""

    def setUp(self) -> None:
        super().setUp()
        self.host = hosts.make_host(hosts.gpu(T4, boards.T4, T4_8Q))
        (self.vgpu,) = self.host.gpus[0].vgpus
        self.uuid = str(self.vgpu.uuid)

    def find(
        self,
        guest: values.Guest | None = None,
        records: values.VGPURecords | None = None,
        name: str | None = 'GRID T4-8Q',
    ) -> str | None:
        usage = values.Usage(
            (guest,) if guest else (), records=records or values.VGPURecords()
        )
        names = {T4_8Q: name} if name else {}
        return vgpu_facts.find_wanted_type(self.vgpu, usage, names)

    def test_of_one_that_is_not_what_it_is_to_be(self) -> None:
        uuid = self.uuid
        for case, found in (
            ('noted', self.find(server(False, **{uuid: T4_4Q}))),
            ('in use', self.find(server(True, **{uuid: T4_4Q}))),
            ('kept, by the same id', self.find(records=keep(uuid))),
            ('kept, by no id', self.find(records=keep(uuid, None))),
            (
                'noted, and made anew since it was kept',
                self.find(server(False, **{uuid: T4_4Q}), keep(uuid, 'x-1')),
            ),
        ):
            self.assertEqual(T4_4Q, found, case)

    def test_of_one_that_is_what_it_is(self) -> None:
        uuid = self.uuid
        for case, found in (
            ('nothing is known', self.find()),
            ('nothing is noted', self.find(server(False, **{uuid: None}))),
            ('noted', self.find(server(False, **{uuid: 'GRID T4-8Q'}))),
            ('by brand', self.find(server(False, **{uuid: 'NVIDIA T4-8Q'}))),
            ('made anew, by another id', self.find(records=keep(uuid, 'x-1'))),
            (
                'made anew elsewhere',
                self.find(records=keep(uuid, parent='pci_0000_85_00_0')),
            ),
            (
                'kept as what it was before its guest got it',
                self.find(server(False, **{uuid: 'GRID T4-8Q'}), keep(uuid)),
            ),
            ('no name', self.find(server(False, **{uuid: T4_4Q}), name=None)),
        ):
            self.assertIsNone(found, case)

    def test_a_definition_by_another_id_was_made_anew(self) -> None:
        for type_id, expected in (
            ('nvidia-232', T4_4Q),
            ('nvidia-233', 'GRID T4-8Q'),
        ):
            mdev = values.Mdev(
                self.uuid, NAME, type_id, values.MdevState.DEFINED
            )
            usage = values.Usage((), (mdev,), keep(self.uuid, 'nvidia-232'))
            names = {'nvidia-232': 'GRID T4-16Q', 'nvidia-233': 'GRID T4-8Q'}
            found = vgpu_facts.type_of(mdev, usage, names)
            self.assertEqual(expected, found.name)


class TestWhatIsDone(testtools.TestCase):
    """On a GPU with one mdev or two, which takes one size."""

    def plan(
        self,
        *guests: values.Guest,
        records: values.VGPURecords | None = None,
        types: tuple[str, ...] = (T4_8Q,),
        declared: str = 'T4-4Q',
    ) -> values.GPUSteps:
        host = hosts.make_host(hosts.gpu(T4, boards.T4, *types))
        mdevs = tuple(
            values.Mdev(
                str(vgpu.uuid),
                NAME,
                vgpu.type_id,
                values.MdevState.PERSISTENT,
            )
            for vgpu in host.gpus[0].vgpus
        )
        (planned,) = gpu_steps.plan_steps(
            plans.make_plan(live.declare(DECLARED.format(declared)), host),
            type_matching.list_type_names(host),
            values.Usage(guests, mdevs, records or values.VGPURecords()),
            policy.for_apply(values.Creation.ON_DEMAND),
            lambda: 'new',
        )
        return planned

    def setUp(self) -> None:
        super().setUp()
        gpu = hosts.make_gpu(hosts.gpu(T4, boards.T4, T4_8Q, T4_8Q))
        self.first, self.second = (str(v.uuid) for v in gpu.vgpus)

    def words(self, planned: values.GPUSteps) -> list[str]:
        return [str(step) for step in planned.steps]

    def test_it_is_removed_and_made_again(self) -> None:
        guest = server(False, **{self.first: T4_4Q, self.second: T4_4Q})
        planned = self.plan(guest, types=(T4_8Q, T4_8Q))
        self.assertEqual(
            [
                f'remove mdev {self.first}, which is GRID T4-8Q',
                f'remove mdev {self.second}, which is GRID T4-8Q',
                f'start mdev {self.first} of GRID T4-4Q',
                f'start mdev {self.second} of GRID T4-4Q',
            ],
            self.words(planned),
        )
        self.assertEqual((), planned.refusals)
        self.assertEqual(
            [values.MdevState.PERSISTENT] * 2,
            [s.after for s in planned.steps[2:] if hasattr(s, 'after')],
        )

    def test_whatever_the_gpu_is_to_serve(self) -> None:
        """Also if it looks like what is declared."""
        guest = server(False, **{self.first: T4_4Q})
        for declared in ('T4-8Q', 'T4-2Q'):
            steps = self.words(self.plan(guest, declared=declared))
            self.assertEqual(
                f'remove mdev {self.first}, which is GRID T4-8Q', steps[0]
            )
            self.assertEqual(
                f'start mdev {self.first} of GRID T4-4Q', steps[-1]
            )

    def test_one_of_nobody_if_it_is_what_is_declared(self) -> None:
        records = keep(self.first)
        remove = f'remove mdev {self.first}, which is GRID T4-8Q'
        start = f'start mdev {self.first} of GRID T4-4Q'
        for declared, expected in (
            ('T4-4Q', [remove, start]),
            ('T4-2Q', [remove]),
            ('T4-8Q', []),
        ):
            planned = self.plan(records=records, declared=declared)
            self.assertEqual(expected, self.words(planned), declared)

    def test_of_a_server_that_runs_it_is_refused(self) -> None:
        planned = self.plan(server(True, **{self.first: T4_4Q}))
        self.assertEqual((), planned.steps)
        (refusal,) = planned.refusals
        for said in (
            f'vGPU {self.first} of GRID T4-8Q is not touched',
            '(web, which runs)',
            'noted as GRID T4-4Q',
            'Shut that server down, then run it again.',
        ):
            self.assertIn(said, str(refusal))

    def test_of_a_type_that_is_not_offered_it_is_refused(self) -> None:
        planned = self.plan(server(False, **{self.first: 'GRID T4-3Q'}))
        self.assertEqual((), planned.steps)
        (refusal,) = planned.refusals
        self.assertIn('does not offer that type now', str(refusal))

    def test_one_that_would_not_fit_is_refused(self) -> None:
        """Beside one that stays, and is of its size only by mistake."""
        planned = self.plan(
            server(True, **{self.first: T4_4Q}),
            server(False, **{self.second: T4_4Q}),
            types=(T4_8Q, T4_8Q),
        )
        self.assertEqual((), planned.steps)
        self.assertEqual(2, len(planned.refusals))
        self.assertIn('does not fit', str(planned.refusals[1]))

    def test_one_that_fits_beside_what_stays_is_made_again(self) -> None:
        """Of another series, but of the same size."""
        planned = self.plan(
            server(True, **{self.first: 'GRID T4-8Q'}),
            server(False, **{self.second: 'GRID T4-8A'}),
            types=(T4_8Q, T4_8Q),
            declared='T4-8Q',
        )
        self.assertEqual(
            [
                f'remove mdev {self.second}, which is GRID T4-8Q',
                f'start mdev {self.second} of GRID T4-8A',
            ],
            self.words(planned),
        )
