#!/usr/bin/env bash
# The graph in a virtual machine that has what this one has not: two NUMA nodes, and persistent memory (an nvdimm with an fsdax namespace,
# ext4 with DAX). Under qemu's software emulation, with Debian's cloud kernel, which is unpacked and not installed; missing tools are
# installed as packages. A reset loses what was in the machine and nothing of what a store reached: emulation has no cache in front of its
# persistent memory. What a cache may lose is tested by simulated crashes (make test, make crash).
#
#   scripts/vm.sh            numa, then ROUNDS resets in the middle of updates, each checked after the next boot
#   scripts/vm.sh --keep     and keep the directory with the logs of the console
#
# BIOMBO_VM_ROUNDS (5). BIOMBO_VM_DIR (target/vm): where kernel, image and logs go.
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C PATH="${PATH:-/usr/bin:/bin}:${HOME:-}/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"

rounds=${BIOMBO_VM_ROUNDS:-5}
dir=${BIOMBO_VM_DIR:-${CARGO_TARGET_DIR:-$PWD/target}/vm}
host=$(rustc -vV | sed -n 's/^host: //p')
tools=(qemu-system-x86_64 ndctl busybox cpio mkfs.ext4)
packages=(qemu-system-x86 ndctl busybox-static cpio e2fsprogs)

fail() {
  echo "vm: $*" >&2
  exit 1
}
[ "$(uname -m)" = x86_64 ] || fail "the virtual machine is an x86-64 one, and so must this machine be"
case $rounds in '' | *[!0-9]*) fail "BIOMBO_VM_ROUNDS is a whole number" ;; esac
mkdir -p "$dir" || fail "cannot make $dir"

install() { # packages
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || fail "packages are missing and only root may install them: apt-get install $*"
    as_root=(sudo)
  fi
  command -v apt-get >/dev/null || fail "install these Debian packages, or what your system calls them: $*"
  echo "vm: installing $*"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >"$dir/install.log" 2>&1 ||
    { "${as_root[@]}" apt-get update -q && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; } \
      >"$dir/install.log" 2>&1 || { tail -n 5 "$dir/install.log" >&2; fail "they cannot be installed"; }
}
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || { install "${packages[@]}"; break; }
done
for tool in "${tools[@]}"; do command -v "$tool" >/dev/null || fail "$tool is still missing"; done

# Debian's cloud kernel, unpacked and not installed.
kernel() {
  local package
  [ -e "$dir/kernel/vmlinuz" ] && return
  package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$package" ] || fail "no kernel of the package linux-image-cloud-amd64 is known: apt-get update"
  echo "vm: fetching $package"
  rm -rf "$dir/kernel" && mkdir -p "$dir/kernel/files"
  (cd "$dir/kernel" && apt-get download -q "$package" >fetch.log 2>&1) || fail "$package cannot be fetched: see $dir/kernel/fetch.log"
  dpkg-deb -x "$dir"/kernel/linux-image-*.deb "$dir/kernel/files" || fail "the kernel's package cannot be unpacked"
  cp "$dir"/kernel/files/boot/vmlinuz-* "$dir/kernel/vmlinuz"
}

# busybox, the modules, ndctl and mkfs with their libraries, and the guest: a static program.
image() {
  local root=$dir/root module tool library modules
  echo "vm: building the guest"
  RUSTFLAGS='-C target-feature=+crt-static' cargo build --quiet --release --locked --package biombo-graph --example guest \
    --target "$host" --target-dir "$dir/build" || fail "the guest does not build"
  rm -rf "$root" && mkdir -p "$root"/{bin,proc,sys,dev,mnt,tmp,modules,lib64}
  cp "$(command -v busybox)" "$root/bin/busybox"
  cp "$dir/build/$host/release/examples/guest" "$root/guest"
  modules=$(find "$dir/kernel/files" -path '*/kernel/drivers' -type d | head -n 1)
  for module in nvdimm/libnvdimm acpi/nfit/nfit nvdimm/nd_btt nvdimm/nd_pmem; do
    cp "$modules/$module".ko* "$root/modules/" 2>/dev/null || fail "the kernel has no module $module"
  done
  for tool in ndctl mkfs.ext4; do
    cp -L "$(command -v "$tool")" "$root/bin/$tool"
    for library in $(ldd "$(command -v "$tool")" | grep -o '/[^ ]*'); do
      mkdir -p "$root$(dirname "$library")" && cp -Ln "$library" "$root$library"
    done
  done
  cat >"$root/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for module in libnvdimm nfit nd_btt nd_pmem; do insmod /modules/$module.ko* || echo "FAILED: module $module"; done
for word in $(cat /proc/cmdline); do case $word in biombo=*) phase=${word#biombo=} ;; acked=*) acked=${word#acked=} ;; esac; done
echo "nodes online: $(cat /sys/devices/system/node/online)"
if [ "$phase" = first ]; then
  ndctl create-namespace -f -e namespace0.0 -m fsdax -M mem >/tmp/ndctl 2>&1 || { cat /tmp/ndctl; echo "FAILED: no fsdax namespace"; }
  mkfs.ext4 -q -b 4096 /dev/pmem0 || echo "FAILED: mkfs"
fi
# Devices are found in their own time.
for wait in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do [ -b /dev/pmem0 ] && break; sleep 1; done
mount -t ext4 -o dax /dev/pmem0 /mnt || { ls /dev/pmem* /sys/bus/nd/devices; ndctl list -NRDi; dmesg | tail -n 20; echo "FAILED: mount with DAX"; }
run() { echo "# $*"; "$@" || echo "FAILED: $*"; }
[ "$phase" = first ] && run /guest numa
[ "$phase" = first ] || run /guest check /mnt/graph "$acked"
[ "$phase" = last ] || run /guest write /mnt/graph
echo "END"
umount /mnt
poweroff -f
INIT
  chmod +x "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$dir/image" || fail "the image cannot be made"
}

boot() { # phase, acked, log
  : >"$3"
  qemu-system-x86_64 -accel tcg -cpu max -machine q35,nvdimm=on -smp 2 -m 1G,slots=2,maxmem=4G \
    -object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M \
    -numa node,nodeid=0,cpus=0,memdev=m0 -numa node,nodeid=1,cpus=1,memdev=m1 \
    -object "memory-backend-file,id=nvm,share=on,mem-path=$dir/nvdimm,size=256M" -device nvdimm,memdev=nvm,node=1 \
    -nographic -nodefaults -serial "file:$3" -no-reboot -kernel "$dir/kernel/vmlinuz" -initrd "$dir/image" \
    -append "console=ttyS0 quiet panic=-1 biombo=$1 acked=$2" >"$3.qemu" 2>&1 &
  qemu=$!
}

acked_in() { tr -d '\r' <"$1" | sed -n 's/^acked //p' | tail -n 1; }
broken() { grep -aE 'FAILED|panicked|Kernel panic' "$1"; }

kernel
image
truncate -s 0 "$dir/nvdimm" && truncate -s 256M "$dir/nvdimm" || fail "there is no room for 256 MiB in $dir"
trap 'kill -9 $qemu 2>/dev/null' EXIT
acked=0
phase=first
for round in $(seq 1 "$rounds"); do
  log=$dir/round-$round.log
  boot $phase "$acked" "$log"
  # It writes for a while, which differs, and then the machine is gone in an instant.
  for _ in $(seq 1 600); do
    [ -n "$(acked_in "$log")" ] && break
    broken "$log" >/dev/null && break
    kill -0 $qemu 2>/dev/null || break
    sleep 0.5
  done
  sleep "$((1 + RANDOM % 4)).$((RANDOM % 10))"
  kill -9 $qemu 2>/dev/null
  wait $qemu 2>/dev/null
  if broken "$log" || [ -z "$(acked_in "$log")" ]; then
    tr -d '\r' <"$log" | tail -n 20 >&2
    fail "round $round failed: $log"
  fi
  tr -d '\r' <"$log" | grep -aE '^(nodes online|threads:|memory:|numa_maps:|kept on|right:|goes on)'
  acked=$(acked_in "$log")
  echo "round $round: reset after $acked batches"
  phase=next
done
log=$dir/last.log
boot last "$acked" "$log"
wait $qemu
tr -d '\r' <"$log" | grep -aE '^(kept on|right:)'
if broken "$log" || ! grep -aq '^right:' "$log" || ! grep -aq '^END' "$log"; then
  tr -d '\r' <"$log" | tail -n 20 >&2
  fail "the last check failed: $log"
fi
echo "vm: two NUMA nodes, persistent memory with DAX, $rounds resets: all right"
[ "${1:-}" = --keep ] || rm -rf "$dir/root" "$dir/image" "$dir/nvdimm"
