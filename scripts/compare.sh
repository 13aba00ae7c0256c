#!/usr/bin/env bash
# Whether `biombo bench compare --build` can be believed: a build compared with itself, which should differ in one of twenty tries at most, and
# with itself slowed by 5 %, which should be caught. Forty comparisons of thirteen rounds: about half an hour on two cores, on which
# nothing else should run. Intervals have a level of 98 %, so that a build differs from itself once in fifty comparisons: twice in twenty is then
# seen once in sixteen tries. A comparison of which a figure cannot be judged, as rounds
# failed or are too few, says nothing for the build, and counts as one that went wrong.
#
#   scripts/compare.sh [TIMES [BENCH...]]    20 times; `ycsb --engine log --workload c --records 100000 --seconds 1.5` otherwise
#
# BIOMBO: the command to measure (target/release/biombo). BIOMBO_ROUNDS (13): of each comparison. BIOMBO_SLOWED (0.05): the share of throughput
# that is taken, by busy work of the clients. BIOMBO_COMPARE: where runs and verdicts are kept (target/compare). The exit status is 1 where
# more than one of twenty differs from itself or cannot be judged, or more than one of twenty that are slowed is not caught.
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

target=${CARGO_TARGET_DIR:-$PWD/target}
biombo=$(readlink -f "${BIOMBO:-$target/release/biombo}")
kept=${BIOMBO_COMPARE:-$target/compare}
rounds=${BIOMBO_ROUNDS:-13}
slowed=${BIOMBO_SLOWED:-0.05}

fail() {
  echo "compare: $*" >&2
  exit 1
}
times=${1:-20}
case $times in '' | *[!0-9]* | 0) fail "how often is a number from 1, not $times" ;; esac
shift
bench=("$@")
[ $# -gt 0 ] || bench=(ycsb --engine log --workload c --records 100000 --seconds 1.5)
[ -x "$biombo" ] || fail "${BIOMBO:-$target/release/biombo} is not there; run make build"
mkdir -p "$kept" || fail "cannot write below $target"
work=$kept/work.$$
mkdir "$work" || fail "cannot write below $kept"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

printf '#!/bin/sh\nBIOMBO_LAB_SLOWED=%s exec "%s" "$@"\n' "$slowed" "$biombo" >"$work/slowed"
chmod +x "$work/slowed"

# Compares the build with another; prints how many figures are better, worse, worse beyond the threshold, and how many cannot be judged.
compared() { # name, other build
  local said=$kept/$1.txt
  "$biombo" bench compare --build "$biombo" "$2" --rounds "$rounds" --keep "$kept/$1" -- "${bench[@]}" --dir "$work/runs" \
    >"$said" 2>"$said.error"
  sed -nE 's/^[0-9]+ judged: ([0-9]+) better, ([0-9]+) worse \(([0-9]+) beyond[^)]*\)(.*, ([0-9]+) that cannot be judged)?.*/\1 \2 \3 0\5/p' "$said" |
    grep . ||
    fail "$1 gave no verdict: $(tail -n 1 "$said.error")"
}

differ=0 caught=0 unjudged=0
for ((i = 1; i <= times; i++)); do
  figures=$(compared "self-$i" "$biombo") || exit 1
  read -r better worse _ unknown <<<"$figures"
  if [ "$unknown" -gt 0 ]; then
    unjudged=$((unjudged + 1))
  elif [ $((better + worse)) -gt 0 ]; then
    differ=$((differ + 1))
  fi
  figures=$(compared "slowed-$i" "$work/slowed") || exit 1
  read -r _ _ beyond unknown <<<"$figures"
  if [ "$unknown" -eq 0 ] && [ "$beyond" -gt 0 ]; then
    caught=$((caught + 1))
  fi
  echo "$i of $times: $differ differ from themselves, $unjudged cannot be judged, $caught of those slowed by $slowed are caught" >&2
done
echo "$differ of $times comparisons of a build with itself show a difference, $unjudged cannot be judged; $caught of $times of a build slowed by $slowed" \
  "are caught"
[ $((20 * (differ + unjudged))) -le "$times" ] && [ $((20 * (times - caught))) -le "$times" ]
