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


"""When the MIG mode of a GPU is switched, and what is done before.

::

    idle vGPUs go -> idle GPU instances go -> VFs off -> MIG mode on or off

All else is planned again after that, when the GPU shows what it has in the new
mode. Switching resets the GPU, so nothing may use it: no vGPU may be there
that stays, no server may have one, and no process may run on the GPU. What is
unknown counts as use. A server that is shut off does not matter if its vGPU
is not there and needs the new mode: some GPUs lose the mode when the host
reboots, and that vGPU comes back only after the switch.
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.reconcile import gpu_instance_steps
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_facts

_MOVE = 'Delete, resize or move that server'
_REBOOT = (
    'Reboot the host, after which MIG mode is switched before its VFs are '
    'enabled, or delete, resize or move that server'
)


@dataclasses.dataclass(frozen=True, slots=True)
class MigModeSteps:
    """The steps up to the switch, or why it is refused.

    If the GPU ``keeps_mode``, something needs the mode of now, and all else is
    done in it. If not, the GPU is left as it is until it can be switched.
    """

    steps: tuple[values.Step, ...] = ()
    refusal: values.Refusal | None = None
    keeps_mode: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class GPUUse:
    """A GPU, and all that can use it.

    ``wanted`` is the mode to switch to. ``names`` are those of types by their
    ids. ``gone`` are vGPUs that are removed before. If ``is_undoing``, what is
    only defined does not matter: it was defined before the apply, too.
    """

    gpu: values.PhysicalGPU
    modes: values.GPUModes
    usage: values.Usage
    wanted: bool
    names: Mapping[str, str]
    gone: Container[str] = frozenset()
    is_undoing: bool = False


def plan(
    of_gpu: Sequence[policies.GPUInput],
    list_removals: Callable[[], Iterable[steps.VGPUStep]],
) -> MigModeSteps | None:
    """How the GPU gets into the mode of its types; None if it stays as it is.

    :param list_removals: what becomes of idle vGPUs before; only asked if the
        mode is to be switched.
    """
    first, wanted = of_gpu[0], find_wanted(of_gpu)
    if first.assigned is None or wanted is None:
        return None
    modes = first.assigned.modes
    if modes.mig is None or modes.mig.current is wanted:
        return None
    removals = tuple(list_removals())
    use = GPUUse(
        first.gpu,
        modes,
        first.usage,
        wanted,
        first.names,
        frozenset(map(steps.vgpu_in, removals)),
    )
    user = _find_vgpu_user(use) or _find_pci_devices(of_gpu)
    refusal = user or find_use(use)
    if refusal is not None:
        return MigModeSteps(refusal=refusal, keeps_mode=user is not None)
    return MigModeSteps((*removals, *_list_steps(use)))


def find_wanted(of_gpu: Iterable[policies.GPUInput]) -> bool | None:
    """Whether all types of a GPU need MIG mode, or none does.

    None if that is unknown, or if a type is one of another model.
    """
    needs = {_needs_mig(found) for found in of_gpu}
    return needs.pop() if len(needs) == 1 else None


def find_use(use: GPUUse) -> values.Refusal | None:
    """What uses the GPU, so that its MIG mode is not switched."""
    return _find_vgpu_user(use) or _find_processes(use) or _find_instances(use)


def _needs_mig(found: policies.GPUInput) -> bool | None:
    if not found.policy.switches_mig_mode or found.assigned is None:
        return None
    declared = found.declared_name or ''
    model = capabilities.model_of(found.gpu)
    name = capabilities.complete_name(
        found.names.get(declared, declared), model
    )
    if name is None or not capabilities.may_have(found.gpu, name):
        return None
    is_listed = found.assigned.reason is values.Reason.LISTED
    if name.model != model and not (model is None and is_listed):
        return None
    return name.slices is not None


def _list_steps(use: GPUUse) -> Iterator[values.Step]:
    """Each thing that is lost has a step, so that restore knows of it."""
    gpu = use.gpu
    if use.modes.heterogeneous and gpu.vfs:
        yield values.SetHeterogeneous(str(gpu), True, False)
    if use.modes.gpu_instances is not None:
        there = use.modes.gpu_instances
        for profile in there.profiles:
            number = len(there.list_of(profile.id))
            if number:
                yield values.SetGPUInstances(
                    str(gpu), profile.id, profile.name, number, 0
                )
    if gpu.vfs:
        yield values.SetVFs(str(gpu), len(gpu.vfs), 0)
    yield values.SetMigMode(str(gpu), not use.wanted, use.wanted)


# -- what uses the GPU -------------------------------------------------------


def _find_pci_devices(
    of_gpu: Iterable[policies.GPUInput],
) -> values.Refusal | None:
    """Functions that Nova assigns: it shares no lock while it does."""
    if not any(f.assigned and f.assigned.pci_devices for f in of_gpu):
        return None
    gpu = next(iter(of_gpu)).gpu
    return _refuse(
        gpu,
        'Nova assigns functions of it as PCI devices',
        'Remove the GPU from [pci]device_spec',
    )


def _find_vgpu_user(use: GPUUse) -> values.Refusal | None:
    return _find_server(use) or _find_vgpus(use)


def _find_server(use: GPUUse) -> values.Refusal | None:
    owners, gpu = use.usage.owners, use.gpu
    here = {gpu.name, *_list_names(use)}
    for name in sorted({*here, *_list_lost(use)}):
        owner = owners.get(name)
        if owner is not None and not _comes_back(name, use):
            what = f'vGPU {steps.spell(name)}'
            is_whole, waits = name == gpu.name, _waits(name, use)
            return steps.refuse(
                str(gpu),
                'the GPU as a whole' if is_whole else what,
                owner,
                ', and MIG mode is only switched while no server uses the GPU',
                _REBOOT if waits else _MOVE,
            )
        if name in use.usage.claimed:
            return _refuse(
                gpu,
                f'{steps.spell(name)} was chosen for a server that is being '
                'started',
                'Wait until it runs, and move it',
            )
    return None


def _find_vgpus(use: GPUUse) -> values.Refusal | None:
    """vGPUs that no server has, and that are not removed before."""
    usage = use.usage
    idle = {vgpu.name for vgpu in use.gpu.all_vgpus}
    if not use.is_undoing:
        functions = vgpu_facts.list_functions(use.gpu)
        waiting = {m.uuid for m in usage.mdevs if m.parent in functions}
        waiting.update(
            name
            for name in functions
            if steps.spell(name) in usage.records.functions
        )
        idle |= {name for name in waiting if not _comes_back(name, use)}
    left = sorted(
        steps.spell(name)
        for name in idle
        if name not in use.gone and name not in usage.owners
    )
    if not left:
        return None
    return _refuse(
        use.gpu,
        f'it has vGPUs: {", ".join(left)}',
        'Remove them with "nova-vgpu device disable"',
    )


def _find_processes(use: GPUUse) -> values.Refusal | None:
    if use.modes.processes is None:
        return _refuse(
            use.gpu,
            'NVML does not tell which processes use it',
            'Run it as root, and check that "nvidia-smi" lists processes',
        )
    if not use.modes.processes:
        return None
    return _refuse(
        use.gpu,
        f'processes use it: {", ".join(map(str, use.modes.processes))}',
        'End them',
    )


def _find_instances(use: GPUUse) -> values.Refusal | None:
    if use.modes.mig is None or not use.modes.mig.current:
        return None  # it may be pending
    there = use.modes.gpu_instances
    if there is None:
        return _refuse(
            use.gpu,
            'NVML does not tell its GPU instances',
            'Run it as root, and check that "nvidia-smi mig -lgi" lists them',
        )
    removable = gpu_instance_steps.list_removable(use.gpu, use.modes, use.gone)
    stuck = [str(i.id) for i in there.instances if i.id not in removable]
    if not stuck:
        return None
    return _refuse(
        use.gpu,
        'GPU instances with these ids are in use, or perhaps in use: '
        f'{", ".join(stuck)}',
        'Remove their vGPUs, and end their processes (nvidia-smi)',
    )


def _list_names(use: GPUUse) -> set[str]:
    """All that the GPU has, had, or may have, by name."""
    functions = vgpu_facts.list_functions(use.gpu)
    usage = use.usage
    names = {*functions, *(vgpu.name for vgpu in use.gpu.all_vgpus)}
    names.update(m.uuid for m in usage.mdevs if m.parent in functions)
    names.update(
        uuid
        for uuid, record in usage.records.mdevs.items()
        if record.parent in functions
    )
    return names


def _list_lost(use: GPUUse) -> Iterator[str]:
    """mdevs of servers that may have been here, and do not fit the new mode.

    Nothing tells where they were: they were lost with a reboot, and neither
    libvirt nor a file of this project knows them.
    """
    usage, model = use.usage, capabilities.model_of(use.gpu)
    known = {mdev.uuid for mdev in usage.mdevs} | usage.records.mdevs.keys()
    for name in usage.owners:
        if name in known or values.PciAddress.parse_node_device_name(name):
            continue
        parsed = capabilities.parse_type_name(_find_type(name, use) or '')
        if parsed is None or model in (None, parsed.model):
            yield name


def _comes_back(name: str, use: GPUUse) -> bool:
    """Whether a vGPU is not there, and needs the mode to switch to.

    With VFs enabled it would lose its function now.
    """
    return not use.gpu.vfs and _waits(name, use)


def _waits(name: str, use: GPUUse) -> bool:
    """Whether a vGPU cannot be there before the mode is switched."""
    owner = use.usage.owners.get(name)
    if owner is not None and owner.running:
        return False
    if any(vgpu.name == name for vgpu in use.gpu.all_vgpus):
        return False
    parsed = capabilities.parse_type_name(_find_type(name, use) or '')
    return parsed is not None and (parsed.slices is not None) is use.wanted


def _find_type(name: str, use: GPUUse) -> str | None:
    """The name of the type of a vGPU that is not there, if it is known."""
    usage = use.usage
    for mdev in usage.mdevs:
        if mdev.uuid == name:
            return vgpu_facts.type_of(mdev, usage, use.names).name
    if name in usage.notes:
        return usage.notes[name].type_name
    if name in usage.records.mdevs:
        return usage.records.mdevs[name].type
    return usage.records.functions.get(steps.spell(name))


def _refuse(
    gpu: values.PhysicalGPU, because: str, cure: str
) -> values.Refusal:
    return values.Refusal(
        str(gpu),
        f'GPU {gpu}: MIG mode is not switched, which resets the GPU: '
        f'{because}.',
        f'{cure}, then run it again.',
    )
