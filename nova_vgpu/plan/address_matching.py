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

"""Which GPU each address of the configuration means.

Addresses may be those of GPUs or of their virtual functions, also of functions
that are not enabled at the moment: hardware that is not ready is not the
operator's mistake. Nor is an address that this host had before: that GPU
failed. Every other unknown address is a mistake.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import typos

#: Routing ids between a GPU and its first VF: at most one bus.
_FARTHEST_FIRST_VF = 256


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """An address of the configuration, and the GPU that it means.

    ``function`` is the node device name of a listed VF, or None for the whole
    GPU. ``share`` is the number of vGPUs that is written with it.
    """

    declared: values.DeclaredType
    written: str
    gpu: values.PhysicalGPU
    function: str | None = None
    share: int | None = None


def find_claims(
    types: Iterable[values.DeclaredType],
    host: values.Host,
    seen: frozenset[str] = frozenset(),
) -> tuple[tuple[Claim, ...], tuple[values.Problem, ...]]:
    """Every match, and the problems of addresses.

    :param seen: stored addresses of GPUs of this host.
    """
    index = _Index(host, seen)
    faulty = frozenset(fault.device for fault in host.faults)
    claims: list[Claim] = []
    problems: list[values.Problem] = []
    for declared in types:
        for listed in declared.listed:
            found = index.find(declared, listed.address)
            if isinstance(found, Claim):
                claimed = dataclasses.replace(
                    found, written=listed.written, share=listed.share
                )
                claims.append(claimed)
                problems.extend(_check_share(claimed, listed))
                problems.extend(_vf_problem(claimed, faulty))
            else:
                problems.append(found)
    return tuple(claims), (*problems, *_find_conflicts(claims))


def list_seen(
    before: frozenset[str],
    types: Sequence[values.DeclaredType],
    host: values.Host,
) -> frozenset[str]:
    """The declared addresses of GPUs of this host, now or before."""
    claimed, _ = find_claims(types, host)
    now = _parse_all(
        values.ListedAddress.parse(claim.written).address for claim in claimed
    )
    return now | (before & list_addresses(types))


def list_addresses(types: Iterable[values.DeclaredType]) -> frozenset[str]:
    """The PCI addresses that are declared."""
    return _parse_all(
        listed.address for declared in types for listed in declared.listed
    )


def _parse_all(texts: Iterable[str]) -> frozenset[str]:
    """The PCI addresses among these, normalised."""
    found = set()
    for text in texts:
        with contextlib.suppress(values.MalformedAddress):
            found.add(str(values.PciAddress.parse(text)))
    return frozenset(found)


def _check_share(
    claim: Claim, listed: values.ListedAddress
) -> Iterator[values.Problem]:
    """Whether the number that is written with an address is one."""
    if listed.has_invalid_share:
        yield _fatal(
            claim.declared,
            'invalid-share',
            f'{listed.written!r} does not give a number of vGPUs',
            f'Write {listed.address}=N with N from 1 to 9999.',
        )
    elif listed.share is not None and claim.function is not None:
        yield _fatal(
            claim.declared,
            'invalid-share',
            f'{listed.written!r} gives a number with a virtual function, '
            'which has one vGPU at most',
            f'Write {listed.address}, or {claim.gpu}={listed.share} for the '
            'GPU.',
        )


def list_conflicts(of_gpu: Sequence[Claim]) -> tuple[Claim, ...]:
    """The entries that keep a GPU from serving more than one type.

    Several types can share it if each entry is for a part of its own: the GPU
    with a number, or virtual functions that no other type lists.
    """
    if len({claim.declared.name for claim in of_gpu}) < 2:
        return ()
    types: dict[str, set[str]] = {}
    for claim in of_gpu:
        if claim.function is not None:
            types.setdefault(claim.function, set()).add(claim.declared.name)
    return tuple(
        claim
        for claim in of_gpu
        if (claim.function is None and claim.share is None)
        or (claim.function is not None and len(types[claim.function]) > 1)
    )


def _find_conflicts(claims: Iterable[Claim]) -> Iterator[values.Problem]:
    """Problems of GPUs with more than one entry."""
    by_gpu: dict[str, list[Claim]] = {}
    for claim in claims:
        by_gpu.setdefault(claim.gpu.name, []).append(claim)
    for of_gpu in by_gpu.values():
        if list_conflicts(of_gpu):
            yield _under_two_types(of_gpu)
        by_type: dict[str, list[Claim]] = {}
        for claim in of_gpu:
            by_type.setdefault(claim.declared.name, []).append(claim)
        for of_type in by_type.values():
            if len(of_type) > 1 and any(claim.share for claim in of_type):
                yield _more_than_a_number(of_type)


def _under_two_types(of_gpu: Sequence[Claim]) -> values.Problem:
    gpu = of_gpu[0].gpu
    written = '; '.join(
        f'{claim.declared.option("device_addresses")} has {claim.written}'
        for claim in of_gpu
    )
    names = (claim.declared.name for claim in of_gpu)
    if all(map(capabilities.parse_vf_profile, names)):
        cure = 'Its VFs have one profile: list it under one type.'
    else:
        cure = (
            'Write at each how many vGPUs of the type it is to serve: '
            f'{gpu}=N.'
        )
        if any(claim.function for claim in of_gpu):
            cure += ' Or list different virtual functions under each type.'
        cure += ' If it is to serve one type, list it under that type only.'
    return values.Problem(
        values.Severity.FATAL,
        'gpu-under-two-types',
        str(gpu),
        f'GPU {gpu} is listed under more than one type: {written}.',
        cure,
    )


def _more_than_a_number(of_type: Sequence[Claim]) -> values.Problem:
    first = of_type[0]
    return _fatal(
        first.declared,
        'invalid-share',
        f'GPU {first.gpu} is listed with a number and once more: '
        f'{", ".join(claim.written for claim in of_type)}',
        f'List it once: {first.gpu}=N.',
    )


class _Index:
    """The host's functions by address."""

    def __init__(self, host: values.Host, seen: frozenset[str]) -> None:
        self._host = host
        self._seen = seen
        self._by_name = {gpu.name: gpu for gpu in host.gpus}
        self._gpus: dict[values.PciAddress, values.PhysicalGPU] = {}
        self._vfs: dict[values.PciAddress, values.PhysicalGPU] = {}
        for gpu in host.gpus:
            if gpu.address is None:
                continue
            self._gpus[gpu.address] = gpu
            self._vfs.update((vf.address, gpu) for vf in gpu.vfs)
            for address in (
                gpu.sriov.addresses(gpu.address) if gpu.sriov else ()
            ):
                self._vfs.setdefault(address, gpu)

    def find(
        self, declared: values.DeclaredType, written: str
    ) -> Claim | values.Problem:
        parent = self._by_name.get(written)
        if parent is not None and parent.address is None:
            return Claim(declared, written, parent)
        try:
            address = values.PciAddress.parse(written)
        except values.MalformedAddress:
            return self._malformed(declared, written)
        if address in self._gpus:
            return Claim(declared, written, self._gpus[address])
        device = address.node_device_name
        other = address in self._host.other_functions
        if address in self._vfs and not other:
            # Also one with a fault: its GPU is known.
            return Claim(declared, written, self._vfs[address], device)
        if any(fault.device == device for fault in self._host.faults):
            return _unreadable(declared, written)
        nearest_gpu = self._nearest(str(address))
        was_here = str(address) in self._seen
        if other and was_here:
            return _gone(
                declared, written, 'and another device is at this address now'
            )
        if other:
            finding = f'{written} is not a GPU'
            return _fatal(declared, 'not-a-gpu', finding, nearest_gpu)
        for gpu in self._host.gpus:
            if _may_have_vf(gpu, address):
                return Claim(declared, written, gpu, device)
        if was_here:
            return _gone(declared, written, 'and is missing now')
        finding = f'this host has no device {written}'
        return _fatal(declared, 'not-on-host', finding, nearest_gpu)

    def _malformed(
        self, declared: values.DeclaredType, written: str
    ) -> values.Problem:
        meant = [gpu for gpu in self._host.gpus if gpu.name == written]
        hint = (
            f'Write it as {meant[0]}.'
            if meant
            else typos.find_list_cure(written) or self._nearest(written)
        )
        return _fatal(
            declared,
            'malformed-address',
            f'{written!r} is not a PCI address',
            hint,
        )

    def _nearest(self, text: str) -> str:
        """The cure: a similar address, and the GPUs of the host."""
        there = [
            str(gpu) for gpu in self._host.gpus if not gpu.is_other_device
        ]
        if not there:
            return 'This host has no GPUs.'
        # Operators often omit the domain, or the function.
        close = typos.find_nearest(text, there) or typos.find_nearest(
            f'0000:{text}.0', there
        )
        meant = f'Did you mean {close}? ' if close else ''
        return f'{meant}The GPUs of this host: {", ".join(there)}.'


def _may_have_vf(gpu: values.PhysicalGPU, address: values.PciAddress) -> bool:
    """Whether a disabled VF could have this address, if that is unknown.

    libvirt does not show the addresses of disabled VFs, nor does some
    hardware: they are after the GPU, on its bus or the next one.
    """
    if gpu.address is None or gpu.sriov is None or gpu.vfs:
        return False
    distance = address.routing_id - gpu.address.routing_id
    return (
        gpu.sriov.offset is None
        and address.domain == gpu.address.domain
        and 0 < distance <= _FARTHEST_FIRST_VF + gpu.sriov.total
    )


def _fatal(
    declared: values.DeclaredType, code: str, finding: str, cure: str
) -> values.Problem:
    option = declared.option('device_addresses')
    return values.Problem(
        values.Severity.FATAL, code, option, f'{option}: {finding}.', cure
    )


def _gone(
    declared: values.DeclaredType, written: str, what_now: str
) -> values.Problem:
    option = declared.option('device_addresses')
    return values.Problem(
        values.Severity.ERROR,
        'gpu-gone',
        option,
        f'{option}: {written} was a GPU of this host, {what_now}.',
        "See the kernel's log and lspci: the card or its slot may have "
        'failed. If it was removed, remove its address, too.',
    )


def _unreadable(declared: values.DeclaredType, written: str) -> values.Problem:
    option = declared.option('device_addresses')
    return values.Problem(
        values.Severity.ERROR,
        'listed-but-unreadable',
        option,
        f'{option}: {written} is on this host but could not be read.',
        'See the problem about the device itself.',
    )


def _vf_problem(
    claim: Claim, faulty: frozenset[str]
) -> Iterator[values.Problem]:
    """A listed VF that is not enabled or not read; once per address."""
    enabled = {vf.name for vf in claim.gpu.vfs}
    if claim.function is None or claim.function in enabled:
        return
    if claim.function in faulty:
        yield _unreadable(claim.declared, claim.written)
        return
    option = claim.declared.option('device_addresses')
    yield values.Problem(
        values.Severity.ERROR,
        'vf-not-enabled',
        str(claim.gpu),
        f'{option}: {claim.written} is a virtual function of GPU {claim.gpu} '
        'that is not enabled.',
        "Enable the GPU's virtual functions, or list the GPU itself.",
    )
