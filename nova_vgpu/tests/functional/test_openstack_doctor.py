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

"""``openstack vgpu doctor``, in a real cloud."""

import typing

from nova_vgpu.cloud.diagnose import diagnosis
from nova_vgpu.cloud.diagnose import examiner
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import base

FENCED = ('warning', 'gpu-fenced', 'compute3_pci_0000_41_00_0')
# compute2 and compute3 have one A40 each.
TWO_GPUS = ('error', 'flavor-exceeds-hosts', 'render-2')
WRONG = {
    'alone': {'trait:CUSTOM_VGPU_TYPE_T4_2Q': 'required'},
    'none': {'resources:VGPU': '0'},
    'two': {'resources1:VGPU': '1', 'resources2:VGPU': '1'},
    'gone': {
        'resources:VGPU': '1',
        'trait:CUSTOM_VGPU_TYPE_L4_24Q': 'required',
    },
}


class DoctorTest(base.CloudTest):
    def create(self, name: str, extra_specs: dict[str, str]) -> None:
        """As an old client: newer ones refuse keys that Nova ignores."""
        compute = self.connection.compute
        flavor = compute.create_flavor(name=name, ram=1, vcpus=1, disk=1)
        self.addCleanup(compute.delete_flavor, flavor)
        answer = compute.post(
            f'/flavors/{flavor.id}/os-extra_specs',
            json={'extra_specs': extra_specs},
            microversion='2.1',
        )
        self.assertEqual(200, answer.status_code, answer.text)

    def find(self) -> list[tuple[str, str, str]]:
        return [
            (found.severity.value, found.code, found.subject)
            for found in diagnosis.diagnose(examiner.examine(self.reader))
        ]

    def test_the_page_has_real_output(self) -> None:
        self.compare(
            'openstack-doctor-json.console',
            *('doctor', '-f', 'json'),
            status=2,
        )
        self.create('cad', {'resource:VGPU': '1'})
        self.compare('openstack-doctor.console', 'doctor', status=2)

    def test_an_ordinary_user_is_told_what_role_is_required(self) -> None:
        self.refuse_ordinary_user('doctor')

    def test_flavors_that_get_no_vgpu(self) -> None:
        for name, extra_specs in WRONG.items():
            self.create(name, extra_specs)
        self.assertEqual(
            [
                TWO_GPUS,
                ('error', 'flavor-trait-alone', 'alone'),
                ('error', 'flavor-unservable', 'gone'),
                ('error', 'flavor-without-policy', 'two'),
                ('error', 'flavor-without-vgpu', 'none'),
                FENCED,
            ],
            sorted(self.find()),
        )

    def test_placement_finds_no_host_for_a_trait_alone(self) -> None:
        """As the finding says."""
        for resources in ('VCPU:1', 'VCPU:1,MEMORY_MB:1'):
            answer = self.placement.call(
                'GET',
                f'/allocation_candidates?resources={resources}'
                '&required=CUSTOM_VGPU_TYPE_T4_2Q',
            )
            self.assertEqual([], answer['allocation_requests'])

    def test_limits_are_read(self) -> None:
        identity: typing.Any = self.connection.identity
        services = {s.name: s.id for s in identity.services()}
        for service, name in (
            ('nova', 'class:VGPU'),
            ('nova', 'class:CUSTOM_A40_8Q'),
            ('placement', 'class:CUSTOM_L40S_24Q'),
        ):
            made = identity.create_registered_limit(
                service_id=services[service],
                region_id=accounts.REGION,
                resource_name=name,
                default_limit=1,
            )
            self.addCleanup(identity.delete_registered_limit, made)
        self.assertEqual(
            [
                TWO_GPUS,
                ('note', 'limit-missing', 'CUSTOM_L40S_24Q'),
                FENCED,
                (
                    'warning',
                    'limit-of-other-service',
                    'class:CUSTOM_L40S_24Q',
                ),
                ('warning', 'limit-shared', 'class:VGPU'),
                ('warning', 'limit-without-class', 'class:CUSTOM_A40_8Q'),
            ],
            sorted(self.find()),
        )

    def test_the_region_is_read(self) -> None:
        found = examiner.examine(self.reader)
        self.assertEqual(accounts.REGION, found.region)
        self.assertEqual({accounts.REGION}, found.regions)

    def test_requests_do_not_grow_with_vgpus(self) -> None:
        # What "gpu list" takes; the flavors and two pages of compute nodes.
        self.compare_requests(examiner.examine, (5, 3))

    def test_what_fails_in_the_middle_is_named(self) -> None:
        self.fail_in_the_middle(examiner.examine, (5, 3))

    def test_a_keystone_that_fails_is_named(self) -> None:
        """It gave out a token, and does not answer any more."""
        code, stdout, stderr = self.run_command(
            'doctor', OS_IDENTITY_ENDPOINT_OVERRIDE='http://127.0.0.1:1'
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('Keystone did not list services: ', stderr)
