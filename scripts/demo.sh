#!/usr/bin/env bash
# The main job of Biombo: YCSB A and D over six engines, each used directly and as 8 hard partitions, then real data: the
# package records of this machine loaded, scanned by prefix and verified through a store. `make demo` builds and runs it.
#
#   scripts/demo.sh [BIOMBO]     the command to use; target/release/biombo otherwise
#
# BIOMBO_DEMO_RECORDS (250000) and BIOMBO_DEMO_OPERATIONS (250000) make it smaller or larger. What it writes on the way goes
# to a directory of its own under target/, which is removed at the end; report.html and target/demo.jsonl stay.
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

target=${CARGO_TARGET_DIR:-target}
biombo=${1:-$target/release/biombo}
records=${BIOMBO_DEMO_RECORDS:-250000}
operations=${BIOMBO_DEMO_OPERATIONS:-250000}
engines=log,lmdb,rocksdb,leveldb,tkrzw-tree-zlib,wiredtiger

fail() {
  echo "demo: $*" >&2
  exit 1
}
[ -x "$biombo" ] || fail "$biombo is not there; run make build"

# The directory carries this process's number, so that what a killed demo left can be told from one that runs.
for left in "$target"/demo-work.*; do
  [ -d "$left" ] && [ ! -d "/proc/${left##*.}" ] && rm -rf "$left"
done
work=$target/demo-work.$$
mkdir -p "$work" || fail "cannot write below $target"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# Twelve stores of 250 MB exist one after the other; engines need up to three times the data for a moment.
free_kb=$(df -Pk "$work" | awk 'NR == 2 { print $4 }')
need_kb=$((records * 4))
[ "$free_kb" -gt "$need_kb" ] || fail "needs $((need_kb / 1024)) MB free below $target; set CARGO_TARGET_DIR to a larger device"

echo "YCSB A (half reads, half updates) and D (95 % reads of the latest, 5 % inserts): $records records of 1 KB,"
echo "$operations operations, 2 threads, durability os; each engine used directly and as 8 hard partitions, at equal cache."
rm -f "$target/demo.jsonl"
"$biombo" bench ycsb --engine "$engines" --workload a,d --records "$records" --operations "$operations" \
  --value-bytes 1000 --threads 2 --durability os --partitioning none,hard --partitions 8 \
  --dir "$work/bench" --json "$target/demo.jsonl" --html report.html ||
  fail "the benchmark failed; the line above says why"
rm -rf "$work/bench"

echo
if ! scripts/packages.sh >"$work/packages.tsv"; then
  echo "Package records: this machine has no Debian package database; this part is left out."
else
  echo "Package records of this machine: name as key, whole record as value, in 8 hard partitions of the engine log by key range"
  store=$work/packages
  lines=$(wc -l <"$work/packages.tsv")
  begin=$(date +%s%N)
  "$biombo" load "$store" "$work/packages.tsv" --partitions 8 --placement range --durability sync >/dev/null ||
    fail "the package records could not be loaded"
  echo "  loaded, each batch synced: $lines records in $((($(date +%s%N) - begin) / 1000000)) ms"

  count=$("$biombo" count "$store") || fail "cannot count"
  [ "$count" = "$lines" ] || fail "$lines records were loaded, the store has $count"

  expected=$(grep -c '^lib' "$work/packages.tsv")
  found=$("$biombo" scan "$store" --prefix lib --keys-only | wc -l)
  [ "$found" = "$expected" ] || fail "the prefix lib has $expected records, the scan gave $found"
  echo "  scanned by prefix: $found of $count keys begin with lib; the first three:"
  "$biombo" scan "$store" --prefix lib --keys-only --limit 3 | sed 's/^/    /'

  sort "$work/packages.tsv" | cmp -s - <("$biombo" scan "$store" | sort) ||
    fail "a scan of the store differs from what was loaded"
  echo "  a scan of all records is byte for byte what was loaded"

  "$biombo" verify "$store" | sed 's/^/  verify: /' || fail "the store is damaged"
fi

echo
echo "Report: file://$PWD/report.html"
echo "Every run as a JSON line: $target/demo.jsonl"
