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

"""The options, for the driver, the commands and ``oslo-config-generator``.

``[devices]`` has fixed options. The groups ``[vgpu_<type>]`` are dynamic: they
depend on the list of enabled types, so they are registered after the files
were parsed.

Nova's current names (``enabled_mdev_types``, ``[mdev_<type>]``,
``mdev_class``) are aliases. In a file they are read as deprecated names of our
options. On a configuration object that Nova uses as well, some are registered
options of Nova, which may have values that are in no file. Those are read, and
our options have no alias for them: otherwise the same log would call our name
deprecated and Nova's name, too.
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterable
import functools
import typing

from oslo_config import cfg
from oslo_config import types

from nova_vgpu import values

GROUP = 'devices'
GROUP_PREFIX = 'vgpu_'
NOVA_GROUP_PREFIX = 'mdev_'

_RESOURCE_CLASS = r'^(VGPU|CUSTOM_[A-Z0-9_]+)$'

#: The name and the group of an option.
Name = tuple[str, str]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """The options by group; the dynamic groups with a placeholder as name."""
    example = cfg.OptGroup(
        f'{GROUP_PREFIX}<type>',
        title='One vGPU type',
        help="""
One section for each type of ``[devices]enabled_vgpu_types``, with the type in
the section's name as it is written there: ``[vgpu_nvidia-558]``,
``[vgpu_A40-2Q]`` or ``[vgpu_NVIDIA A40-2Q]``. ``[mdev_<type>]``, Nova's name
for such a section, is read too.
""",
    )
    return [
        (devices_group(), device_options()),
        (example, type_options('<type>')),
    ]


def devices_group() -> cfg.OptGroup:
    """A new object for ``[devices]``.

    A group that is registered with two configuration objects would copy the
    options and their overrides from one to the other.
    """
    return cfg.OptGroup(GROUP, title='Physical and virtual devices')


def device_options(novas: Container[Name] = ()) -> list[cfg.Opt]:
    """The options of ``[devices]``; ``novas`` do not become aliases."""
    return [
        cfg.ListOpt(
            'enabled_vgpu_types',
            default=[],
            deprecated_opts=_aliases(novas, ('enabled_mdev_types', GROUP)),
            help="""
The vGPU types of this host. Each physical GPU serves one of them.

A type is given by its id (``nvidia-558``), by the vendor's name for it
(``NVIDIA A40-2Q``) or by the short form of that (``A40-2Q``). Ids change with
the driver's release, names do not. ``nova-vgpu type list`` prints both.

The section ``[vgpu_<type>]`` lists the GPUs that serve a type; ``<type>`` is
written there as it is here. A GPU that is not listed in any section serves the
first type (see ``unlisted_gpus``).

``enabled_mdev_types``, Nova's name for this option, is read too.

Related options:

* ``[devices]unlisted_gpus``
* ``[vgpu_<type>]device_addresses``
""",
        ),
        cfg.StrOpt(
            'unlisted_gpus',
            default=values.UnlistedGPUs.FIRST_TYPE.value,
            choices=[
                (
                    values.UnlistedGPUs.FIRST_TYPE.value,
                    'The GPU serves the first type of ``enabled_vgpu_types``.',
                ),
                (
                    values.UnlistedGPUs.IGNORE.value,
                    'It is not used.',
                ),
            ],
            help="""
What to do with a GPU that is not in any ``[vgpu_<type>]device_addresses``.

Related options:

* ``[devices]enabled_vgpu_types``
* ``[vgpu_<type>]device_addresses``
""",
        ),
        cfg.StrOpt(
            'vgpu_creation',
            default=values.Creation.ON_DEMAND.value,
            choices=[
                (
                    values.Creation.ON_DEMAND.value,
                    'When a server needs one.',
                ),
                (
                    values.Creation.AHEAD.value,
                    'By ``nova-vgpu apply``, as many as each GPU serves.',
                ),
            ],
            help="""
When vGPUs are created.

``ahead`` is for hosts where the consumer of vGPUs cannot create them, such as
Nova's PCI passthrough. vGPUs are then not removed when a server is deleted.

Related options:

* ``[devices]enabled_vgpu_types``
""",
        ),
        cfg.BoolOpt(
            'switch_mig_mode',
            default=False,
            help="""
Whether ``nova-vgpu apply`` turns MIG mode on and off.

It is turned on where a GPU is to serve types that are backed by MIG, and off
where a GPU is to serve time-sliced types. That resets the GPU: it is only done
while no server, no vGPU and no process uses it, and needs NVML. The virtual
functions and GPU instances of that GPU are removed before.

So does ``nova-vgpu agent --enforce``. nova-compute never switches MIG mode.

Related options:

* ``[devices]enabled_vgpu_types``
""",
        ),
    ]


# Of what the kernel reads: a number of 32 bits.
_MOST_U32 = 0xFFFFFFFF


# (AMD SMI documentation, "GPU partitioning".)
_PARTITION = r'(?i)(SPX|DPX|TPX|QPX|CPX)/NPS[1248]'


_VF_PROFILE_OPTIONS = [
    cfg.StrOpt(
        'partition',
        regex=f'{_PARTITION}$',
        help="""
The accelerator and the memory partition that a GPU has to have, such as
``CPX/NPS4``. A GPU with another one has no inventory; it is not changed.

Only for VF profiles of AMD GPUs, such as ``MI300X-1of8``. If unset, any will
do.
""",
    ),
    cfg.IntOpt(
        'exec_quantum_ms',
        min=0,
        max=_MOST_U32,
        help="""
How long one virtual function has the GPU before it is the turn of the next, in
milliseconds; 0 is without limit.

Only for VF profiles of Intel GPUs, such as ``B60-1of4``, with Linux 6.19 or
later. If unset, the driver chooses.
""",
    ),
    cfg.IntOpt(
        'preempt_timeout_us',
        min=0,
        max=_MOST_U32,
        help="""
How long a virtual function may take to leave the GPU when its time is over, in
microseconds, before it is reset; 0 is without limit.

Only for VF profiles of Intel GPUs, such as ``B60-1of4``, with Linux 6.19 or
later. If unset, the driver chooses.
""",
    ),
]


def type_options(type_name: str, novas: Container[Name] = ()) -> list[cfg.Opt]:
    """The options of ``[vgpu_<type>]``; ``novas`` do not become aliases."""
    nova_group = f'{NOVA_GROUP_PREFIX}{type_name}'
    return [
        cfg.ListOpt(
            'device_addresses',
            default=[],
            deprecated_opts=_aliases(novas, ('device_addresses', nova_group)),
            help="""
PCI addresses of the physical GPUs that serve this type.

``0000:84:00.0``, ``84:00.0`` and ``00000000:84:00.0`` are the same, in upper
or lower case. The address of a virtual function selects that function of its
GPU: if only some functions of a GPU are listed, only those are used.

``0000:84:00.0=3`` is a GPU that serves three vGPUs of this type. With a number
at each, a GPU may be listed under several types. Types may also list different
virtual functions of a GPU.
""",
        ),
        cfg.StrOpt(
            'resource_class',
            regex=_RESOURCE_CLASS,
            max_length=255,
            deprecated_opts=_aliases(
                novas,
                ('mdev_class', f'{GROUP_PREFIX}{type_name}'),
                ('resource_class', nova_group),
                ('mdev_class', nova_group),
            ),
            help="""
Resource class of the inventory: ``VGPU`` (the default) or a ``CUSTOM_`` one.

``mdev_class``, Nova's name for this option, is read too.
""",
        ),
        cfg.IntOpt(
            'max_instances',
            min=1,
            deprecated_opts=_aliases(novas, ('max_instances', nova_group)),
            help="""
Maximum number of vGPUs of this type on one physical GPU.

It can only lower the limit of the hardware. Existing vGPUs are not removed,
and the inventory is never less than their number. If unset, the type's maximum
and the number of virtual functions are the only limits.

For VF profiles, such as ``B60-1of4``, it is how many of the virtual functions
are served. For a quota, such as ``B60-6G``, it is how many there are.
""",
        ),
        cfg.ListOpt(
            'traits',
            default=[],
            item_type=types.String(),
            deprecated_opts=_aliases(novas, ('traits', nova_group)),
            help="""
Additional traits for every provider of this type, beside those of the GPU and
the type: ``CUSTOM_`` traits or standard ones.
""",
        ),
        *_VF_PROFILE_OPTIONS,
    ]


def _aliases(novas: Container[Name], *names: Name) -> list[cfg.DeprecatedOpt]:
    return [
        cfg.DeprecatedOpt(name, group=group)
        for name, group in names
        if (name, group) not in novas
    ]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register ``[devices]``; to be called before the files are parsed."""
    _register(conf, devices_group(), GROUP, device_options)


def register_type(conf: cfg.ConfigOpts, name: str) -> None:
    """Register the group of one enabled type; the files must be parsed."""
    _register(
        conf,
        cfg.OptGroup(f'{GROUP_PREFIX}{name}'),
        f'{NOVA_GROUP_PREFIX}{name}',
        functools.partial(type_options, name),
    )


def _register(
    conf: cfg.ConfigOpts,
    group: cfg.OptGroup,
    novas_group: str,
    make_options: Callable[[Container[Name]], Iterable[cfg.Opt]],
) -> None:
    """Register options, without aliases for those that Nova registered."""
    novas: Container[Name] = ()
    if novas_group in conf:
        novas = frozenset(
            (option, novas_group) for option in conf[novas_group]
        )
    conf.register_group(group)
    for option in make_options(novas):
        if option.dest not in conf[group.name]:
            conf.register_opt(option, group=group.name)


def read_novas(
    conf: cfg.ConfigOpts, option: cfg.Opt, group: str | None = None
) -> typing.Any:
    """The value of an option that belongs to Nova; the files must be parsed.

    An invalid value counts as the default: Nova itself reports it.
    """
    if group is not None:
        conf.register_group(cfg.OptGroup(group))
    where = conf if group is None else conf[group]
    if option.dest not in where:
        conf.register_opt(option, group=group)
    try:
        return where[option.dest]
    except (ValueError, cfg.Error, RecursionError):
        return option.default


def read_option(
    conf: cfg.ConfigOpts, group: str, option: str
) -> tuple[typing.Any, str]:
    """An option's value, and why it is invalid; it is None in that case.

    A value can be of the wrong kind, or have a $reference that leads nowhere
    or in a circle.
    """
    try:
        return conf[group][option], ''
    except RecursionError:
        return None, 'it refers to itself'
    except (ValueError, cfg.Error) as error:
        # "Value for option … from LocationInfo(…) is not valid: the reason"
        reason = str(error).rpartition('is not valid: ')[2].rstrip('.')
        return None, reason or type(error).__name__
