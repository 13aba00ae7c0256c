#!/usr/bin/env bash
# Build every test with all features and run the test programs, as many at once as there are processors, with one thread each; then the
# examples in the documentation. `cargo test` does the same one program after another, and where the last test of each is a long one, the
# other processors wait: of the eleven programs that took longest, a quarter of their time on two processors.
#
#   scripts/test.sh          all of them (make test)
#   scripts/test.sh --list   build, and show the programs in the order in which they begin
#
# CARGO: the command (cargo). BIOMBO_TEST_JOBS: programs at once (processors). BIOMBO_TEST_SECONDS (1200): after so long a program is killed,
# and has failed. What a program prints is shown when it has ended. The exit status is 0 only if every program that was built has passed.
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C PATH="${PATH:-/usr/bin:/bin}:${HOME:-}/.cargo/bin"

cargo=${CARGO:-cargo}
jobs=${BIOMBO_TEST_JOBS:-$(nproc)}
seconds=${BIOMBO_TEST_SECONDS:-1200}
# They hold counters of this process against those of the kernel: what others write and sync at the same time is in the way.
alone=(lab/counters)
# What takes longest begins first, so that nobody waits for it at the end.
long=(biombo/conformance graph/biombo_graph store/biombo_store cli/kill engines/foreign/conformance graph/repetitions cli/commands store/crash
  graph/real_graphs cli/bench lab/processes engines/micro/memory cli/graph_networkx lab/biombo_lab store/conformance)

fail() {
  echo "test: $*" >&2
  exit 1
}

case "${1:-}" in
  '' | --list) ;;
  *) fail "usage: scripts/test.sh [--list]" ;;
esac
work=$(mktemp -d) || fail "no directory for what the programs print"
trap 'rm -rf "$work"' EXIT

# One line each: its name, its package's directory, itself.
$cargo test --locked --workspace --all-features --no-run --message-format=json-render-diagnostics >"$work/built" ||
  fail "the tests cannot be built; the lines above say why"
sed -nE 's|.*"manifest_path":"([^"]*)/Cargo.toml","target":\{"kind":.*"name":"([^"]*)","src_path".*"test":true\},"features".*"executable":"([^"]+)".*|\1\t\2\t\3|p' \
  "$work/built" | while IFS=$'\t' read -r package name program; do
  printf '%s\t%s\t%s\n' "${package#"$PWD"/crates/}/$name" "$package" "$program"
done >"$work/programs"
programs=$(wc -l <"$work/programs")
# What cargo says may change; no program is to be left out for that.
named=$(grep '"executable":"' "$work/built" | grep -cv '"test":false},"features"')
[ "$programs" -gt 0 ] && [ "$programs" = "$named" ] || fail "cargo built $named test programs, and this script understood $programs of its lines"

# The lines of the programs with these names, in this order.
these() {
  local name
  for name; do
    awk -F '\t' -v name="$name" '$1 == name' "$work/programs"
  done
}
for name in "${alone[@]}" "${long[@]}"; do
  [ -n "$(these "$name")" ] || fail "there is no test program $name (any more): mend the lists in this script"
done
others() {
  awk -F '\t' -v taken=" ${alone[*]} ${long[*]} " 'index(taken, " " $1 " ") == 0' "$work/programs"
}

run() { # work directory, seconds, threads, line
  local work=$1 name package program out status
  IFS=$'\t' read -r name package program <<<"$4"
  out=$(mktemp -p "$work")
  flock "$work/lock" echo "       Begun $name"
  (cd "$package" && CARGO_MANIFEST_DIR=$package timeout --kill-after=10 "$2" "$program" "--test-threads=$3") >"$out" 2>&1
  status=$?
  {
    flock 9
    echo "     Running $name ($program)"
    cat "$out"
    case $status in
      0) echo "$name" >>"$work/passed" ;;
      124 | 137) echo "error: test failed: $name was killed after $2 s (BIOMBO_TEST_SECONDS)" ;;
      *) echo "error: test failed: $name ended with $status" ;;
    esac
  } 9>"$work/lock"
  rm -f "$out"
}
export -f run

if [ "${1:-}" = --list ]; then
  { these "${alone[@]}" "${long[@]}" && others; } | cut -f 1,3
  exit 0
fi
touch "$work/passed"
while IFS= read -r line; do
  run "$work" "$seconds" "$jobs" "$line" </dev/null
done < <(these "${alone[@]}")
{ these "${long[@]}" && others; } | xargs -r -d '\n' -n 1 -P "$jobs" bash -c 'run "$1" "$2" 1 "$3"' run "$work" "$seconds"
$cargo test --locked --workspace --all-features --no-fail-fast --doc
examples=$?
if [ "$(wc -l <"$work/passed")" != "$programs" ]; then
  echo "test: these failed; their output stands above:"
  cut -f 1 "$work/programs" | grep -vxFf "$work/passed" | sed 's/^/  /'
  exit 1
fi
exit "$examples"
