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

import testtools

from nova_vgpu import values
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.usage import guest_states
from nova_vgpu.tests.unit.cloud import test_server_state


def guest(
    driver: str = '550.144.03', licence: str = 'licensed'
) -> host_agents.Guest:
    return host_agents.Guest('0000:84:00.0', 'v', 's1', driver, licence)


class TestSummary(testtools.TestCase):
    def test_what_a_guest_told(self) -> None:
        for name, guests, driver, licence in (
            ('nothing', (), None, None),
            ('all', (guest(),), '550.144.03', 'licensed'),
            ('two alike', (guest(), guest()), '550.144.03', 'licensed'),
            (
                'two that differ',
                (guest(), guest(licence='unlicensed')),
                *('550.144.03', 'licensed, unlicensed'),
            ),
            ('no driver', (guest('none', 'unlicensed'),), 'none', None),
            ('nothing known', (guest('', 'unknown'),), None, None),
        ):
            self.assertEqual(
                guest_states.GuestState(driver, licence),
                guest_states.summarise(guests),
                name,
            )


class TestReasons(testtools.TestCase):
    def judge(self, *guests: host_agents.Guest) -> list[tuple[str, str]]:
        found = guest_states.judge(guests)
        return [(each.code.value, each.text) for each in found]

    def test_a_guest_that_is_well_or_silent(self) -> None:
        for guests in ((guest(),), (), (guest('', 'unknown'),)):
            self.assertEqual([], self.judge(*guests))

    def test_a_guest_without_a_driver(self) -> None:
        """Its licence does not matter."""
        ((code, text),) = self.judge(guest('none', 'unlicensed'))
        self.assertEqual('no-driver', code)
        self.assertIn('no driver', text)

    def test_every_state_but_licensed_and_unknown_is_a_reason(self) -> None:
        for licence in values.GuestLicence:
            codes = [
                code for code, _text in self.judge(guest('', licence.value))
            ]
            silent = licence in (
                values.GuestLicence.LICENSED,
                values.GuestLicence.UNKNOWN,
            )
            self.assertEqual(
                [] if silent else ['unlicensed'], codes, str(licence)
            )

    def test_vgpus_with_the_same_problem_are_one_reason(self) -> None:
        bad = guest(licence='unlicensed-restricted')
        ((_code, text),) = self.judge(bad, bad)
        self.assertIn('is slowed down', text)

    def test_only_a_running_server_is_judged(self) -> None:
        bad = (guest(licence='unlicensed-restricted'),)
        for status, state in (('ACTIVE', 'attention'), ('SHUTOFF', 'stopped')):
            found = test_server_state.judge_with(bad, status=status)
            self.assertEqual(state, found.state.value)
