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

"""Kubernetes nodes as an engineer asks for them, and what is wrong with that.

Everything that is missing or invalid is found at once. What a node needs of
its driver depends on its GPUs, so that is checked when the flavor is known.
"""

from collections.abc import Iterator
import dataclasses
import enum
import re

from nova_vgpu.cloud import names
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import option_checks

DEFAULT_POOL = 'gpu'
DEFAULT_SMOKE_IMAGE = (
    'nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04'
)
#: Cluster API adds two random parts to the names of machines, which are the
#: names of servers and nodes: 63 characters at most.
LONGEST_NAME = 46

_SUBDOMAIN = re.compile(
    r'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'
)
_REFERENCE = re.compile(
    r'(?P<repository>[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?'
    r'(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*)'
    r'/(?P<image>[a-z0-9]([a-z0-9._-]*[a-z0-9])?)'
    r':(?P<version>[A-Za-z0-9_][A-Za-z0-9._-]{0,127})'
)

# What the operator adds to the tag of a driver (resolveDriverTag in its
# controllers/object_controls.go), by the distributions that it knows.
_DISTRIBUTION = re.compile(
    r'-(centos|rhcos|rhel|rocky|sles|sl-micro|ubuntu)[0-9][0-9.]*\Z'
)


class APIVersion(enum.Enum):
    """The version of the kinds of Cluster API and of its provider."""

    V1BETA1 = 'v1beta1'
    V1BETA2 = 'v1beta2'


@dataclasses.dataclass(frozen=True, slots=True)
class ImageReference:
    """An image of a container, as the GPU operator takes it: in parts."""

    repository: str
    image: str
    version: str


@dataclasses.dataclass(frozen=True, slots=True)
class DriverRequest:
    """Where the guests' driver comes from; secrets by their names only."""

    is_in_image: bool = False
    image: str | None = None
    pull_secret: str | None = None
    licence_secret: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ControlPlane:
    """Nodes of the control plane, and the flavor that they have."""

    nodes: int = 0
    flavor: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterRequest:
    """Nodes of a cluster of Cluster API.

    With ``most_nodes``, the autoscaler has between ``nodes`` and that many.
    """

    choice: node_gpus.FlavorChoice
    cluster: str | None = None
    image: str | None = None
    kubernetes_version: str | None = None
    pool: str = DEFAULT_POOL
    nodes: int = 1
    most_nodes: int | None = None
    control_plane: ControlPlane = ControlPlane()
    driver: DriverRequest = DriverRequest()
    key_name: str | None = None
    failure_domain: str | None = None
    root_volume_gib: int | None = None
    has_taint: bool = True
    smoke_image: str = DEFAULT_SMOKE_IMAGE
    api: APIVersion = APIVersion.V1BETA2

    @property
    def name(self) -> str:
        return f'{self.cluster}-{self.pool}'

    @property
    def control_plane_name(self) -> str:
        return f'{self.cluster}-control-plane'


def parse_reference(text: str) -> ImageReference | None:
    """The parts of a reference with a registry and a tag."""
    match = _REFERENCE.fullmatch(text)
    return (
        ImageReference(
            **{
                part: match[part]
                for part in ('repository', 'image', 'version')
            }
        )
        if match
        else None
    )


def find_problems(request: ClusterRequest) -> Iterator[str]:
    """What is missing or invalid, whatever the flavor is."""
    yield from find_choice_problems(request.choice)
    yield from option_checks.find_missing(
        ('--cluster', request.cluster, 'the name of the cluster'),
        ('--image', request.image, 'the image of the nodes in Glance'),
        (
            '--kubernetes-version',
            request.kubernetes_version,
            'the version in that image, for example v1.34.2',
        ),
    )
    yield from _find_bad_names(request)
    yield from _find_bad_numbers(request)
    yield from option_checks.find_version_problems(
        '--kubernetes-version', request.kubernetes_version
    )
    yield from _find_bad_references(request)


def _find_bad_references(request: ClusterRequest) -> Iterator[str]:
    for option, reference in (
        ('--driver-image', request.driver.image),
        ('--smoke-image', request.smoke_image),
    ):
        if reference is not None and parse_reference(reference) is None:
            example = 'registry.example.org/gpu/name:1'
            yield option_checks.refuse(option, reference, example)
    match = _DISTRIBUTION.search(request.driver.image or '')
    if match:
        yield (
            f'--driver-image ends in {match[0]}: leave that out, as the GPU '
            "operator adds the distribution of a node to the driver's tag."
        )


def find_choice_problems(choice: node_gpus.FlavorChoice) -> Iterator[str]:
    """What is missing or invalid of the choice of a flavor."""
    given = [
        each
        for each in (choice.flavor, choice.type, choice.passthrough)
        if each is not None
    ]
    if len(given) != 1 or not given[0]:
        yield (
            'Give either a flavor, or --type and --count, or --passthrough '
            'and --count: what the nodes are to have.'
        )
    if choice.count < 1:
        yield f'--count {choice.count} is too small: at least 1.'
    elif choice.flavor is not None and choice.count != 1:
        yield (
            '--count is for --type and --passthrough: a flavor by its name '
            'says itself how many GPUs it brings.'
        )


def find_driver_problems(
    driver: DriverRequest, gpus: node_gpus.NodeGPUs
) -> Iterator[str]:
    """What is missing or invalid for the driver of these GPUs."""
    if driver.is_in_image:
        for option, value in (
            ('--driver-image', driver.image),
            ('--pull-secret', driver.pull_secret),
            ('--licence-secret', driver.licence_secret),
        ):
            if value is not None:
                yield (
                    f'{option} is for the driver of the GPU operator: leave '
                    'it out with --driver-in-image.'
                )
        return
    if driver.pull_secret is not None and driver.image is None:
        yield '--pull-secret is for --driver-image: give that, too.'
    if gpus.is_whole:
        return
    cure = 'Or give --driver-in-image if the image of the nodes has both.'
    if driver.image is None:
        yield (
            "--driver-image is missing: an image of NVIDIA's vGPU guest "
            'driver, in your registry or, with NVIDIA AI Enterprise, in NGC. '
            f'{cure}'
        )
    if driver.licence_secret is None:
        yield (
            '--licence-secret is missing: the name of the Secret with '
            f'gridd.conf and the token of the licence server. {cure}'
        )


def _find_bad_names(request: ClusterRequest) -> Iterator[str]:
    yield from option_checks.find_label_problems(
        ('--cluster', request.cluster), ('--pool', request.pool)
    )
    for name in (request.name, request.control_plane_name):
        if request.cluster and len(name) > LONGEST_NAME:
            yield (
                f'The name {names.printable(name)} is longer than '
                f'{LONGEST_NAME} characters, and names of nodes continue it. '
                'Use a shorter --cluster or --pool.'
            )
    for option, secret in (
        ('--pull-secret', request.driver.pull_secret),
        ('--licence-secret', request.driver.licence_secret),
    ):
        if secret is not None and (
            len(secret) > 253 or not _SUBDOMAIN.fullmatch(secret)
        ):
            yield option_checks.refuse(
                option, secret, 'the name of a Secret, gpu-licence'
            )
    yield from option_checks.find_text_problems(
        ('--key-name', request.key_name),
        ('--failure-domain', request.failure_domain),
    )
    if request.pool == 'control-plane':
        yield '--pool control-plane is the name of the control plane itself.'


def _find_bad_numbers(request: ClusterRequest) -> Iterator[str]:
    control = request.control_plane
    yield from option_checks.find_size_problems(
        request.nodes, request.most_nodes, request.root_volume_gib
    )
    yield from option_checks.find_number_problems(
        ('--control-plane-nodes', control.nodes, 0)
    )
    if control.nodes > 0 and control.nodes % 2 == 0:
        yield (
            f'--control-plane-nodes {control.nodes} is even: etcd needs an '
            'odd number.'
        )
    if control.nodes > 0 and not control.flavor:
        yield '--control-plane-flavor is missing: the flavor of these nodes.'
    if control.flavor and not control.nodes:
        yield '--control-plane-nodes is missing: how many there shall be.'
