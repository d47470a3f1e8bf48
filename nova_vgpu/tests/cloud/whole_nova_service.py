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

"""All of Nova in a process of its own: API, conductor, scheduler, computes.

``python -m nova_vgpu.tests.cloud.whole_nova_service`` takes what
:mod:`nova_vgpu.tests.cloud.serving` explains. The services speak with each
other by messages, which stay in the process. The first hosts of
:mod:`nova_vgpu.tests.cloud.fleet` run from the start, and the others after a
request for :data:`START`. With them come the agents of all hosts:
:data:`START` is sent the files of their TLS, and answers with the ports of
their metrics. :data:`READ` lets them read their hosts again.
"""

import dataclasses
import json
import pathlib
import typing

from nova_vgpu.tests.cloud import fleet
from nova_vgpu.tests.cloud import nova_service
from nova_vgpu.tests.cloud import running
from nova_vgpu.tests.cloud import serving

#: Nova has no such path: a host is started by whoever has a hand on it.
START = '/start_other_hosts'
READ = '/read_hosts'
_CONFIGURATION = """\
[DEFAULT]
compute_driver = vgpu.LibvirtVGPUDriver
instances_path = {directory}/instances
initial_cpu_allocation_ratio = 16.0
# Nothing fails here that has to be found by looking again and again.
periodic_enable = False
report_interval = 3600
service_down_time = 86400
[glance]
num_retries = 3
[placement]
endpoint_override = {placement}
[quota]
driver = nova.quota.DbQuotaDriver
instances = -1
cores = -1
ram = -1
[vnc]
enabled = False
"""


def load(directory: pathlib.Path, urls: dict[str, str]) -> typing.Any:
    more = _CONFIGURATION.format(
        directory=directory, placement=urls[running.ITSELF]
    )
    nova_service.prepare(directory, urls, more=more)
    from nova_vgpu.tests.functional import threading_mode

    threading_mode.choose()
    from nova_vgpu.lifecycle import metrics_server
    from nova_vgpu.tests.cloud import computes
    from nova_vgpu.tests.cloud import host_agents

    started = computes.Computes(directory)
    started.setUp()
    from nova import service
    from nova.api.openstack import wsgi_app

    application = wsgi_app.init_application('osapi_compute', 'nova-api')
    for binary in ('nova-conductor', 'nova-scheduler'):
        service.Service.create(binary=binary, host='controller').start()
    for host in fleet.FIRST:
        started.start(host)
    agents = host_agents.HostAgents(directory)
    agents.setUp()

    def start_others(tls: list[str]) -> list[int]:
        for host in fleet.HOSTS[len(fleet.FIRST) :]:
            started.start(host)
        for host in fleet.BROKEN:
            gpus = started.connections[host.name].pci_info.gpus
            gpus[-1] = dataclasses.replace(gpus[-1], vfs=0)
        return [
            agents.start(
                host.name,
                started.connections[host.name],
                host.declaration,
                metrics_server.TLS(*tls),
            )
            for host in fleet.HOSTS
        ]

    def answer(environ: dict[str, typing.Any], respond: typing.Any) -> object:
        path = environ['PATH_INFO']
        ports: list[int] = []
        if path.endswith(START):
            ports = start_others(json.load(environ['wsgi.input']))
        elif path.endswith(READ):
            agents.read()
        else:
            return application(environ, respond)
        respond('200 OK', [('Content-Type', 'application/json')])
        return [json.dumps(ports).encode()]

    return answer


if __name__ == '__main__':
    serving.main(load)
