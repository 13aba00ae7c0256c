#!/usr/bin/env bash
# All published experiments, done again one after the other: of each a table, a report page and its runs in target/reproduce, and the seconds
# that it took. One that fails (an engine or a disk that is missing) is named, and the others go on. Results take the place of those of before
# when they are whole: of one that fails, or is ended, what was done is in NAME.new.*, until the next time, and what was there before stays.
#
#   scripts/reproduce.sh BIOMBO [OPTION...]    options of `biombo reproduce`, such as --scale 0.1
#
# BIOMBO_REPRODUCE: where the files are kept (target/reproduce). The exit status is 1 where an experiment failed.
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

[ $# -ge 1 ] || { echo 'reproduce: name the command; the head of scripts/reproduce.sh says more' >&2; exit 2; }
biombo=$1
shift
kept=${BIOMBO_REPRODUCE:-${CARGO_TARGET_DIR:-$PWD/target}/reproduce}
mkdir -p "$kept" || exit 1
names=$("$biombo" reproduce --list --json | sed -nE 's/^\{"name":"([^"]*)".*/\1/p')
[ -n "$names" ] || { echo "reproduce: $biombo lists no experiments" >&2; exit 1; }

# Whether there are results of before.
has_old() {
  local end
  for end in txt html jsonl; do
    [ ! -e "$kept/$1.$end" ] || return 0
  done
  return 1
}

# The new results of an experiment take their place. The table says where its page is.
place() {
  local end
  sed -i '/^report: /s/\.new\.html$/.html/' "$kept/$1.new.txt"
  for end in txt html jsonl; do
    # Nothing was printed, or measured.
    [ -s "$kept/$1.new.$end" ] || { rm -f "$kept/$1.new.$end"; continue; }
    mv -f "$kept/$1.new.$end" "$kept/$1.$end"
  done
}

trap 'exit 130' INT TERM
table=$(printf '%-14s  %8s  %s' experiment seconds 'conclusions here')
failed=0
for name in $names; do
  begun=$SECONDS
  echo "== $name" >&2
  new=$kept/$name.new
  rm -f "$new".{txt,html,jsonl}
  "$biombo" reproduce "$name" "$@" --html "$new.html" --runs "$new.jsonl" >"$new.txt"
  status=$?
  # `name: title`, and below it how many conclusions hold.
  told=$(sed -n "/^$name: /{n;s/^ *//p;q}" "$new.txt")
  [ "$status" -eq 0 ] || { failed=1; told="failed (exit status $status)${told:+; $told}"; }
  if [ "$status" -eq 0 ] || ! has_old "$name"; then
    place "$name"
  else
    told+="; what was there before stays"
  fi
  table+=$'\n'$(printf '%-14s  %8d  %s' "$name" $((SECONDS - begun)) "$told")
done
printf '%s\n' "$table" | tee "$kept/seconds.txt"
exit "$failed"
