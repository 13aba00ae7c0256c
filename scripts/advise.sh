#!/usr/bin/env bash
# What the advice of `biombo advise` is worth: over eight workloads the advised store beside the best one that an exhaustive run finds,
# and the share of its time that the advice took. Over all engines of a full build about two hours on two cores, on which nothing else
# should run.
#
#   scripts/advise.sh [OPTION...] [WORKLOAD...]   all of them otherwise
#   scripts/advise.sh --list                      the workloads, with what they are
#   scripts/advise.sh --summary                   the table of what was measured so far
#
#   --trace FILE      the operations of the workload `trace`, as `biombo bench trace` replays them (otherwise those of a virtual disk)
#   --budget TIME     for each advice (60s)
#   --seconds TIME    that the exhaustive run gives each candidate once it is loaded (10s)
#   --records N       of A to F (1000000)
#   --engine E,E..    these engines (all that keep data)
#   --durability L    sync or os (os)
#
# The virtual disk is CloudPhysics', kv/cloudphysics-io.csv.zst in the folder that BIOMBO_DATA names (../shared/data); a block is a key, and
# zstdcat unpacks it. Without it `trace` is skipped, with a word why.
#
# BIOMBO: the command to measure (target/release/biombo). BIOMBO_ADVICE: where each advice is kept as JSON, and its trials as JSON lines
# (target/advice); what is there of the workloads that are measured now is removed first, so that no figure of an earlier day fills a gap. The exit
# status is 1 where an advised store has less than 90 % of the best one's throughput, where its advice took more than a tenth of the exhaustive
# run's time, or where a workload of those asked for (with --summary and without names: of all eight) was not measured.
set -uo pipefail
from=$PWD
cd "$(dirname "$0")/.."
export LC_ALL=C

target=${CARGO_TARGET_DIR:-$PWD/target}
biombo=${BIOMBO:-$target/release/biombo}
kept=${BIOMBO_ADVICE:-$target/advice}
disk=${BIOMBO_DATA:-../shared/data}/kv/cloudphysics-io.csv.zst

fail() {
  echo "advise: $*" >&2
  exit 1
}

all=(a b c d e f trace large)
declare -A what=(
  [a]='YCSB A: half reads, half updates'
  [b]='YCSB B: 95 % reads, 5 % updates'
  [c]='YCSB C: reads'
  [d]='YCSB D: 95 % reads of the latest, 5 % inserts'
  [e]='YCSB E: 95 % scans, 5 % inserts'
  [f]='YCSB F: half reads, half read-modify-writes'
  [trace]='a trace: the one of --trace, or the 113,872 requests of a virtual disk (CloudPhysics), reads and writes of its blocks'
  [large]='values of 100 KB, 10,000 of them: half reads, half updates'
)

# One line a workload of those named, out of the JSON that was kept: workload, advised, best, ratio, share of time; then whether all is as it
# should be. One that is not there, or says nothing, is not.
summary() {
  local workload line
  # The fields that are needed stand at the head of what the exhaustive run said.
  local fields='s/.*"exhaustive":\{"advised":"([^"]*)","best":"([^"]*)","advised_by_best":([^,]*),"advice_share":([^,]*),.*/\1\t\2\t\3\t\4/p'
  for workload in "$@"; do
    line=
    [ -e "$kept/$workload.json" ] && line=$(sed -nE "$fields" "$kept/$workload.json")
    printf '%s\t%s\n' "$workload" "${line:-$'-\t-\tnone\tnone'}"
  done | awk -F '\t' '
    BEGIN { form = "%-9s  %-42s  %-42s  %10s  %14s\n"; printf form, "workload", "advised", "best", "of it", "share of time" }
    { all++ }
    $4 == "none" { missing = missing " " $1; printf form, $1, "not measured", "-", "-", "-"; next }
    { near = $4 != "null" && $4 >= 0.9; quick = $5 != "null" && $5 <= 0.1; nears += near; quicks += quick
      printf form, $1, $2, $3, ($4 == "null" ? "failed" : sprintf("%.1f %%", 100 * $4)), sprintf("%.1f %%", 100 * $5) }
    END { printf "\n%d of %d within 10 %% of the best, %d of %d for a tenth of the time or less\n", nears, all, quicks, all
          if (missing) print "not measured:" missing
          exit nears < all || quicks < all }'
}

trace= budget=60s seconds=10s records=1000000 engines= durability=os
workloads=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) for workload in "${all[@]}"; do printf '%-6s %s\n' "$workload" "${what[$workload]}"; done; exit 0 ;;
    --summary) summary "${all[@]}"; exit ;;
    --trace | --budget | --seconds | --records | --engine | --durability)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case $1 in
        --trace) trace=$2 ;; --budget) budget=$2 ;; --seconds) seconds=$2 ;;
        --records) records=$2 ;; --engine) engines=$2 ;; --durability) durability=$2 ;;
      esac
      shift ;;
    -*) fail "there is no option $1; the head of scripts/advise.sh has them" ;;
    *) [ -n "${what[$1]:-}" ] || fail "there is no workload $1; scripts/advise.sh --list names them"; workloads+=("$1") ;;
  esac
  shift
done
[ "${#workloads[@]}" -gt 0 ] || workloads=("${all[@]}")
case $trace in '' | /*) ;; *) trace=$from/$trace ;; esac
[ -z "$trace" ] || [ -r "$trace" ] || fail "cannot read the trace $trace"
[ -x "$biombo" ] || fail "$biombo is not there; run make build"
mkdir -p "$kept" || fail "cannot write below $target"
work=$kept/work.$$
mkdir "$work" || fail "cannot write below $kept"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
for workload in "${workloads[@]}"; do
  rm -f "$kept/$workload.json" "$kept/$workload.jsonl" || fail "cannot remove what is kept of $workload below $kept"
done

# The requests of the virtual disk as a trace: `version,time,op,size,lbn` below a line of names; the op is that of SCSI, 28 and 88 read, 2a and
# 8a write. A block is a key.
requests() {
  zstdcat "$disk" | awk -F, 'NR > 1 && $3 ~ /^(28|88)$/ { print "0," $5 } NR > 1 && $3 ~ /^(2a|8a)$/ { print "1," $5 }'
}

common=(--budget "$budget" --exhaustive="$seconds" --durability "$durability" --dir "$work/runs" --json)
[ -z "$engines" ] || common+=(--engine "$engines")
for workload in "${workloads[@]}"; do
  begun=$SECONDS
  echo "== $workload: ${what[$workload]}" >&2
  case $workload in
    trace)
      replayed=$trace
      if [ -z "$replayed" ]; then
        if ! [ -r "$disk" ] || ! command -v zstdcat >/dev/null; then
          echo "skipped: trace: it needs zstdcat and $disk (BIOMBO_DATA names the folder), or --trace FILE" >&2
          continue
        fi
        replayed=$work/cloudphysics-io.txt
        requests >"$replayed" && [ -s "$replayed" ] || fail "cannot read $disk or write $replayed"
      fi
      question=(--trace "$replayed") ;;
    large) question=(--reads 0.5 --records 10000 --value-bytes 100000) ;;
    *) question=(--workload "$workload" --records "$records") ;;
  esac
  if ! "$biombo" advise "${question[@]}" "${common[@]}" --trials "$kept/$workload.jsonl" >"$work/advice.json"; then
    echo "advise: the advice on $workload failed; the line above says why" >&2
    continue
  fi
  mv "$work/advice.json" "$kept/$workload.json" || fail "cannot write below $kept"
  echo "== $workload took $((SECONDS - begun)) s" >&2
done
echo
summary "${workloads[@]}"
