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

"""``nova-vgpu agent`` as an operator starts it."""

import contextlib
import os
import signal
import sys
import typing
from unittest import mock

import fixtures

from nova_vgpu import lifecycle
from nova_vgpu.cmd import agent as command
from nova_vgpu.lifecycle import agent
from nova_vgpu.tests.unit.cmd import test_commands

WAIT = agent.Waiter.wait


def _be_told_to_stop(waiter: agent.Waiter, _seconds: float) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    waiter.require_going_on()


class TestAgent(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.options: tuple[str, ...] = (
            *('agent', '--state-dir', str(self.directory / 'state')),
            *('--libvirt', 'nonsense:///system'),
        )
        # What happens to the devices of this machine is not to be heard of.
        self.without('pyudev')
        # As soon as the first round is over.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_vgpu.lifecycle.agent.Waiter.wait', _be_told_to_stop
            )
        )

    def without(self, *modules: str) -> None:
        """An installation that lacks these, whoever had them before."""
        blocked: dict[str, typing.Any] = dict.fromkeys(modules)
        if 'prometheus_client' in modules:
            blocked['nova_vgpu.lifecycle.exporter'] = None
            # An import that another test made left it here, too.
            if (there := vars(lifecycle).pop('exporter', None)) is not None:
                self.addCleanup(setattr, lifecycle, 'exporter', there)
        patch = mock.patch.dict(sys.modules, blocked)
        patch.start()
        self.addCleanup(patch.stop)

    def test_it_goes_on_without_what_is_not_installed(self) -> None:
        self.without('prometheus_client')
        answer = self.run_on_host(*self.options)
        self.assertEqual((0, ''), (answer.code, answer.stdout))
        for word in ('prometheus_client', 'pyudev'):
            (line,) = [s for s in answer.stderr.splitlines() if word in s]
            self.assertIn("'nova-vgpu[agent]'", line)
        self.assertEqual('stopped', answer.stderr.splitlines()[-1])

    def test_libvirt_that_does_not_answer_does_not_end_it(self) -> None:
        answer = self.run_on_host(*self.options, '--no-metrics')
        self.assertEqual(0, answer.code)
        self.assertIn('failed: libvirt does not answer', answer.stderr)
        self.assertNotIn('metrics', answer.stderr)

    def test_signals_are_as_they_were_afterwards(self) -> None:
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = [signal.getsignal(number) for number in numbers]
        self.run_on_host(*self.options, '--no-metrics')
        after = [signal.getsignal(number) for number in numbers]
        self.assertEqual(before, after)

    def test_sighup_makes_it_read_the_configuration_again(self) -> None:
        """At once, however long the interval is."""
        signals = [signal.SIGHUP, signal.SIGTERM]

        def wait(waiter: agent.Waiter, seconds: float) -> bool:
            self.config.write_text('[devices\n')
            os.kill(os.getpid(), signals.pop(0))
            return WAIT(waiter, seconds)

        self.useFixture(
            fixtures.MonkeyPatch('nova_vgpu.lifecycle.agent.Waiter.wait', wait)
        )
        # Should it not be handled, it would end the tests.
        self.addCleanup(
            signal.signal, signal.SIGHUP, signal.getsignal(signal.SIGHUP)
        )
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        answer = self.run_on_host(
            *self.options, '--no-metrics', '--interval', '5'
        )
        self.assertEqual(0, answer.code)
        self.assertEqual([], signals)
        lines = [line.partition(':')[0] for line in answer.stderr.split('\n')]
        reload = lines.index('reload')
        self.assertIn('failed', lines[reload:])
        self.assertIn(f'failed: {self.config}', answer.stderr)

    def test_it_may_change_libvirt_only_if_told_to(self) -> None:
        for options, expected in (((), False), (('--enforce',), True)):
            with mock.patch(
                'nova_vgpu.lifecycle.host_access.open_libvirt',
                side_effect=agent.Stopped,
            ) as opened:
                self.run_on_host(*self.options, '--no-metrics', *options)
            self.assertEqual(
                mock.call('nonsense:///system', expected), opened.call_args
            )

    def test_options_that_make_no_sense(self) -> None:
        for options, word in (
            (('--interval', '0'), '--interval'),
            (('--interval', 'often'), 'often'),
            (('--metrics-address', '9999'), 'HOST:PORT'),
            (('--metrics-address', 'host:port'), 'HOST:PORT'),
            (('--metrics-address', '127.0.0.1:65536'), 'port'),
            (
                ('--no-metrics', '--metrics-address', '127.0.0.1:0'),
                '--no-metrics',
            ),
            (('--metrics-cert', 'a.pem'), '--metrics-key is missing'),
            (('--metrics-key', 'a.key'), '--metrics-cert is missing'),
            (('--metrics-client-ca', 'b.pem'), '--metrics-cert is missing'),
            (
                (
                    *('--no-metrics', '--metrics-cert', 'a.pem'),
                    *('--metrics-key', 'a.key'),
                ),
                '--no-metrics serves no metrics',
            ),
            (
                (
                    *('--metrics-cert', '/missing.pem'),
                    *('--metrics-key', '/missing.key'),
                    *('--metrics-address', '127.0.0.1:0'),
                ),
                '--metrics-cert and --metrics-key: /missing.pem',
            ),
        ):
            answer = self.run_on_host(*self.options, *options)
            self.assertEqual((2, ''), (answer.code, answer.stdout))
            self.assertIn(word, answer.stderr)

    def test_an_address_of_either_kind(self) -> None:
        for text, expected in (
            ('127.0.0.1:0', ('127.0.0.1', 0)),
            ('[::1]:10041', ('::1', 10041)),
            ('localhost:1', ('localhost', 1)),
        ):
            parser = command.Agent(mock.Mock(), None).get_parser('agent')
            options = parser.parse_args(['--metrics-address', text])
            self.assertEqual(expected, options.metrics_address)

    def serve_on(self, *options: str) -> str:
        """What it says with an address; nothing is bound."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_vgpu.lifecycle.exporter.serve',
                lambda *_args: contextlib.nullcontext(10041),
            )
        )
        answer = self.run_on_host(*self.options, *options)
        self.assertEqual(0, answer.code)
        return answer.stderr

    def test_it_warns_of_metrics_that_every_host_can_read(self) -> None:
        tls = ('--metrics-cert', 'a.pem', '--metrics-key', 'a.key')
        for options, warns, url in (
            ((), False, 'http://127.0.0.1'),
            (('--metrics-address', '127.0.0.9:1'), False, 'http://127.0.0.9'),
            (('--metrics-address', 'localhost:1'), False, 'http://localhost'),
            (('--metrics-address', '[::1]:1'), False, 'http://[::1]'),
            (('--metrics-address', '192.0.2.7:1'), True, 'http://192.0.2.7'),
            (('--metrics-address', '[::]:1'), True, 'http://[::]'),
            (('--metrics-address', 'host:1', *tls), True, 'https://host'),
            (
                ('--metrics-address', 'h:1', *tls, '--metrics-client-ca', 'c'),
                False,
                'https://h',
            ),
        ):
            said = self.serve_on(*options)
            self.assertEqual(
                warns, '--metrics-client-ca' in said, str(options)
            )
            self.assertIn(f'metrics: {url}:10041/metrics', said)

    def test_only_this_host_sees_its_metrics_unless_told_so(self) -> None:
        parser = command.Agent(mock.Mock(), None).get_parser('agent')
        self.assertEqual(
            ('127.0.0.1', 10041), parser.parse_args([]).metrics_address
        )
