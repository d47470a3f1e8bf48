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

"""NVIDIA's device plugin for Kubernetes, as a static Pod of a node.

The kubelet starts it from a file, without the API server. After NVIDIA's
deployments/static/nvidia-device-plugin.yml: namespace, priority, security
context, and the directory of the kubelet with its socket. Two things differ:

* No toleration: taints with NoSchedule are for the scheduler, which static
  Pods do not pass, and the kubelet adds one for NoExecute itself.
* FAIL_ON_INIT_ERROR is not set: the plugin then ends where there is no driver
  yet, and the kubelet starts it again, instead of waiting forever.
"""

from collections.abc import Iterator
import json
import re

#: The cluster deploys it: the GPU operator, or a DaemonSet.
NOT_HERE = 'none'
MANIFEST = '/etc/kubernetes/manifests/nvidia-device-plugin.yaml'
MODE = 0o600

# The grammar of github.com/distribution/reference, with a tag or a digest.
_HOST = r'[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?'
_REGISTRY = rf'{_HOST}(?:\.{_HOST})*(?::[0-9]{{1,5}})?'
_NAME = r'[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*'
_IMAGE = re.compile(
    rf'(?:{_REGISTRY}/)?{_NAME}(?:/{_NAME})*'
    r'(?:(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})(?:@sha256:[0-9a-f]{64})?'
    r'|@sha256:[0-9a-f]{64})'
)
_LONGEST = 512

_TEXT = """\
apiVersion: v1
kind: Pod
metadata:
  name: nvidia-device-plugin
  namespace: kube-system
  labels:
    app.kubernetes.io/name: nvidia-device-plugin
spec:
  priorityClassName: system-node-critical
  containers:
    - name: nvidia-device-plugin
      image: {image}
      securityContext:
        allowPrivilegeEscalation: false
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: device-plugins
          mountPath: /var/lib/kubelet/device-plugins
  volumes:
    - name: device-plugins
      hostPath:
        path: /var/lib/kubelet/device-plugins
        type: Directory
"""


def find_problems(image: str | None, is_needed: bool) -> Iterator[str]:
    """What is missing or wrong; ``is_needed`` on nodes of a GPU cluster."""
    if image is None and is_needed:
        yield (
            "Where the node of a GPU cluster has NVIDIA's device plugin from "
            'is not known. Give --device-plugin: its image, or none if the '
            'cluster deploys it.'
        )
    if image is None or image == NOT_HERE:
        return
    if len(image) > _LONGEST or not _IMAGE.fullmatch(image):
        yield (
            f'--device-plugin {image!r} is neither none nor an image with '
            'its tag or digest, such as '
            'nvcr.io/nvidia/k8s-device-plugin:v0.17.1.'
        )


def make_manifest(image: str) -> bytes:
    """The file for the kubelet; the image must not have problems."""
    return _TEXT.format(image=json.dumps(image)).encode('ascii')
