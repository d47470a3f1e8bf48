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

"""GPU instances, into which a GPU in MIG mode is divided."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class MigType:
    """A type that is backed by MIG, and the GPU instances that have it.

    ``profile`` is the name of their profile, ``1g.10gb``, and ``profile_id``
    its number for nvidia-smi. ``instances`` of it exist on the GPU; each has
    up to ``vgpus`` vGPUs of the type, None if that is unknown.
    """

    type_id: str
    name: str | None
    profile_id: int
    profile: str
    instances: int
    vgpus: int | None = None
