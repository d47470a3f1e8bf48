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

"""The options of ``nova-vgpu guest cloud-init``: a site's defaults.

They are in ``[guest]``. The sections ``[guest_flavor_<name>]`` and
``[guest_project_<id>]`` have the same options, for the guests of a flavor or
of a project. They are not those of nova-compute, so they have a namespace of
their own for ``oslo-config-generator``.
"""

from collections.abc import Sequence
import functools
import typing

from oslo_config import cfg

from nova_vgpu.conf import opts

GROUP = 'guest'
FLAVOR_PREFIX = 'guest_flavor_'
PROJECT_PREFIX = 'guest_project_'


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    return [(guest_group(), guest_options())]


def guest_group() -> cfg.OptGroup:
    return cfg.OptGroup(
        GROUP,
        title='Set-up of guests',
        help=f"""
Defaults for ``nova-vgpu guest cloud-init``.

The sections ``[{FLAVOR_PREFIX}NAME]`` and ``[{PROJECT_PREFIX}ID]`` have the
same options. They are read with ``--flavor NAME`` and ``--project ID``. An
option of the command counts first, then the project, the flavor, and last this
section. Options that belong together are taken from one of these places:
``driver_source`` with its checksum and version, ``repository`` with its key,
``licence_token_file`` with ``licence_servers``, ``vgpu_type`` with
``licence``, and ``container_runtime`` with ``cdi``.
""",
    )


def list_groups(flavor: str | None, project: str | None) -> tuple[str, ...]:
    """The sections that count, the first one first."""
    return (
        *([] if project is None else [f'{PROJECT_PREFIX}{project}']),
        *([] if flavor is None else [f'{FLAVOR_PREFIX}{flavor}']),
        GROUP,
    )


def register_opts(conf: cfg.ConfigOpts, groups: Sequence[str]) -> None:
    for group in groups:
        conf.register_opts(guest_options(), group=cfg.OptGroup(group))


def make_registrar(
    groups: Sequence[str],
) -> typing.Callable[[cfg.ConfigOpts], None]:
    return functools.partial(register_opts, groups=groups)


def read(
    conf: cfg.ConfigOpts, groups: Sequence[str]
) -> tuple[dict[str, dict[str, typing.Any]], tuple[str, ...]]:
    """The values of each section, and all that are invalid.

    None is what is not set, and what is invalid.
    """
    sections: dict[str, dict[str, typing.Any]] = {}
    problems = []
    for group in groups:
        sections[group] = {}
        for option in guest_options():
            value, reason = opts.read_option(conf, group, option.dest)
            sections[group][option.dest] = value
            if reason:
                cure = ' Set it to true or false.'
                problems.append(
                    f'[{group}]{option.dest} is invalid: {reason}.'
                    f'{cure if isinstance(option, cfg.BoolOpt) else ""}'
                )
    return sections, tuple(problems)


def guest_options() -> list[cfg.Opt]:
    """New objects for one section."""
    return [*_driver_options(), *_licence_options(), *_runtime_options()]


def _driver_options() -> list[cfg.Opt]:
    return [
        cfg.StrOpt(
            'driver',
            help="""
The kind of driver: ``vgpu-guest`` for vGPUs of NVIDIA, ``datacenter`` for
whole GPUs of NVIDIA, or ``none`` if the image or the kernel has it.
""",
        ),
        cfg.StrOpt(
            'driver_source',
            help="""
Where the driver is from: the URL of a ``.run`` or ``.deb``, or the name of a
package. A URL needs ``driver_sha256``.
""",
        ),
        cfg.StrOpt(
            'driver_sha256',
            help="""
The SHA-256 of the file of ``driver_source``. The guest installs no other file.
""",
        ),
        cfg.StrOpt(
            'driver_version',
            help="""
The version of the driver, such as ``550.144.03``. It is needed if the name of
the file does not contain it. A package gets this version, and keeps it.
""",
        ),
        cfg.StrOpt(
            'host_driver',
            help="""
The version of the vGPU manager on the hosts. The driver of a vGPU must fit it.
""",
        ),
        cfg.StrOpt(
            'repository',
            help="""
A repository of APT for the guest: its URI, suite and components, such as
``https://apt.example.org/debian bookworm main``.
""",
        ),
        cfg.StrOpt(
            'repository_key',
            help="""
The file with the public key of ``repository``, ASCII-armored.
""",
        ),
    ]


def _licence_options() -> list[cfg.Opt]:
    return [
        cfg.StrOpt(
            'vgpu_type',
            help="""
The type of the guest's vGPU, such as ``A40-8Q``.
""",
        ),
        cfg.StrOpt(
            'licence',
            help="""
The product that a whole GPU with the driver for vGPUs is licensed for:
``vapps``, ``vws`` or ``compute``. A vGPU has that of its type.
""",
        ),
        cfg.StrOpt(
            'licence_token_file',
            help="""
The file with the client configuration token, on the machine that runs the
command. Protect it: it lets guests take licences.
""",
        ),
        cfg.ListOpt(
            'licence_servers',
            help="""
The legacy licence server and its backup, as ``HOST`` or ``HOST:PORT``, for
drivers before branch 525. Newer ones need ``licence_token_file``.
""",
        ),
    ]


def _runtime_options() -> list[cfg.Opt]:
    return [
        cfg.StrOpt(
            'container_runtime',
            help="""
Make NVIDIA's container runtime the default of ``docker`` or ``containerd``;
``none`` for neither.
""",
        ),
        cfg.BoolOpt(
            'cdi',
            help="""
Enable the Container Device Interface in the container runtime.
""",
        ),
        cfg.BoolOpt(
            'gpu_cluster',
            help="""
Whether the guest is a node of a Kubernetes cluster. It gets what NVIDIA's
device plugin needs: the container runtime, by default with containerd.
``device_plugin`` has to say where the plugin itself is from.
""",
        ),
        cfg.StrOpt(
            'device_plugin',
            help="""
The image of NVIDIA's device plugin for Kubernetes, with its tag or digest:
nodes of a GPU cluster get a static Pod with it. ``none`` if the cluster
deploys the plugin, by the GPU operator or a DaemonSet. It counts for guests
with ``gpu_cluster`` only.
""",
        ),
    ]
