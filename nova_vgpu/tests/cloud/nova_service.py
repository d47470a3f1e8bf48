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

"""nova-api in a process of its own, with hosts and servers in its databases.

``python -m nova_vgpu.tests.cloud.nova_service`` takes what
:mod:`nova_vgpu.tests.cloud.serving` explains. No compute service
runs: the records are all that nova-api shows.
"""

from collections.abc import Callable
import datetime
import os
import pathlib
import shutil
import sysconfig
import typing

from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import scene
from nova_vgpu.tests.cloud import serving

_LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
#: Given Nova's objects and the context of an administrator.
Fill = Callable[[typing.Any, typing.Any], None]
_CONFIGURATION = """\
[DEFAULT]
state_path = {directory}
transport_url = fake://
host = controller
[api_database]
connection = sqlite:///{directory}/nova_api.sqlite
sqlite_synchronous = False
[database]
connection = sqlite:///{directory}/nova_cell1.sqlite
sqlite_synchronous = False
[keystone_authtoken]
{credentials}
[placement]
{credentials}
[quota]
driver = nova.quota.UnifiedLimitsDriver
[oslo_limit]
{credentials}
endpoint_service_type = compute
endpoint_region_name = {region}
[oslo_concurrency]
lock_path = {directory}
"""


def load(directory: pathlib.Path, urls: dict[str, str]) -> typing.Any:
    prepare(directory, urls, _add_records)
    from nova.api.openstack import wsgi_app

    _leave_out_security_groups()
    return wsgi_app.init_application('osapi_compute', 'nova-api')


def _leave_out_security_groups() -> None:
    """Of Neutron, which lists of servers with details have; none runs."""
    from nova.network import security_group_api

    security_group_api.get_instances_security_groups_bindings = (
        lambda *_args, **_kwargs: {}
    )


def prepare(
    directory: pathlib.Path,
    urls: dict[str, str],
    fill: Fill | None = None,
    more: str = '',
) -> None:
    """Write nova.conf and make the databases.

    :param fill: writes records to the databases.
    :param more: further lines of nova.conf.
    """
    config = directory / 'nova'
    config.mkdir()
    text = _CONFIGURATION.format(
        directory=directory,
        credentials=serving.credentials('nova', urls['identity']),
        region=accounts.REGION,
    )
    (config / 'nova.conf').write_text(text + more)
    # The wheel installs it with the environment's own files.
    data = pathlib.Path(sysconfig.get_path('data'), 'etc', 'nova')
    shutil.copy(data / 'api-paste.ini', config)
    serving.set_environment(
        OS_NOVA_CONFIG_DIR=str(config), OS_NOVA_DISABLE_EVENTLET_PATCHING='1'
    )
    # nova-api sets up its databases once in a process, when they are ready.
    filling = os.fork()
    if not filling:
        _make_databases(directory, config, fill)
        os._exit(0)
    if os.waitpid(filling, 0)[1]:
        raise SystemExit('the databases could not be filled')


def _make_databases(
    directory: pathlib.Path, config: pathlib.Path, fill: Fill | None
) -> None:
    from nova import config as nova_config
    from nova import context
    from nova import objects
    from nova.db.api import models as api_models
    from nova.db.main import models
    import sqlalchemy

    for name, metadata in (
        ('nova_api', api_models.BASE.metadata),
        ('nova_cell0', models.BASE.metadata),
        ('nova_cell1', models.BASE.metadata),
    ):
        url = f'sqlite:///{directory}/{name}.sqlite'
        metadata.create_all(sqlalchemy.create_engine(url))
    nova_config.parse_args(
        ['nova'], default_config_files=[str(config / 'nova.conf')]
    )
    objects.register_all()
    admin = context.get_admin_context()
    for name, uuid, transport in (
        ('cell0', objects.CellMapping.CELL0_UUID, 'none:///'),
        ('cell1', scene.CELL, 'fake://'),
    ):
        objects.CellMapping(
            admin,
            name=name,
            uuid=uuid,
            transport_url=transport,
            database_connection=f'sqlite:///{directory}/nova_{name}.sqlite',
        ).create()
    if fill is not None:
        fill(objects, admin)


def _add_records(objects: typing.Any, admin: typing.Any) -> None:
    from nova import context

    cell = objects.CellMapping.get_by_uuid(admin, scene.CELL)
    with context.target_cell(admin, cell) as in_cell:
        nodes = {}
        for host in scene.HOSTS:
            nodes[host] = _add_host(objects, in_cell, host)
            objects.HostMapping(admin, host=host, cell_mapping=cell).create()
        for server in (*scene.SERVERS, *scene.FORMER_SERVERS):
            _add_server(objects, in_cell, server, nodes[server.host])
            objects.InstanceMapping(
                admin,
                instance_uuid=server.uuid,
                project_id=accounts.PROJECTS[server.project],
                user_id=accounts.USER,
                cell_mapping=cell,
                queued_for_delete=server.ended is not None,
            ).create()


def _add_host(objects: typing.Any, context: typing.Any, host: str) -> int:
    """Returns the id of the compute node."""
    objects.Service(
        context,
        host=host,
        binary='nova-compute',
        topic='compute',
        # It is down: nova-api would ask one that is up for its uptime.
        last_seen_up=_LONG_AGO,
    ).create()
    node = objects.ComputeNode(
        context,
        host=host,
        hypervisor_hostname=host,
        uuid=scene.uuid_of(host),
        hypervisor_type='QEMU',
        hypervisor_version=9002000,
        vcpus=64,
        memory_mb=524288,
        local_gb=2048,
        vcpus_used=0,
        memory_mb_used=0,
        local_gb_used=0,
        cpu_info='{}',
        host_ip='127.0.0.1',
    )
    node.create()
    identity: int = node.id
    return identity


def _add_server(
    objects: typing.Any,
    context: typing.Any,
    server: scene.Server,
    node: int,
) -> None:
    from nova.network import model as network_model

    flavor = objects.Flavor(
        name=server.flavor,
        flavorid=server.flavor,
        memory_mb=1024,
        vcpus=1,
        root_gb=1,
        ephemeral_gb=0,
        swap=0,
        rxtx_factor=1.0,
        extra_specs=scene.FLAVORS.get(server.flavor, {}),
        projects=[],
        is_public=True,
        disabled=False,
        id=1,
        vcpu_weight=0,
        created_at=None,
        updated_at=None,
        deleted_at=None,
        deleted=False,
        description=None,
    )
    instance = objects.Instance(
        context,
        uuid=server.uuid,
        display_name=server.name,
        hostname='server',
        host=server.host,
        node=server.host,
        compute_id=node,
        project_id=accounts.PROJECTS[server.project],
        user_id=accounts.USER,
        vm_state='active',
        power_state=1,
        flavor=flavor,
        old_flavor=None,
        new_flavor=None,
        launched_at=scene.LAUNCHED,
        terminated_at=server.ended,
        # The list of servers with details has their addresses.
        info_cache=objects.InstanceInfoCache(
            context, network_info=network_model.NetworkInfo()
        ),
    )
    instance.create()
    if server.ended is not None:
        instance.destroy()


if __name__ == '__main__':
    serving.main(load)
