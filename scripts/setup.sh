#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what building and testing need on Debian or Ubuntu, and nothing that is there already:
#   - packages, with apt-get, as root or through sudo;
#   - LibTorch, as the pinned PyTorch wheel in .venv: without a GPU only the wheel and the two
#     libraries that its CPU part needs; with one, or with REPRISE_FULL=1, all that it depends on;
#   - clang-format 14.
# Set LibTorch_ROOT to a LibTorch of your own, and none is fetched.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.15.0
light_wheels=("torch==$torch_version" "nvidia-cuda-runtime==13.2.*" "nvidia-cuda-cupti==13.2.*")
packages=(g++ make cmake ninja-build ccache git python3 python3-venv zlib1g-dev
  libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev libbenchmark-dev libxxhash-dev libblosc-dev
  liburing-dev libstb-dev)
venv=.venv

say() { echo "setup: $*"; }

fail() {
  echo "setup: cannot $1" >&2
  echo "hint: $2" >&2
  exit 1
}

# --- packages --------------------------------------------------------------------------------

as_root() {
  if ((EUID == 0)); then
    "$@"
  else
    sudo "$@"
  fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null; }

missing_packages() {
  local states package
  # Fails when a package is unknown, and still prints the others.
  states=$(dpkg-query -W -f '${Package}=${db:Status-Status}\n' "${packages[@]}" 2>/dev/null) || true
  for package in "${packages[@]}"; do
    grep -qxF "$package=installed" <<<"$states" || echo "$package"
  done
}

install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "no apt-get here: packages are left to you (${packages[*]})"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0

  say "installing packages: ${missing[*]}"
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    fail "install packages: neither root nor sudo" "as root: apt-get install ${missing[*]}"
  fi
  apt update || fail "read the package lists" "see apt-get's message above; is the network there?"
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "install packages" "see apt-get's message above; by hand: apt-get install ${missing[*]}"
}

# --- LibTorch --------------------------------------------------------------------------------

gpu_present() { [[ -e /dev/nvidiactl || -e /proc/driver/nvidia/version ]]; }

# A distribution is installed once pip has written its RECORD.
installed() { compgen -G "$venv/lib/python3*/site-packages/$1.dist-info/RECORD" >/dev/null; }

light_installed() {
  installed "torch-$torch_version" && installed "nvidia_cuda_runtime-13.2.*" &&
    installed "nvidia_cuda_cupti-13.2.*"
}

full_stamp="$venv/.reprise-full-$torch_version"
full_installed() { installed "torch-$torch_version" && [[ -f "$full_stamp" ]]; }

# The wheel exists for Python 3.11 and newer.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    if [[ -n "$candidate" ]] && command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  fail "find Python 3.11 or newer" "install one, or set LibTorch_ROOT to a LibTorch that you have"
}

make_venv() {
  if [[ -x "$venv/bin/python" ]] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    return
  fi
  local python
  python=$(find_python) || exit 1
  say "making the Python environment $venv"
  "$python" -m venv --clear "$venv" >/dev/null ||
    fail "make the Python environment $venv" "is the folder writable, and python3-venv installed?"
}

pip_install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" </dev/null
}

install_libtorch() {
  if [[ -n "${LibTorch_ROOT:-}" ]]; then
    [[ -d "$LibTorch_ROOT" ]] ||
      fail "use LibTorch_ROOT: '$LibTorch_ROOT' is no folder" "name an existing LibTorch, or unset it"
    say "LibTorch is yours, in $LibTorch_ROOT"
    return
  fi

  local network_hint="see pip's message above; or set LibTorch_ROOT to a LibTorch that you have"
  if [[ "${REPRISE_FULL:-0}" == 1 ]] || { [[ -z "${REPRISE_FULL:-}" ]] && gpu_present; }; then
    full_installed && return
    make_venv
    say "installing torch $torch_version with its GPU libraries (5.4 GB, some minutes)"
    pip_install "torch==$torch_version" || fail "install torch==$torch_version" "$network_hint"
    touch "$full_stamp"
  else
    light_installed && return
    make_venv
    say "installing torch $torch_version, CPU only (1.3 GB)"
    pip_install --no-deps "${light_wheels[@]}" ||
      fail "install torch==$torch_version" "$network_hint"
  fi
}

# --- formatter -------------------------------------------------------------------------------

# Building and testing do without it, so a machine that has none is no failure.
install_formatter() {
  if command -v clang-format-14 >/dev/null || [[ -x "$venv/bin/clang-format" ]]; then
    return
  fi
  say "installing clang-format 14"
  if apt-cache show clang-format-14 >/dev/null 2>&1 &&
    apt install -y --no-install-recommends clang-format-14 >/dev/null; then
    return
  fi
  make_venv
  pip_install clang-format==14.0.6 || say "no clang-format 14: 'make format' and 'make lint' need it"
}

install_packages
install_libtorch
install_formatter
say "ready"
