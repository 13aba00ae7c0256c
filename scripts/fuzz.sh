#!/usr/bin/env bash
# Fuzz every target of fuzz/ with libFuzzer, on the toolchain that rust-toolchain.toml names: no nightly, no cargo-fuzz. The coverage
# counters come from LLVM's own pass, which stable rustc runs when asked by name; no sanitizer (those need a nightly), but debug
# assertions and overflow checks on. It needs a C++ compiler, for libFuzzer.
#
#   scripts/fuzz.sh [TARGET...]           all of them otherwise
#   scripts/fuzz.sh --repeat TARGET FILE  run one input, with a backtrace
#   scripts/fuzz.sh --list
#
# BIOMBO_FUZZ_SECONDS (600) for each, BIOMBO_FUZZ_JOBS (the cores) at a time. What they learn stays in fuzz/corpus/TARGET, so that the
# next run goes on from there. Exit status 1 when a target found something: the input is in fuzz/artifacts/TARGET.
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C PATH="${PATH:-/usr/bin:/bin}:${HOME:-}/.cargo/bin"

seconds=${BIOMBO_FUZZ_SECONDS:-600}
jobs=${BIOMBO_FUZZ_JOBS:-$(nproc)}
# A build of its own beside the others: its flags would rebuild everything back and forth.
build=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
mapfile -t all < <(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"$/\1/p' fuzz/Cargo.toml)

fail() {
  echo "fuzz: $*" >&2
  exit 2
}
case $seconds$jobs in *[!0-9]*) fail "BIOMBO_FUZZ_SECONDS and BIOMBO_FUZZ_JOBS are whole numbers" ;; esac
command -v c++ >/dev/null || fail "a C++ compiler is missing, which libFuzzer is built with: apt-get install g++"

repeat=false
case "${1:-}" in
  --list) printf '%s\n' "${all[@]}"; exit 0 ;;
  --repeat)
    [ $# = 3 ] || fail "usage: scripts/fuzz.sh --repeat TARGET FILE"
    [ -f "$3" ] || fail "$3 is not there"
    repeat=true
    set -- "$2" "$3"
    targets=("$1")
    ;;
  -*) fail "usage: scripts/fuzz.sh [--list | --repeat TARGET FILE | TARGET...]" ;;
  *) targets=("$@") ;;
esac
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  printf '%s\n' "${all[@]}" | grep -qx -- "$target" || fail "there is no target $target; scripts/fuzz.sh --list names them"
done

flags=(--cfg fuzzing -Cpasses=sancov-module)
for option in level=4 inline-8bit-counters pc-table trace-compares; do
  flags+=("-Cllvm-args=-sanitizer-coverage-$option")
done
bins=()
for target in "${targets[@]}"; do bins+=(--bin "$target"); done
# With a platform named, the flags are not those of build scripts and macros. Not --locked: a new dependency of a crate of ours
# comes into fuzz/Cargo.lock, in which everything else stays (crates/cli/tests/deny.rs compares it).
RUSTFLAGS="${flags[*]}" cargo build --quiet --release --manifest-path fuzz/Cargo.toml --target "$host" \
  --target-dir "$build" "${bins[@]}" || fail "the targets do not build"
bin=$build/$host/release

if $repeat; then
  export RUST_BACKTRACE=1
  exec "$bin/$1" -rss_limit_mb=2048 -timeout=30 "$2"
fi

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
run() { # target
  local target=$1 corpus=fuzz/corpus/$1 known=crates/properties/regressions/$1 begun=$SECONDS status line
  mkdir -p "$corpus" "fuzz/artifacts/$target"
  [ -d "$known" ] || known=
  # The temporary directory is of no use to a target: none touches the disk.
  # shellcheck disable=SC2086 # no known inputs: no argument
  BIOMBO_FUZZ_SEEDS=$corpus timeout $((seconds + 300)) "$bin/$target" "$corpus" $known -max_total_time="$seconds" \
    -rss_limit_mb=2048 -timeout=30 -max_len=4096 -print_final_stats=1 -artifact_prefix="fuzz/artifacts/$target/" \
    >"$logs/$target" 2>&1
  status=$?
  line=$(grep -E '^#[0-9]+.* cov: ' "$logs/$target" | tail -n 1)
  of() { sed -n "s/.* $1: \([^ ]*\).*/\1/p" <<<"$line"; }
  executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target")
  found=$(sed -n 's/.*Test unit written to //p' "$logs/$target" | tail -n 1)
  printf '%-16s %9s executions %7s/s  %6s edges covered  corpus %-11s %s\n' "$target" "${executed:-?}" \
    "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$logs/$target")" "$(of cov)" "$(of corp)" \
    "$(if [ -n "$found" ]; then echo "FOUND $found"; elif [ $status -ne 0 ]; then echo "FAILED (status $status)"; else echo 'no finding'; fi) ($((SECONDS - begun)) s)"
  [ $status -eq 0 ] && return 0
  {
    echo
    echo "$target:"
    grep -E -A3 'panicked at|ERROR: libFuzzer|SUMMARY' "$logs/$target" | head -n 12 | sed 's/^/  /'
    if [ -n "$found" ]; then
      echo "  repeat it:   scripts/fuzz.sh --repeat $target $found"
      echo "  keep it:     mkdir -p crates/properties/regressions/$target && cp $found crates/properties/regressions/$target/WHAT-IT-SHOWS"
      echo "               then cargo test -p biombo-properties --test properties $target fails until its cause is mended"
    else
      tail -n 20 "$logs/$target" | sed 's/^/  /'
    fi
  } >"$logs/$target.found"
  return 1
}

echo "fuzz: ${#targets[@]} targets, $seconds s each, $jobs at a time"
failed=0
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || failed=1; done
  run "$target" &
done
while [ -n "$(jobs -p)" ]; do wait -n || { [ $? = 127 ] && break; failed=1; }; done
cat "$logs"/*.found 2>/dev/null
exit $failed
