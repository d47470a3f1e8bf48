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

"""A program in a root directory whose changes are kept apart from it."""

#: For a shell in a mount namespace of its own: the options of the overlay, the
#: directory to mount it on, and the program. No other process sees the mounts,
#: and they end with the last process.
RUN_IN_OVERLAY = """\
set -e
mount -t overlay overlay -o "$1" "$2"
mount -t proc proc "$2/proc"
mount --rbind /dev "$2/dev"
shift
exec chroot "$@"
"""
