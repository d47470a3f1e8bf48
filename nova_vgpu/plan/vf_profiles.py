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

"""VF profiles: what each virtual function of a GPU gets.

Where the kernel provisions virtual functions, a GPU has no types. An operator
declares a VF profile: ``B60-1of4`` for four equal functions, which the driver
provisions, ``B60-6G`` for as many as have 6 GiB each. A GPU whose functions
are provisioned as declared has that profile as its type, and every function is
a vGPU of it. Otherwise ``apply`` provisions them first, or the operator does
(:mod:`nova_vgpu.plan.fixed_vfs`).
"""

from collections.abc import Iterator
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import vendors
from nova_vgpu.plan import fixed_vfs
from nova_vgpu.plan import readiness
from nova_vgpu.plan import vf_profile_options

#: What apply does away with.
OBSTACLES = frozenset({'not-provisioned'})

_APPLY = 'Run "nova-vgpu apply", which provisions them.'
#: A driver rounds a quota up to what the hardware can do.
_ROUNDING_MIB = 64
#: And times either way, by less than this part of them.
_ROUNDING_PART = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """How the VFs of a GPU are to be provisioned.

    ``vram_mib`` is 0 if the driver chooses; ``scheduling`` has what is set,
    by the names of fields of :class:`nova_vgpu.values.VFProfiles`.
    ``partition`` is None if any will do.
    """

    name: str
    vfs: int
    vram_mib: int
    scheduling: tuple[tuple[str, int], ...]
    partition: str | None = None


def find_wanted(
    placed: values.Assignment,
) -> Wanted | readiness.Obstacle | None:
    """How the VFs of a GPU are to be provisioned, or why they cannot be.

    None if the GPU is of another vendor, or no VF profile is declared.
    """
    gpu, declared = placed.gpu, placed.declared
    profile = capabilities.parse_vf_profile(declared.name)
    made_by = capabilities.vendor_of(gpu)
    if profile is None or made_by is None:
        return None
    if capabilities.vendor_of_type(declared.name) is not made_by:
        return None
    number = _find_misfit(placed, profile) or _count_vfs(placed, profile)
    if isinstance(number, readiness.Obstacle):
        return number
    model = capabilities.model_of(gpu) or profile.model
    return Wanted(
        dataclasses.replace(profile, model=model).name,
        number,
        profile.vram_mib or 0,
        tuple(vf_profile_options.list_scheduling(declared)),
        (declared.partition or '').upper() or None
        if fixed_vfs.is_fixed(gpu)
        else None,
    )


def add_vgpus(placed: values.Assignment) -> values.Assignment:
    """The same, with vGPUs if its VFs are provisioned as declared."""
    gpu = placed.gpu
    wanted = find_wanted(placed)
    if not isinstance(wanted, Wanted):
        return placed
    if len(gpu.vfs) != wanted.vfs or not has_quotas(gpu, wanted):
        return placed
    if not fixed_vfs.has_partition(gpu, wanted.partition):
        return placed
    shown = gpu.vf_profiles.vram_mib[: wanted.vfs] if gpu.vf_profiles else ()
    profile = values.VGPUType(
        wanted.name,
        facts=values.TypeFacts(
            wanted.vram_mib or min(shown, default=0) or None, wanted.vfs
        ),
    )
    vfs = tuple(
        dataclasses.replace(vf, vgpus=(values.VGPU(vf.name, profile.id),))
        for vf in gpu.vfs
    )
    return dataclasses.replace(
        placed, gpu=dataclasses.replace(gpu, vfs=vfs, named_types=(profile,))
    )


def find_obstacle(placed: values.Assignment) -> readiness.Obstacle | None:
    """Why VFs are not provisioned as declared; None if they are."""
    gpu = placed.gpu
    wanted = find_wanted(placed)
    if not isinstance(wanted, Wanted):
        return wanted
    if gpu.named_types:
        return None
    if fixed_vfs.is_fixed(gpu):
        return fixed_vfs.find_obstacle(placed, wanted.vfs, wanted.partition)
    if not gpu.vfs:
        total = gpu.sriov.total if gpu.sriov else 0
        finding = f'its VFs are not enabled (0 of {total})'
    else:
        finding = (
            f'its VFs are provisioned otherwise: it has {len(gpu.vfs)}'
            f'{_describe_quotas(gpu)} and is to have {wanted.vfs}'
        )
        if wanted.vram_mib:
            finding += f' of {wanted.vram_mib} MiB'
    return _obstacle('not-provisioned', finding, _APPLY)


def has_quotas(gpu: values.PhysicalGPU, wanted: Wanted) -> bool:
    """Whether the enabled virtual functions have the memory that is wanted."""
    vf_profiles = gpu.vf_profiles or values.VFProfiles()
    shown = vf_profiles.vram_mib[: wanted.vfs]
    if not wanted.vram_mib:
        return len(set(shown)) <= 1
    return all(0 <= found - wanted.vram_mib < _ROUNDING_MIB for found in shown)


def list_unset(
    gpu: values.PhysicalGPU, wanted: Wanted
) -> Iterator[tuple[str, int, int]]:
    """The scheduling that is not as wanted: what it is now, and is to be."""
    for name, number in wanted.scheduling:
        for found in getattr(gpu.vf_profiles, name)[: wanted.vfs]:
            # The hardware may not have exactly this number.
            if abs(found - number) * _ROUNDING_PART > number:
                yield name, found, number
                break


def _obstacle(code: str, finding: str, cure: str) -> readiness.Obstacle:
    """An obstacle, which is an error of its GPU (values.Severity.ERROR)."""
    return readiness.Obstacle(code, finding, cure)


def _find_misfit(
    placed: values.Assignment, profile: vendors.VFProfile
) -> readiness.Obstacle | None:
    """Why a GPU cannot have a VF profile, or not as it is declared."""
    gpu, declared, count = placed.gpu, placed.declared, profile.count
    listed = declared.option('device_addresses')
    made_by = capabilities.vendor_of(gpu)
    if gpu.vf_profiles is None or gpu.sriov is None:
        own = made_by.vf_driver if made_by else None
        return _obstacle(
            'vf-profile-unsupported',
            f'its driver, {gpu.driver or "none"}, does not provision VFs',
            f'Bind it to its own driver, {own}.',
        )
    model = capabilities.model_of(gpu)
    if model and model.casefold() != profile.model.casefold():
        return _obstacle(
            'type-not-offered',
            f'it is of model {model}',
            f'Remove its address from {listed}.',
        )
    if placed.share is not None:
        others = ', '.join(each.declared.name for each in placed.beside)
        return _obstacle(
            'vf-profile-unsupported',
            f'its VFs have one profile, and {others} is declared for it, too',
            'List it under one type.',
        )
    if count is not None and placed.listed_share not in (None, count):
        return _obstacle(
            'vf-profile-count',
            f'{placed.listed_share} is written with its address, and all of '
            f'{count} VFs are served',
            f'Remove the number from {listed}.',
        )
    return _find_unsupported(placed, gpu.vf_profiles, profile.vram_mib)


def _find_unsupported(
    placed: values.Assignment,
    vf_profiles: values.VFProfiles,
    vram_mib: int | None,
) -> readiness.Obstacle | None:
    declared = placed.declared
    if vram_mib is not None and not vf_profiles.vram_mib:
        return _obstacle(
            'vf-profile-unsupported',
            'its driver has no quotas of memory, which need a discrete GPU '
            'and Linux 7.0 or later',
            'Declare equal VFs, such as 1of4, instead.',
        )
    if vf_profiles.partitions is not None:
        return None
    for name, _ in vf_profile_options.list_scheduling(declared):
        if not getattr(vf_profiles, name):
            return _obstacle(
                'vf-profile-unsupported',
                f'its driver does not show {name}, which needs Linux 6.19 or '
                'later',
                f'Remove {declared.option(name)}.',
            )
    return None


def _count_vfs(
    placed: values.Assignment, profile: vendors.VFProfile
) -> int | readiness.Obstacle:
    """How many VFs a profile means, or why the GPU cannot have them."""
    gpu, declared = placed.gpu, placed.declared
    number = profile.count or _count_quotas(placed, profile.vram_mib or 0)
    if number is None:
        return _obstacle(
            'vf-profile-count',
            'the memory of its model is not known, and so it is not known '
            'how many quotas fit',
            f'Set {declared.option("max_instances")} to their number.',
        )
    total = gpu.sriov.total if gpu.sriov else 0
    if not 0 < number <= total:
        return _obstacle(
            'vf-profile-count',
            f'it would have {number} VFs, and has {total} at most',
            'Declare another VF profile.',
        )
    model = capabilities.model_of(gpu) or profile.model
    return fixed_vfs.find_impossible(gpu, model, number) or number


def _count_quotas(placed: values.Assignment, vram_mib: int) -> int | None:
    """How many quotas a GPU has room for; the GPU itself needs some memory."""
    gpu, declared = placed.gpu, placed.declared
    written = placed.listed_share or declared.max_instances
    if written is not None:
        return written
    made_by = capabilities.vendor_of(gpu)
    memory = made_by.vram_mib(gpu.ids) if made_by and gpu.ids else None
    return None if memory is None else (memory - 1) // vram_mib


def _describe_quotas(gpu: values.PhysicalGPU) -> str:
    shown = gpu.vf_profiles.vram_mib[: len(gpu.vfs)] if gpu.vf_profiles else ()
    sizes = sorted(set(shown))
    return f' of {" and ".join(map(str, sizes))} MiB' if sizes else ''
