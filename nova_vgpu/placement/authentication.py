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

"""Credentials for Placement, as keystoneauth and openstacksdk read them.

On a compute node nova.conf has a section ``[placement]`` that nova-compute
uses; the same section is used here. Elsewhere ``clouds.yaml`` and the
variables ``OS_*`` are. A cloud that is given by name takes precedence over
both.
"""

import dataclasses

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import loading
from keystoneauth1 import token_endpoint
from openstack import config as sdk_config
from openstack import exceptions as sdk_exceptions
from oslo_config import cfg

from nova_vgpu import exception
from nova_vgpu.placement import client
from nova_vgpu.placement import request
from nova_vgpu.placement import retry_policy

GROUP = 'placement'

_SERVICE_TYPE = 'placement'
# As Nova has it.
_INTERFACES = ['internal', 'public']
# The administrator's token of Placement with "auth_strategy = noauth2", which
# checks nothing: not a secret.
_NOAUTH_TOKEN = 'admin'  # noqa: S105
_CURE = (
    'Name a cloud of clouds.yaml with --os-cloud, set the variables OS_*, or '
    'give --config-file a nova.conf with auth_type in [placement].'
)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register ``[placement]``; to be called before the files are parsed."""
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(
        conf, GROUP, include_deprecated=False
    )
    conf.set_default('service_type', _SERVICE_TYPE, GROUP)
    conf.set_default('valid_interfaces', _INTERFACES, GROUP)


def connect(
    conf: cfg.ConfigOpts,
    cloud: str | None = None,
    patient: retry_policy.RetryPolicy | None = None,
) -> client.PlacementClient:
    """A client; no request is sent yet.

    :raises PlacementError: if credentials are missing or invalid.
    """
    try:
        if cloud is None and _is_configured(conf):
            adapter = _from_conf(conf)
        else:
            adapter = _from_cloud(cloud)
    except (
        ksa_exceptions.ClientException,
        sdk_exceptions.SDKException,
        cfg.Error,
        TypeError,  # of keystoneauth, for values that contradict each other
        ValueError,
    ) as error:
        raise exception.PlacementError(
            f'Cannot log in to Placement: {str(error).rstrip(".")}. {_CURE}'
        ) from error
    if patient is None:
        patient = retry_policy.RetryPolicy()
        if conf[GROUP].timeout:
            patient = dataclasses.replace(patient, timeout=conf[GROUP].timeout)
    return client.PlacementClient(request.Requester(adapter, patient))


def _is_configured(conf: cfg.ConfigOpts) -> bool:
    return bool(conf[GROUP].auth_type or conf[GROUP].auth_section)


def _from_conf(conf: cfg.ConfigOpts) -> ksa_adapter.Adapter:
    auth_group = conf[GROUP].auth_section or GROUP
    if auth_group != GROUP:
        loading.register_auth_conf_options(conf, auth_group)
    auth_type = conf[auth_group].auth_type
    auth = loading.load_auth_from_conf_options(conf, GROUP)
    if auth_type == 'none':
        # keystoneauth would send a token that Placement accepts without
        # any permission; this one has all of them.
        endpoint = conf[auth_group].endpoint
        auth = token_endpoint.Token(endpoint, _NOAUTH_TOKEN)
    session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
    return loading.load_adapter_from_conf_options(
        conf, GROUP, session=session, auth=auth
    )


def _from_cloud(cloud: str | None) -> ksa_adapter.Adapter:
    region = sdk_config.get_cloud_region(cloud=cloud)
    return ksa_adapter.Adapter(
        session=region.get_session(),
        service_type=region.get_service_type(_SERVICE_TYPE),
        service_name=region.get_service_name(_SERVICE_TYPE),
        interface=region.get_interface(_SERVICE_TYPE),
        region_name=region.get_region_name(_SERVICE_TYPE),
        endpoint_override=region.get_endpoint(_SERVICE_TYPE),
    )
