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

"""The options of nova-scheduler, and the rules made of them.

They are in Nova's group ``[filter_scheduler]``, beside the multipliers of
Nova's own weighers. They are not those of compute nodes, so they have a
namespace of their own for ``oslo-config-generator``.
"""

from collections.abc import Mapping

from oslo_config import cfg
from oslo_config import types

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits

GROUP = 'filter_scheduler'
MULTIPLIER = 'vgpu_weight_multiplier'
_VGPU = 'VGPU'
_NAMES = [order.value for order in values.Order]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    group = cfg.OptGroup(GROUP, title="Nova's scheduler")
    return [(group, scheduler_options())]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options on Nova's configuration object."""
    conf.register_opts(scheduler_options(), group=GROUP)


def read_rules(conf: cfg.ConfigOpts) -> values.SchedulingRules:
    """The rules of the configuration.

    :raises ValueError: if a value is invalid; the message names the option.
    """
    found = conf[GROUP]
    return values.SchedulingRules(
        _make_orders(found.vgpu_host_order, found.vgpu_host_order_of_types),
        _make_orders(found.vgpu_gpu_order, found.vgpu_gpu_order_of_types),
        found.plain_servers_avoid_gpus,
        found[MULTIPLIER],
    )


def _make_orders(default: str, of_types: Mapping[str, str]) -> values.Orders:
    return values.Orders(
        values.Order(default),
        {_resolve(name): values.Order(of_types[name]) for name in of_types},
    )


def _resolve(name: str) -> str:
    """The trait of a type; a resource class or a trait as it is."""
    if name == _VGPU or traits.is_custom(name):
        return name
    return capabilities.trait_of_type(values.VGPUType(name, name))


def scheduler_options() -> list[cfg.Opt]:
    """New objects for ``[filter_scheduler]``."""
    return [
        cfg.FloatOpt(
            MULTIPLIER,
            default=values.SchedulingRules().multiplier,
            min=0.0,
            help="""
How much ``VGPUWeigher`` counts beside Nova's other weighers.

The weigher gives each host a weight from 0 to 1, which is multiplied by this.
With the default the order of hosts for servers with vGPUs is decided by the
weigher, and Nova's other weighers decide between hosts that are equal for it.
0 switches the order of hosts off. Aggregate metadata of the same name replaces
the value for the hosts of an aggregate.

Related options:

* ``[filter_scheduler]weight_classes``: must have
  ``nova_vgpu.scheduler.weigher.VGPUWeigher``
""",
        ),
        *_order_options('host', 'hosts'),
        *_order_options('gpu', 'the GPUs of one host'),
        cfg.BoolOpt(
            'plain_servers_avoid_gpus',
            default=False,
            help="""
Whether servers without a vGPU prefer hosts that have no free vGPUs.

If not, ``VGPUWeigher`` gives all hosts the same weight for them.

Related options:

* ``[filter_scheduler]vgpu_weight_multiplier``
""",
        ),
    ]


def _order_options(what: str, several: str) -> list[cfg.Opt]:
    default = f'vgpu_{what}_order'
    return [
        cfg.StrOpt(
            default,
            default=values.Order.PACK.value,
            choices=[
                (
                    values.Order.PACK.value,
                    'What is in use already first, the fullest before others.',
                ),
                (
                    values.Order.SPREAD.value,
                    'What is used least first.',
                ),
            ],
            help=f"""
In which order {several} are given to servers with vGPUs.

Related options:

* ``[filter_scheduler]{default}_of_types``
""",
        ),
        cfg.Opt(
            f'{default}_of_types',
            type=types.Dict(types.String(choices=_NAMES)),
            default={},
            sample_default='A40-8Q:spread,CUSTOM_VGPU_BIG:pack',
            help=f"""
vGPU types for which {several} have another order.

A list of ``type:order``. The type is its name (``A40-8Q`` or ``NVIDIA
A40-8Q``), the trait of it, or a resource class. All others have the order of
``{default}``.

Related options:

* ``[filter_scheduler]{default}``
""",
        ),
    ]
