#!/usr/bin/env bash
# The package dependency graph of this Debian machine: made out of its package lists, loaded, ranked by PageRank, updated and
# ranked again, with the packages' names.
#
#   scripts/package-graph.sh [BIOMBO]     the command to use; target/release/biombo otherwise
#
# The source is `apt-cache dumpavail`, or the dpkg status file where apt has no lists; BIOMBO_PACKAGES names another file of such
# records. An edge leads from a package to each that it depends on, alternatives included. Packages are numbered in the order in which
# they are named: those numbers are the vertices' ids. What it writes goes to a directory of its own, which is removed at the end, or
# to BIOMBO_PACKAGE_GRAPH, which is left.
set -euo pipefail
export LC_ALL=C

biombo=${1:-${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/release/biombo}
status=${BIOMBO_PACKAGES:-/var/lib/dpkg/status}

fail() {
  echo "package-graph: $*" >&2
  exit 1
}
command -v "$biombo" >/dev/null || fail "$biombo is not there; run make build"
[ -s "$status" ] || fail "$status is not there: this machine has no Debian package database; BIOMBO_PACKAGES names one"

if [ -n "${BIOMBO_PACKAGE_GRAPH:-}" ]; then
  work=$BIOMBO_PACKAGE_GRAPH
  mkdir -p "$work"
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi

records() {
  if [ -z "${BIOMBO_PACKAGES:-}" ] && command -v apt-cache >/dev/null && [ "$(apt-cache dumpavail 2>/dev/null | wc -c)" -gt 0 ]; then
    apt-cache dumpavail
  else
    cat "$status"
  fi
}

# depends.el, recommends.el: a number, tab, a number. names.tsv: a number, tab, a name.
records | awk -v names="$work/names.tsv" -v depends="$work/depends.el" -v recommends="$work/recommends.el" '
  function number(name) {
    if (!(name in numbers)) {
      numbers[name] = ++count
      print count "\t" name >names
    }
    return numbers[name]
  }
  function edges(list, file,   parts, i, name) {
    sub(/^[^:]*: */, "", list)
    for (i = split(list, parts, /[,|]/); i > 0; i--) {
      name = parts[i]
      sub(/^ +/, "", name)
      sub(/[^a-z0-9+.-].*/, "", name) # a version, an architecture
      if (name != "") print number(package) "\t" number(name) >file
    }
  }
  BEGIN { printf "" >depends; printf "" >recommends }
  /^Package: / { package = $2; number(package) }
  /^Depends: / || /^Pre-Depends: / { edges($0, depends) }
  /^Recommends: / { edges($0, recommends) }'

ranked() {
  "$biombo" graph run "$work/graph" pagerank --tolerance 1e-9 --iterations 1000 --threads 2 --out "$work/scores.tsv" | awk 'NR == 1 { print "  " $0 }'
  awk -F '\t' 'FNR == NR { name[$1] = $2; next } { print $2 "\t" name[$1] "\t" $1 }' "$work/names.tsv" "$work/scores.tsv" |
    sort -t "$(printf '\t')" -k1,1gr -k2,2 >"$work/ranked.tsv"
  awk -F '\t' 'NR <= 10 { printf "  %2d  %.6f  %s\n", NR, $1, $2 }' "$work/ranked.tsv"
}

begin=$(date +%s%N)
echo "$(wc -l <"$work/names.tsv") packages named by $(grep -c . "$work/depends.el" || true) dependencies; loaded, and ranked by PageRank:"
"$biombo" graph load "$work/graph" "$work/depends.el" --directed | sed 's/^/  /'
ranked
first=$(awk -F '\t' 'NR == 1 { print $3 }' "$work/ranked.tsv")
name=$(awk -F '\t' 'NR == 1 { print $2 }' "$work/ranked.tsv")

echo "What is recommended added:"
"$biombo" graph add "$work/graph" "$work/recommends.el" | sed 's/^/  /'
ranked

echo "All that leads to $name deleted:"
"$biombo" graph neighbors "$work/graph" "$first" --in | awk -v to="$first" '{ print $1 "\t" to }' >"$work/gone.el"
"$biombo" graph delete "$work/graph" "$work/gone.el" | sed 's/^/  /'
ranked
"$biombo" graph verify "$work/graph" | sed 's/^/  verify: /'
echo "In $((($(date +%s%N) - begin) / 1000000)) ms, of which reading and writing files is a part."
