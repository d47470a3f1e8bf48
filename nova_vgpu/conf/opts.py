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

"""Every option, for ``oslo-config-generator`` and the documentation."""

from oslo_config import cfg

from nova_vgpu.conf import devices


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """The options by group; the dynamic groups with a placeholder as name."""
    example = cfg.OptGroup(
        f'{devices.GROUP_PREFIX}<type>',
        title='One vGPU type',
        help="""
One section for each type of ``[devices]enabled_vgpu_types``, with the type in
the section's name as it is written there: ``[vgpu_nvidia-558]``,
``[vgpu_A40-2Q]`` or ``[vgpu_NVIDIA A40-2Q]``. ``[mdev_<type>]``, Nova's name
for such a section, is read too.
""",
    )
    return [
        (devices.devices_group(), devices.device_options()),
        (example, devices.type_options('<type>')),
    ]
