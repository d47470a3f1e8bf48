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

"""What is generated is read again as what was wished for, on every host."""

import pathlib
import tempfile

import fixtures
import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import configuration
from nova_vgpu import values
from nova_vgpu.generate import nova_conf
from nova_vgpu.generate import type_requests
from nova_vgpu.plan import capacity
from nova_vgpu.plan import type_matching
from nova_vgpu.tests import plans
from nova_vgpu.tests.unit import strategies
from nova_vgpu.tests.unit import test_properties

SETTINGS = hypothesis.settings(test_properties.SETTINGS, max_examples=60)
Wished = tuple[values.Host, dict[str, str]]


@st.composite
def wished(draw: st.DrawFn, hosts: st.SearchStrategy[values.Host]) -> Wished:
    """A host, and for some of its GPUs the id of a type that they offer."""
    host = draw(hosts)
    able = [gpu for gpu in host.gpus if gpu.types]
    hypothesis.assume(able)
    chosen = draw(
        st.lists(st.sampled_from(able), min_size=1, unique_by=lambda g: g.name)
    )
    return host, {
        gpu.name: draw(st.sampled_from(gpu.types)).id for gpu in chosen
    }


REAL = strategies.simulated_hosts().map(strategies.read_back)
ANY = strategies.value_hosts() | REAL


def generate(
    host: values.Host, by_gpu: dict[str, str], reader: values.Reader
) -> values.Fragment:
    wanted = [
        values.TypeRequest(by_gpu[gpu.name], gpu)
        for gpu in host.gpus
        if gpu.name in by_gpu
    ]
    granted = type_requests.grant(host, wanted)
    return nova_conf.generate(host, granted, reader, values.ModesRead())


def plan_again(fragment: values.Fragment, host: values.Host) -> values.Plan:
    """The plan that nova-compute would make if it read the fragment."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, 'vgpu.conf')
        path.write_text('\n'.join(fragment.lines))
        loaded = configuration.load([], [directory])
    assert fragment.declaration is not None
    assert not loaded.problems, loaded.problems
    declaration = loaded.declaration
    assert declaration.types == fragment.declaration.types
    assert declaration.unlisted == fragment.declaration.unlisted
    return plans.make_plan(declaration, host)


def mediated(host: values.Host, by_gpu: dict[str, str]) -> dict[str, str]:
    """The wishes that Nova's own driver can carry out."""
    return {
        gpu.name: by_gpu[gpu.name]
        for gpu in host.gpus
        if gpu.name in by_gpu
        and gpu.framework is not values.Framework.VENDOR_VFIO
    }


class TestReadAgain(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())  # "Deprecated: …"
        # Never the configuration of the machine that runs the tests.
        self.useFixture(
            fixtures.MonkeyPatch(
                'oslo_config.cfg.find_config_files', lambda *_a, **_k: []
            )
        )

    def assertServes(self, by_gpu: dict[str, str], plan: values.Plan) -> None:
        self.assertEqual((), plan.problems_of(values.Severity.FATAL))
        self.assertEqual(
            by_gpu,
            {a.gpu.name: a.type.id for a in plan.assignments if a.type},
        )
        self.assertEqual(
            set(by_gpu), {assigned.gpu.name for assigned in plan.assignments}
        )

    @SETTINGS
    @hypothesis.given(wished(ANY))
    def test_by_this_project(self, world: Wished) -> None:
        host, by_gpu = world
        fragment = generate(host, by_gpu, values.Reader.NOVA_VGPU)
        self.assertLessEqual(max(map(len, fragment.lines)), 79)
        self.assertServes(by_gpu, plan_again(fragment, host))

    @SETTINGS
    @hypothesis.given(wished(ANY))
    def test_under_novas_names(self, world: Wished) -> None:
        host, by_gpu = world
        by_gpu = mediated(host, by_gpu)
        hypothesis.assume(by_gpu)
        fragment = generate(host, by_gpu, values.Reader.NOVA)
        self.assertServes(by_gpu, plan_again(fragment, host))

    @SETTINGS
    @hypothesis.given(wished(REAL))
    def test_functions_for_nova_hold_as_much_as_the_gpu(
        self, world: Wished
    ) -> None:
        host, by_gpu = world
        by_gpu = mediated(host, by_gpu)
        hypothesis.assume(by_gpu)
        ours, novas = (
            {
                assigned.gpu.name: assigned.capacity.total
                for assigned in plan_again(
                    generate(host, by_gpu, reader), host
                ).assignments
                if assigned.capacity
            }
            for reader in (values.Reader.NOVA_VGPU, values.Reader.NOVA)
        )
        self.assertEqual(ours, novas)


class TestPassedThrough(testtools.TestCase):
    @SETTINGS
    @hypothesis.given(wished(REAL))
    def test_no_more_functions_than_the_gpu_takes_vgpus(
        self, world: Wished
    ) -> None:
        host, by_gpu = world
        names = type_matching.list_type_names(host)
        for gpu in host.gpus:
            if (
                gpu.name not in by_gpu
                or gpu.framework is not values.Framework.VENDOR_VFIO
            ):
                continue
            type_id = by_gpu[gpu.name]
            fragment = generate(host, {gpu.name: type_id}, values.Reader.PCI)
            listed = [
                vf
                for vf in gpu.vfs
                if f'"address": "{vf.address}"' in '\n'.join(fragment.lines)
            ]
            (vgpu_type,) = (t for t in gpu.types if t.id == type_id)
            counted = capacity.plan_capacity(
                *(gpu, vgpu_type, gpu.functions, None, names),
                values.GPUModes(),
            )
            self.assertEqual(counted.total, len(listed))
            for vf in listed:
                self.assertIn(
                    {vgpu.type_id for vgpu in vf.vgpus}, (set(), {type_id})
                )
