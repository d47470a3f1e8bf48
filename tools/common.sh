# shellcheck shell=bash
#
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

# What tools/demo.sh and tools/test.sh have in common: system packages from
# bindep.txt and virtual environments inside the checkout. To be sourced by a
# script that runs with "set -euo pipefail".

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
PYTHON_MINIMUM=3.11

die() {
    printf '%s: %s\n' "$0" "$*" >&2
    exit 1
}

# step TITLE: begin a step; the one before is over.
STEP_BEGAN=
step() {
    step_done
    printf '==> %s\n' "$*"
    STEP_BEGAN=$SECONDS
}

step_done() {
    if [[ -n $STEP_BEGAN ]]; then
        printf '    took %d s\n' $((SECONDS - STEP_BEGAN))
    fi
    STEP_BEGAN=
}

python_is_new_enough() {
    "$1" -c "import sys; sys.exit(sys.version_info < (${PYTHON_MINIMUM/./, }))" \
        2>/dev/null
}

# Set PYTHON to an interpreter that will do: the caller's choice if there is
# one, else python3, else the newest of the versioned names.
find_python() {
    local candidate
    if [[ -n ${PYTHON:-} ]]; then
        python_is_new_enough "$PYTHON" ||
            die "PYTHON=$PYTHON is not Python $PYTHON_MINIMUM or newer."
        return
    fi
    for candidate in python3 python3.{14,13,12,11}; do
        if python_is_new_enough "$candidate"; then
            PYTHON=$candidate
            return
        fi
    done
    die "Python $PYTHON_MINIMUM or newer is needed, but python3 is" \
        "$(python3 --version 2>/dev/null || echo 'not installed')." \
        "Install it, or say where it is: PYTHON=/path/to/python3 $0"
}

# bindep_packages PROFILE: the Debian packages that bindep.txt names for it.
bindep_packages() {
    awk -v profile="$1" '
        { sub(/#.*/, "") }
        match($0, /\[.*\]/) {
            count = split(substr($0, RSTART + 1, RLENGTH - 2), words, " ")
            platform = wanted = 0
            for (i = 1; i <= count; i++) {
                if (words[i] == "platform:dpkg") platform = 1
                if (words[i] == profile) wanted = 1
            }
            if (platform && wanted) print $1
        }
    ' "$ROOT/bindep.txt"
}

package_is_there() {
    local status
    status=$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) || true
    if [[ $status == installed ]]; then
        return 0
    fi
    # An interpreter or a Node.js that is not Debian's may bring these along.
    case $1 in
        npm)
            command -v npm >/dev/null
            ;;
        python3-venv)
            "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null
            ;;
        python3-dev)
            "$PYTHON" -c '
import os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not os.path.exists(header))'
            ;;
        *)
            return 1
            ;;
    esac
}

# system_packages PROFILE: install those that are missing.
system_packages() {
    local package missing=() as_root=()
    step "system packages"
    if ! command -v dpkg-query >/dev/null; then
        echo "    not checked: this is not Debian; see bindep.txt"
        return
    fi
    for package in $(bindep_packages "$1"); do
        package_is_there "$package" || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        echo "    nothing is missing"
        return
    fi
    echo "    missing: ${missing[*]}"
    if ((EUID != 0)); then
        command -v sudo >/dev/null ||
            die "these packages are missing, and there is no sudo." \
                "As root, run: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    as_root+=(env DEBIAN_FRONTEND=noninteractive)
    if ! { "${as_root[@]}" apt-get -qq update &&
        "${as_root[@]}" apt-get -qq -y --no-install-recommends \
            -o Dpkg::Use-Pty=0 install "${missing[@]}" >/dev/null; }; then
        die "apt-get failed. As root, run: apt-get install ${missing[*]}"
    fi
}

has_commit() {
    git -C "$ROOT" rev-parse --verify --quiet HEAD >/dev/null 2>&1
}

# pbr asks git for the version; without git it must be told one.
version_without_git() {
    if ! has_commit && [[ ! -e $ROOT/PKG-INFO ]]; then
        export PBR_VERSION=${PBR_VERSION:-0.0.0}
    fi
}

# virtualenv DIRECTORY REQUIREMENT...: make the environment and install into
# it, unless an earlier run did the same from the same files.
virtualenv() {
    local directory=$ROOT/$1 stamp key
    shift
    stamp=$directory/.nova-vgpu-stamp
    key=$(
        cd "$ROOT" || exit
        {
            printf '%s\n' "$directory" "$@"
            "$PYTHON" -c 'import sys; print(sys.base_prefix, sys.version)'
            cat setup.cfg setup.py pyproject.toml requirements.txt \
                constraints.txt
        } | sha256sum
    )
    step "Python packages in ${directory#"$ROOT"/}"
    if [[ -e $stamp && $(<"$stamp") == "$key" ]] &&
        "$directory/bin/python" -c '' 2>/dev/null; then
        echo "    up to date"
        return
    fi
    if [[ (-e $directory || -L $directory) && ! -e $stamp ]]; then
        die "$directory is there, but this script did not make it." \
            "Move it out of the way."
    fi
    rm -rf "$directory"
    mkdir "$directory"
    echo incomplete >"$stamp"
    "$PYTHON" -m venv "$directory"
    (
        cd "$ROOT" || exit
        "$directory/bin/python" -m pip --disable-pip-version-check install \
            --quiet -c constraints.txt "$@"
    )
    printf '%s\n' "$key" >"$stamp"
}
