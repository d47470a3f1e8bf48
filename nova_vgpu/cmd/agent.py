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

"""``nova-vgpu agent``."""

import argparse
from collections.abc import Iterator
import contextlib
import ipaddress
import os
import signal

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cmd import changes
from nova_vgpu.host import source
from nova_vgpu.host import systemd
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import metrics_server

_ADDRESS = ('127.0.0.1', 10041)
_INTERVAL = 30.0


class Agent(changes.HostCommand):
    """Watch this host, and report differences from the declaration.

    The host and the configuration are read at an interval, and at once after
    an event of udev. A line on standard error reports a difference when it
    begins, and when it is resolved. With --enforce differences are repaired as
    by "nova-vgpu apply": vGPUs in use are never changed. Metrics for
    Prometheus are served on the loopback interface; for a Prometheus on
    another host, with TLS:

      nova-vgpu agent --metrics-address 192.0.2.7:10041 --metrics-cert
      host.pem --metrics-key host.key --metrics-client-ca monitoring.pem

    SIGHUP makes it read the configuration and the host at once. SIGTERM and
    SIGINT stop it after the current step. Exit code: 0 it was stopped, 2 it
    could not start.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--interval',
            metavar='SECONDS',
            type=changes.parse_seconds,
            default=_INTERVAL,
            help='Seconds between two readings of the host. Default: 30.',
        )
        parser.add_argument(
            '--enforce',
            action='store_true',
            help='Repair differences that are not in use. Without it, nothing '
            'is changed.',
        )
        serving = parser.add_mutually_exclusive_group()
        serving.add_argument(
            '--metrics-address',
            metavar='HOST:PORT',
            type=_parse_address,
            default=_ADDRESS,
            help='Where to serve metrics; port 0 for any free port. For an '
            'address that other hosts reach, use the options below. Default: '
            f'{_ADDRESS[0]}:{_ADDRESS[1]}.',
        )
        serving.add_argument(
            '--no-metrics',
            action='store_true',
            help='Do not serve metrics.',
        )
        _add_tls_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        tls = _choose_tls(parsed_args)
        notifier = systemd.Notifier(os.environ)
        settings = agent.Settings(parsed_args.interval, parsed_args.enforce)
        with (
            self._serve_metrics(parsed_args, tls) as show,
            agent.Waiter(notifier, self._listen()) as waiter,
            _on_signals(waiter),
        ):
            agent.Agent(
                lambda: self._prepare(parsed_args),
                settings,
                waiter,
                notifier,
                self.say,
                show,
            ).run()

    def _prepare(
        self, parsed_args: argparse.Namespace
    ) -> tuple[host_access.HostAccess, values.Configuration]:
        access = self.make_access(parsed_args, parsed_args.enforce)
        return access, self.load_configuration()

    def _listen(self) -> systemd.UdevEvents | None:
        try:
            events = systemd.listen_to_udev()
        except OSError as error:
            self.say(
                f'warning: udev events cannot be received: {error.strerror}'
            )
            return None
        if events is None:
            self.say(
                'udev: no events, pyudev is not installed (pip install '
                "'nova-vgpu[agent]'). Changes are seen after the interval."
            )
        return events

    @contextlib.contextmanager
    def _serve_metrics(
        self, parsed_args: argparse.Namespace, tls: metrics_server.TLS | None
    ) -> Iterator[agent.Show]:
        if parsed_args.no_metrics:
            yield _show_nothing
            return
        try:
            from nova_vgpu.lifecycle import exporter
        except ImportError:
            self.say(
                'metrics: not served, prometheus_client is not installed (pip '
                "install 'nova-vgpu[agent]')."
            )
            yield _show_nothing
            return
        collector = exporter.Collector(source.find_own_name())
        host, port = parsed_args.metrics_address
        with exporter.serve(collector, host, port, tls) as port:
            where = f'[{host}]' if ':' in host else host
            scheme = 'https' if tls else 'http'
            self.say(f'metrics: {scheme}://{where}:{port}/metrics')
            if tls is None or tls.client_ca is None:
                self._warn_of_readers(host)
            yield collector.show

    def _warn_of_readers(self, host: str) -> None:
        if not _is_loopback(host):
            self.say(
                f'warning: every host that reaches {host} can read the '
                'metrics, with the UUIDs of servers. Require a certificate of '
                'clients with --metrics-cert, --metrics-key and '
                '--metrics-client-ca, or use a loopback --metrics-address.'
            )


def _show_nothing(
    _report: values.DriftReport | None, _tally: agent.Tally
) -> None:
    pass


@contextlib.contextmanager
def _on_signals(waiter: agent.Waiter) -> Iterator[None]:
    """Stop or wake the agent on signals."""

    def stop(_number: int, _frame: object) -> None:
        waiter.stop()

    def wake(_number: int, _frame: object) -> None:
        waiter.wake()

    before = {
        number: signal.signal(number, handler)
        for number, handler in (
            (signal.SIGTERM, stop),
            (signal.SIGINT, stop),
            (signal.SIGHUP, wake),
        )
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _add_tls_options(parser: argparse.ArgumentParser) -> None:
    for option, help_text in (
        (
            '--metrics-cert',
            'Certificate for serving metrics with TLS, in PEM format, with '
            'those of intermediate CAs. Needs --metrics-key.',
        ),
        ('--metrics-key', 'Private key of --metrics-cert, without password.'),
        (
            '--metrics-client-ca',
            'CA of the clients that may read the metrics: others are refused. '
            'Needs --metrics-cert.',
        ),
    ):
        parser.add_argument(option, metavar='FILE', help=help_text)


def _choose_tls(parsed_args: argparse.Namespace) -> metrics_server.TLS | None:
    """What the options say about TLS.

    :raises UsageError: if they do not fit together.
    """
    certificate = parsed_args.metrics_cert
    key, client_ca = parsed_args.metrics_key, parsed_args.metrics_client_ca
    if parsed_args.no_metrics and (certificate or key or client_ca):
        raise exception.UsageError(
            '--no-metrics serves no metrics. Leave it out, or --metrics-cert, '
            '--metrics-key and --metrics-client-ca.'
        )
    if certificate and key:
        return metrics_server.TLS(certificate, key, client_ca)
    if certificate or key or client_ca:
        missing = '--metrics-key' if certificate else '--metrics-cert'
        raise exception.UsageError(
            f'{missing} is missing: TLS needs --metrics-cert and '
            '--metrics-key together.'
        )
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == 'localhost'


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(':')
    host = host.removeprefix('[').removesuffix(']')
    if not host or not port.isascii() or not port.isdigit():
        raise argparse.ArgumentTypeError(f'{text!r} is not HOST:PORT')
    if int(port) > 65535:
        raise argparse.ArgumentTypeError(f'{port} is not a port')
    return host, int(port)
