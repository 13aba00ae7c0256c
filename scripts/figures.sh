#!/usr/bin/env bash
# The figures that Biombo is held to, measured again beside its peers: each part a kind of work, in four sets. Nothing else should run.
#
#   scripts/figures.sh log           the engine log beside other engines, an hour and a half on two cores (make figures)
#   scripts/figures.sh moving        stores that repartition themselves beside those that stay as they are, an hour and three quarters (make figures-moving)
#   scripts/figures.sh lab           the laboratory's own engines, with many operations and with data larger than memory (make figures-lab)
#   scripts/figures.sh graphs        kernels over changing graphs beside a static one, ingest, nodes, half an hour (make figures-graphs)
#   scripts/figures.sh PART...       these alone
#   scripts/figures.sh --list        the parts, with what they measure, and about how many minutes that takes on two cores
#   scripts/figures.sh --summary     the tables of what was measured so far; where log was measured beside others, with its ratios to them
#
# A bench of which a run failed costs no other: the lines of its other runs are kept, the rest is measured, what failed is listed at the
# end, and the exit status is 1. The runs of a part take the place of those of before when all of it was measured. Of one that is ended,
# what was measured is in PART.new.jsonl until it is measured again, and what was there before stays.
#
# BIOMBO: the command to measure (target/release/biombo). BIOMBO_FIGURES: where the runs are kept as JSON lines, one file for each
# part (target/figures). BIOMBO_FIGURES_PAIRS (9): the interleaved rounds. BIOMBO_FIGURES_FIRST (1): from which of them on; later ones go
# to the end of what is kept, or of the part that was ended, so that a long part can be measured in pieces. BIOMBO_FIGURES_TAIL (600):
# seconds of the open loop.
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C PATH="${PATH:-/usr/bin:/bin}:${HOME:-}/.cargo/bin"

target=${CARGO_TARGET_DIR:-$PWD/target}
biombo=${BIOMBO:-$target/release/biombo}
kept=${BIOMBO_FIGURES:-$target/figures}
pairs=${BIOMBO_FIGURES_PAIRS:-9}
first=${BIOMBO_FIGURES_FIRST:-1}
tail_seconds=${BIOMBO_FIGURES_TAIL:-600}

fail() {
  echo "figures: $*" >&2
  exit 1
}

# What did not come to its end. The rest is measured all the same.
failed=()
missed() {
  failed+=("$part: $*")
  echo "figures: $part: $* failed; the lines above say why, and the others go on" >&2
}
# The end of it: the list of these, where there are any.
finish() {
  [ "${#failed[@]}" -gt 0 ] || exit 0
  printf 'figures: failed: %s\n' "${failed[@]}" >&2
  exit 1
}

log=(pairs others fill sync amplification tail larger index reference reopen)
moving=(keeps shifts groups multi-get skew stall watch route)
lab=(micro-operations micro-cache micro-memory)
graphs=(kernels large persistent churned streamed taken-in single real nodes)
declare -A what=(
  [pairs]='A to F of YCSB, os, 2 threads: log used directly and in 8 hard partitions, lmdb, tkrzw-hash'
  [others]='the same over the other peers, two rounds: to see which is the best one'
  [fill]='fillrandom and readrandom of db_bench, 16 + 100 bytes, 1 thread'
  [sync]='A at sync, 2 and 64 threads'
  [amplification]='write amplification: loading, then zipfian and uniform overwrites, and at sync'
  [tail]='A at os in an open loop at half of what log can do, with cleaning going on'
  [larger]='C, uniform, larger than memory, read by O_DIRECT and by mmap'
  [index]='the index beside other maps'
  [reference]='C with values read where they lie'
  [reopen]='opening after SIGKILL, 10 million records of 100 bytes'
  [keeps]='A to F with moving on and off, over log, lmdb and rocksdb: never a net loss'
  [shifts]='the same for loads that shift, one that reverses every plan among them'
  [groups]='atomic batches of groups that hashing scatters, at os (other groups after 8 s) and at sync (after 4 s)'
  [multi-get]='the same groups, read'
  [skew]='all of the load on one of two pinned workers: 2 threads over log and lmdb, 8 over log; batches of 50 over rocksdb and wiredtiger, 8 threads'
  [stall]='latencies while 1 GB moves and at rest, in an open loop, over log and lmdb'
  [watch]='what watching costs a store: A, C and batches, watched and not, by turns of 50 ms'
  [route]='routing with a million pinned keys, and what a sample costs'
  [kernels]='kernels over pma and the other changing layouts beside csr, 1 and 2 threads; bytes an edge'
  [large]='the same over csr and pma on a larger, denser graph: 2 million vertices, 145 million edges'
  [persistent]='the same over csr in memory and on persistent memory, which memory plays'
  [churned]='the same over pma, after a tenth of the edges was deleted and inserted again in random order'
  [streamed]='the same over pma while a million updates a second stream in'
  [taken-in]='ingest of shuffled edges: in memory, on persistent memory (played by memory) and on disk, 1 and 2 threads, batches of 32,768, five rounds'
  [single]='the same on persistent memory, each edge durable for itself'
  [real]='real graphs of ../shared/data where it is there: a stream in the order of time, and bytes an edge'
  [nodes]='pma and csr: placements on two nodes, virtual ones where the machine has one: edges of each node, times of kernels'
  [micro-operations]='10 million operations of A over micro-btree and micro-lsm, with their journals'
  [micro-cache]='A and C, uniform, over both: 256 MiB of data, four times the cache'
  [micro-memory]='the same with 512 MiB of data, four times the memory that a control group allows'
)

# Of parts that are made to a measure, where they take nine pairs.
declare -A minutes=([keeps]=20 [shifts]=40 [groups]=15 [multi-get]=5 [skew]=16 [stall]=9 [watch]=4 [route]=1)

# The lines of the bench that ended go to the end of the part's new file.
keep() {
  # One run that failed leaves the lines of the others; one that was killed while it wrote leaves half a line.
  if [ -s "$work.jsonl" ]; then
    head -n "$(wc -l <"$work.jsonl")" "$work.jsonl" >>"$new" || fail "cannot write $new"
  fi
  rm -f "$work.jsonl"
}
# Runs one bench. In the work directory, which is on the target's device, or `where` it is to be.
run() { # bench, options
  "$biombo" bench "$@" --dir "${where:-$work}" --json "$work.jsonl" || missed "bench $*"
  keep
}
# Somebody ends it all: what was measured of the part is kept beside what was there before.
ended() {
  trap '' INT TERM HUP
  if [ -n "$new" ]; then
    keep
    [ ! -s "$new" ] || echo "figures: $part was ended: what was measured of it is in $new, and what was there before stays" >&2
  fi
  exit 130
}

# The tables of each part: of runs of equal settings each. Where log was measured beside others they have its ratios to them too, round by
# round; the best of its layouts by median is taken, which they say. What moves stands beside what stays as it is in any case.
summary() {
  local file name beside=()
  for file in "$kept"/*.jsonl; do
    name=${file##*/}
    # What is being measured, and what was ended, is no part.
    [ -e "$file" ] && [[ "$name" != work.* && "$name" != *.new.jsonl ]] || continue
    # What graphs took stands in the tables of their runs.
    grep -q '"ops_per_s"' "$file" || continue
    part=$(basename "$file" .jsonl)
    echo
    echo "$part"
    beside=()
    if ! grep -q '"repartition":"[^o]' "$file" && grep -q '"engine":"log"' "$file"; then
      beside=(--beside log)
    fi
    "$biombo" bench show "$file" "${beside[@]}" || missed "bench show $file"
  done
}

case "${1:-}" in
  --list) for part in "${log[@]}" "${moving[@]}" "${lab[@]}" "${graphs[@]}"; do printf '%-16s %s%s\n' "$part" "${what[$part]}" "${minutes[$part]:+, ${minutes[$part]} min}"; done; exit 0 ;;
  --summary) summary; finish ;;
  '' | -*) fail "usage: scripts/figures.sh log | moving | lab | graphs | PART... | --list | --summary" ;;
esac
parts=()
for part; do
  case $part in
    log) parts+=("${log[@]}") ;;
    moving) parts+=("${moving[@]}") ;;
    lab) parts+=("${lab[@]}") ;;
    graphs) parts+=("${graphs[@]}") ;;
    *) parts+=("$part") ;;
  esac
done
for part in "${parts[@]}"; do
  [ -n "${what[$part]:-}" ] || fail "there is no part $part; scripts/figures.sh --list names them"
done
[ -x "$biombo" ] || fail "$biombo is not there; run make build"
mkdir -p "$kept" || fail "cannot write below $target"
work=$kept/work.$$
mkdir "$work" || fail "cannot write below $kept"
memory=/dev/shm/biombo-figures.$$
mkdir "$memory" 2>/dev/null || memory=$work
trap 'rm -rf "$work" "$work.jsonl" "$memory"' EXIT
new= # of the part that is being measured: its lines, until they are whole
trap ended INT TERM HUP

# 1 M records of 1,000 bytes, 2 s of each workload.
ycsb=(ycsb --records 1000000 --value-bytes 1000 --seconds 2 --threads 2)
rounds() { # how many, function: round by round, so that all take turns
  local round
  for ((round = first; round <= $1; round++)); do
    take_turns
    "$2" "$round"
  done
}

pairs_round() { # log in both layouts, and the best peers in one each
  run "${ycsb[@]}" --seed "$1" --workload a,b,c,d,f --engine log --partitioning none,hard --partitions 8
  run "${ycsb[@]}" --seed "$1" --workload a,b,c,d,f --engine lmdb,tkrzw-hash
  run "${ycsb[@]}" --seed "$1" --workload e --placement range --engine log --partitioning none,hard --partitions 8
  run "${ycsb[@]}" --seed "$1" --workload e --engine lmdb
}
others_round() {
  run "${ycsb[@]}" --seed "$1" --workload a,b,c,d,f --engine log,rocksdb,leveldb,wiredtiger,tkrzw-tree
  run "${ycsb[@]}" --seed "$1" --workload e --placement range --engine log --partitioning hard --partitions 8
  run "${ycsb[@]}" --seed "$1" --workload e --engine rocksdb,leveldb,wiredtiger,tkrzw-tree
}
fill_round() { # those that are not the best one take turns with it in two rounds
  local engines=log,lmdb,leveldb,wiredtiger
  [ "$1" -gt 2 ] || engines+=,rocksdb,tkrzw-tree,tkrzw-hash
  run db --benchmark fillrandom,readrandom --records 1000000 --threads 1 --seed "$1" --engine "$engines"
}
amplification() {
  run db --benchmark fillseq --records 1000000 --value-bytes 1000 --compression-ratio 1 --threads 2 --engine log,rocksdb,leveldb,lmdb
  local overwrite=(ycsb --records 1000000 --value-bytes 1000 --workload a)
  for distribution in zipfian uniform; do
    run "${overwrite[@]}" --distribution $distribution --engine log --operations 30000000 --space-amplification 1.33
    run "${overwrite[@]}" --distribution $distribution --engine rocksdb,leveldb,lmdb --operations 3000000
  done
  run ycsb --workload a --durability sync --records 100000 --threads 64 --operations 1000000 --engine log,rocksdb,leveldb,lmdb
}
half_rate() { # half of what log does in a closed loop, in thousands
  "$biombo" bench "${ycsb[@]}" --workload a --engine log --repeat 3 --dir "$work" --json "$work/rate.jsonl" >&2 || return 1
  sed -E 's/.*"ops_per_s":([0-9.e+]+),"latency_ns.*/\1/' "$work/rate.jsonl" | sort -g | awk 'NR == 2 { printf "%d\n", int($1 / 2000) * 1000 }'
}
tails() {
  local rate open=(ycsb --records 1000000 --value-bytes 1000 --workload a --threads 2)
  if rate=$(half_rate) && [ "${rate:-0}" -gt 0 ]; then
    run "${open[@]}" --engine log --rate "$rate" --seconds "$tail_seconds"
    run "${open[@]}" --engine null --rate "$rate" --seconds 60
  else
    missed "the closed loop, of which half is the rate of the open one,"
  fi
  # The peers cannot keep up with that rate: at half of what they do themselves.
  run "${open[@]}" --engine log,rocksdb,leveldb --rate 40000 --seconds 60
}
larger() {
  local c=(ycsb --workload c --distribution uniform --records 4000000 --value-bytes 1000 --seconds 8 --memory-bytes 1GiB --repeat 3)
  run "${c[@]}" --threads 2,32 --engine log,rocksdb --io direct --cache-bytes 256MiB
  run "${c[@]}" --threads 2,32 --engine log --io mmap --cache-bytes 256MiB
}

# Eight hard partitions that move or stay, by turns, in both placements: whoever knows his load takes the better one, whether they move or not.
# Runs are short, so it is asked five times a second whether a move would pay.
# Who goes first changes from round to round: what one leaves to the device meets both alike.
both() { if ((round % 2)); then echo "$1,$2"; else echo "$2,$1"; fi; }
take_turns() { turns=(--partitions 8 --repartition "$(both off 0.2s)"); }
keeps_round() {
  local data=(--engine log,lmdb,rocksdb --records 50000 --value-bytes 1000 --seconds 1.6 --seed "$1")
  run ycsb "${data[@]}" "${turns[@]}" --workload a,b,c,d,f --placement hash
  run ycsb "${data[@]}" "${turns[@]}" --workload a,b,c,d,e,f --placement range
}
shifts_round() {
  local data=(--engine log,lmdb,rocksdb --records 50000 --value-bytes 1000 --seconds 2.1 --seed "$1")
  local loads=jump,groups,crowd,slot,partition,adversary,rotate,monotonic
  run shift "${data[@]}" "${turns[@]}" --workload "$loads" --period 0.7 --placement hash
  run shift "${data[@]}" "${turns[@]}" --workload "$loads" --period 0.7 --placement range
  run shift "${data[@]}" "${turns[@]}" --workload worker --executor pinned --workers 2
}
# Groups are learnt in one to three seconds, twice in a run: once at its beginning, once when others take their place.
grouped=(shift --workload groups --engine log,lmdb --records 50000 --value-bytes 1000)
groups_round() { # all of it writes, or reads
  run "${grouped[@]}" --period 8 --seconds 16 --seed "$1" "${turns[@]}" --reads 0
  run "${grouped[@]}" --period 4 --seconds 8 --seed "$1" "${turns[@]}" --reads 0 --durability sync
}
multi_get_round() { run "${grouped[@]}" --period 4 --seconds 8 --seed "$1" "${turns[@]}" --reads 1; }
skew_round() {
  local skew=(shift --workload worker --period 0 --seed "$1" --executor pinned --workers 2)
  local single=(--records 50000 --value-bytes 1000) batches=(--records 100000 --value-bytes 50 --hot-records 40000 --group 50 --reads 0)
  run "${skew[@]}" "${single[@]}" --engine log,lmdb --seconds 10 "${turns[@]}"
  run "${skew[@]}" "${single[@]}" --engine log --seconds 6 "${turns[@]}" --threads 8
  # Of which a worker takes a whole processor, while handing over takes next to nothing.
  run "${skew[@]}" "${batches[@]}" --engine rocksdb,wiredtiger --seconds 10 "${turns[@]}" --threads 8
}

# Graphs: the GAP benchmark's, and one that is skewed. Kernels take turns within a run.
graph=(graph --graph kron:20:16 --trials 9)
taken_in=(graph --trials 1 --layout pma --kernel bfs --threads 1,2 --ingest)
taken_in_round() {
  run "${taken_in[@]}" --graph kron:20:16 --batch 32768 --media dram,disk
  where=$memory run "${taken_in[@]}" --graph kron:20:16 --batch 32768 --media pmem
}
single_round() { where=$memory run "${taken_in[@]}" --graph kron:18:16 --media pmem --batch 1; }
real_graphs() {
  local data=${BIOMBO_DATA:-$PWD/../shared/data} file
  [ -d "$data" ] || { echo "figures: $data is not there: real graphs are left out"; return; }
  # Nine tenths of it stream in as they came.
  for file in "$data"/graphs/sx-mathoverflow*; do run "${taken_in[@]}" --graph "$file" --media disk; done
  for file in "$data"/graphs/*; do run graph --graph "$file" --trials 3 --layout csr,pma --threads 2; done
}

# The lab's own engines; records of 512 bytes, uniform: what a cache or memory does not hold is read.
micro=(ycsb --engine micro-btree,micro-lsm --threads 2)
micro_larger=("${micro[@]}" --workload a,c --distribution uniform --value-bytes 496 --seconds 10 --repeat 3)

for part in "${parts[@]}"; do
  begun=$SECONDS
  echo
  echo "== $part: ${what[$part]}"
  new=$kept/$part.new.jsonl
  if [ "$first" -le 1 ]; then
    rm -f "$new"
  elif [ -s "$new" ]; then
    echo "figures: the rounds go to the end of those in $new"
  elif [ -e "$kept/$part.jsonl" ]; then
    cp "$kept/$part.jsonl" "$new" || fail "cannot write $new"
  fi
  case $part in
    pairs) rounds "$pairs" pairs_round ;;
    others) rounds 2 others_round ;;
    fill) rounds "$pairs" fill_round ;;
    sync)
      run ycsb --workload a --durability sync --records 100000 --seconds 2 --threads 2,64 --repeat "$pairs" \
        --engine log,lmdb,rocksdb,leveldb,wiredtiger ;;
    amplification) amplification ;;
    tail) tails ;;
    larger) larger ;;
    keeps) rounds "$pairs" keeps_round ;;
    shifts) rounds "$pairs" shifts_round ;;
    groups) rounds "$pairs" groups_round ;;
    multi-get) rounds "$pairs" multi_get_round ;;
    skew) rounds "$pairs" skew_round ;;
    watch)
      BIOMBO_WATCH_RECORDS=50000 BIOMBO_WATCH_ROUNDS=$pairs BIOMBO_WATCH_SLICES=40 BIOMBO_WATCH_DIR=$work \
        cargo bench --locked -p biombo --all-features --bench watching || missed "bench watching" ;;
    stall)
      BIOMBO_STALL_RECORDS=1000000 BIOMBO_STALL_ROUNDS=$pairs BIOMBO_STALL_SECONDS=3 BIOMBO_STALL_BYTES=1000000000 BIOMBO_STALL_ENGINES=log,lmdb BIOMBO_STALL_DIR=$work \
        cargo bench --locked -p biombo --all-features --bench stall || missed "bench stall" ;;
    route)
      cargo bench --locked -p biombo-store --bench route || missed "bench route"
      cargo bench --locked -p biombo-tracker --bench tracker || missed "bench tracker" ;;
    micro-operations) run "${micro[@]}" --workload a --records 1000000 --value-bytes 100 --operations 10000000 ;;
    micro-cache) run "${micro_larger[@]}" --records 524288 --cache-bytes 64MiB ;;
    micro-memory) run "${micro_larger[@]}" --records 1048576 --cache-bytes 64MiB --memory-bytes 128MiB ;;
    kernels)
      run "${graph[@]}" --layout csr,pma,adjacency,buffered --threads 1,2
      run graph --graph uniform:20:16 --trials 9 --layout csr,pma --threads 2 ;;
    churned) run "${graph[@]}" --layout csr,pma --threads 1,2 --churn 0.1 ;;
    streamed) run "${graph[@]}" --layout csr,pma --threads 2 --stream 1000000 ;;
    large) run graph --graph kron:21:38 --trials 5 --layout csr,pma --threads 2 ;;
    persistent) where=$memory run "${graph[@]}" --layout csr --media dram,pmem --threads 1,2 ;;
    taken-in) rounds 5 taken_in_round ;;
    single) rounds 5 single_round ;;
    real) real_graphs ;;
    nodes) run "${graph[@]}" --layout csr,pma --threads 2 --nodes 2 --placement block,round-robin,block-cyclic,degree,auto ;;
    index) BIOMBO_INDEX_KEYS=1000000 cargo bench --locked -p biombo-log --bench index || missed "bench index" ;;
    reference)
      BIOMBO_READ_RECORDS=1000000 BIOMBO_READ_ROUNDS=$pairs BIOMBO_READ_SECONDS=1.5 BIOMBO_READ_DIR=$work \
        cargo bench --locked -p biombo --all-features --bench by_reference || missed "bench by_reference" ;;
    reopen)
      BIOMBO_REOPEN_RECORDS=10000000 BIOMBO_REOPEN_ENGINES=log,rocksdb,lmdb BIOMBO_REOPEN_DIR=$work \
        cargo bench --locked -p biombo --all-features --bench reopen || missed "bench reopen" ;;
  esac
  # All of it was measured.
  if [ -s "$new" ]; then
    mv -f "$new" "$kept/$part.jsonl" || fail "cannot write $kept/$part.jsonl"
  fi
  new=
  # Of rounds that moved, one table.
  case " ${moving[*]} " in
    *" $part "*) [ ! -e "$kept/$part.jsonl" ] || "$biombo" bench show "$kept/$part.jsonl" --html "$kept/$part.html" || missed "its page" ;;
  esac
  echo "== $part took $((SECONDS - begun)) s"
done
summary
finish
