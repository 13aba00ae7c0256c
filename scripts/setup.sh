#!/usr/bin/env bash
# Install the system packages that a build with every engine and its tests need, when this machine lacks them.
#
#   scripts/setup.sh           install what is missing; quick and silent when nothing is
#   scripts/setup.sh --check   only say what is missing (exit 1 when something is)
#
# Packages come from Debian or Ubuntu through apt-get, as root or with sudo. Elsewhere, or without the right, it says which
# packages are missing and the command that installs them. It works with nothing but HOME and PATH in the environment.
set -uo pipefail
export PATH="${PATH:-/usr/bin:/bin}:${HOME:-}/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
export LC_ALL=C

check_only=false
case "${1:-}" in
  '') ;;
  --check) check_only=true ;;
  *) echo "usage: scripts/setup.sh [--check]" >&2; exit 2 ;;
esac

if ! command -v cargo >/dev/null; then
  echo "setup: Rust is missing: install rustup (a package of recent Debian and Ubuntu), then run this again" >&2
  exit 1
fi

# A library counts as there when a program that includes its header links against it: however it was installed.
links() { # header library
  printf '#include <stddef.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <%s>\nint main(void) { return 0; }\n' "$1" |
    cc -x c - -o /dev/null "-l$2" >/dev/null 2>&1
}

missing() {
  command -v cc >/dev/null || echo gcc libc6-dev
  if ! command -v cc >/dev/null; then
    # No compiler to ask with: ask the package database.
    for package in librocksdb-dev libleveldb-dev libtkrzw-dev libwiredtiger-dev; do
      dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
    done
  else
    links rocksdb/c.h rocksdb || echo librocksdb-dev
    links leveldb/c.h leveldb || echo libleveldb-dev
    links tkrzw_langc.h tkrzw || echo libtkrzw-dev
    links wiredtiger.h wiredtiger || echo libwiredtiger-dev
  fi
  # The tests trace the device syncs of each engine with it.
  command -v strace >/dev/null || echo strace
  # The tests of kernels compare them with NetworkX. Looked for and not imported, which takes a second; a python3 that is not the system's
  # does not see the package.
  python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("networkx") is None)' 2>/dev/null ||
    dpkg-query -W -f '${Status}' python3-networkx 2>/dev/null | grep -q 'install ok installed' || echo python3-networkx
}

packages=$(missing | xargs)
[ -z "$packages" ] && exit 0
if $check_only; then
  echo "setup: missing: $packages"
  exit 1
fi

by_hand="apt-get update && apt-get install -y --no-install-recommends $packages"
if ! command -v apt-get >/dev/null; then
  echo "setup: these Debian packages, or what your system calls them, are missing: $packages" >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root=()
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo true; }; }; then
  as_root=(sudo)
else
  echo "setup: packages are missing and only root may install them: $packages" >&2
  echo "setup: run as root: $by_hand" >&2
  exit 1
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C)

echo "setup: installing $packages"
# shellcheck disable=SC2086 # the list is words on purpose
install() { "${as_root[@]}" apt-get install -y -q --no-install-recommends $packages; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The lists are fetched only when the packages cannot be had without: most machines have them.
if ! install >"$log" 2>&1; then
  echo "setup: fetching the package lists"
  if ! { "${as_root[@]}" apt-get update -q && install; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get failed; mend it and run as root: $by_hand" >&2
    exit 1
  fi
fi
left=$(missing | xargs)
if [ -n "$left" ]; then
  echo "setup: still missing after the installation: $left" >&2
  echo "setup: look at: apt-cache policy $left" >&2
  exit 1
fi
echo "setup: done"
