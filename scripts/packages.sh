#!/usr/bin/env bash
# The package records that this Debian machine knows, as the TSV that `biombo load` reads: name, tab, whole record.
#
# The source is `apt-cache dumpavail`, or the dpkg status file where apt has no lists. The key is the package's name; a
# second record of a name (another version) gets the key `name=version`. Escapes are those of `biombo load`: \\ \t \n.
# Exit status 1, and nothing printed, where there is no Debian package database.
set -uo pipefail
export LC_ALL=C

status=/var/lib/dpkg/status
records() {
  if command -v apt-cache >/dev/null && [ -n "$(apt-cache dumpavail 2>/dev/null | head -c 1)" ]; then
    apt-cache dumpavail
  else
    cat "$status"
  fi
}

[ -s "$status" ] || exit 1
records | sed -e 's/\\/\\\\/g' -e 's/\t/\\t/g' | awk '
  function record_ends() {
    if (name != "") {
      key = (name in seen) ? name "=" version : name
      seen[name] = 1
      printf "%s\t%s\n", key, text
    }
    name = version = text = ""
  }
  /^$/ { record_ends(); next }
  /^Package: / { name = $2 }
  /^Version: / { version = $2 }
  { text = text $0 "\\n" }
  END { record_ends() }'
