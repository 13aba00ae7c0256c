#!/usr/bin/env bash
# The performance record: a few benches, measured seven times, compared with those that the repository keeps in docs/record.jsonl, which
# are made where there are none.
# `make record` builds and runs it; about three minutes on two cores.
#
#   scripts/record.sh [BIOMBO]     the command to measure; target/release/biombo otherwise
#
# Where a figure is worse than the one kept by more than noise and 5 % (`biombo bench compare`), the exit status is 1. What is kept stays:
# if the new runs took its place each time, a loss of 4 % a time would never be told, and if they did where something got faster, one fast
# day of the machine. BIOMBO_RECORD=replace puts them there: on another machine, or where a change is known and meant.
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

target=${CARGO_TARGET_DIR:-target}
biombo=${1:-$target/release/biombo}
kept=docs/record.jsonl
new=$target/record.jsonl

fail() {
  echo "record: $*" >&2
  exit 1
}
[ -x "$biombo" ] || fail "$biombo is not there; run make build"
work=$target/record-work.$$
mkdir -p "$work" || fail "cannot write below $target"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

"$biombo" bench ycsb --engine log,lmdb --workload a,c,d --records 100000 --operations 200000 --value-bytes 200 --threads 2 \
  --partitions 2 --cache-bytes 256MiB --repeat 7 --dir "$work" --json "$new" || fail "the benchmark failed; the line above says why"
[ "$(wc -l <"$new")" = 42 ] || fail "the benchmark did not do all of its 42 runs"

if [ -e "$kept" ] && [ "${BIOMBO_RECORD:-}" != replace ]; then
  echo
  "$biombo" bench compare "$kept" "$new"
  status=$?
  echo "$kept stays as it is; the new runs are in $new. BIOMBO_RECORD=replace keeps them in its place."
  exit "$status"
fi
cp "$new" "$kept" || fail "cannot write $kept"
echo "kept: $kept"
