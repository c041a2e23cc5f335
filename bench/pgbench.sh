#!/usr/bin/env bash
# Coeval beside PostgreSQL under the same loads, in the same run, on this machine.
# What it does, and what makes the comparison unfair: bench/README.md.
#
#   bench/pgbench.sh [--seconds 10] [--scale 10] [--repeat 3] [--only NAME[,NAME…]]
#                    [--coeval BINARY] [--folder DIR] [--no-record]
#
# Ends with 0 when every answer was right, also when an aim was missed: a ratio is a
# measurement, a wrong balance is a fault.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

seconds=10
scale=10
repeat=3
only=
coeval=
parent=${TMPDIR:-/tmp}
keep_record=yes
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=$2; shift 2 ;;
        --scale) scale=$2; shift 2 ;;
        --repeat) repeat=$2; shift 2 ;;
        --only) only=$2; shift 2 ;;
        --coeval) coeval=$2; shift 2 ;;
        --folder) parent=$2; shift 2 ;;
        --no-record) keep_record=no; shift ;;
        *) sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
    esac
done

# name, least ratio aimed at (- for none), clients, script, pgbench arguments
LOADS=(
    "tpcb-prepared-8    2.0  8 tpcb   -M prepared"
    "tpcb-prepared-32   2.0 32 tpcb   -M prepared"
    "tpcb-simple-8        -  8 tpcb   -M simple"
    "select-simple-8    2.0  8 select -M simple -S"
    "select-prepared-8  1.4  8 select -M prepared -S"
    "update-prepared-8    -  8 update -M prepared -N"
    "hot-row-32         3.0 32 hot    -M prepared -n -f $here/hot-row.sql"
)

note() { printf '%s\n' "$*" >&2; }
fail() { note "pgbench.sh: $*"; exit 1; }

# --- Programs --------------------------------------------------------------------

find_postgres() {
    local folder
    for folder in "$(pg_config --bindir 2>/dev/null || true)" \
        $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) \
        /usr/local/pgsql/bin /usr/local/bin /usr/bin; do
        if [ -x "$folder/postgres" ] && [ -x "$folder/initdb" ]; then
            printf '%s\n' "$folder"
            return
        fi
    done
    fail "no PostgreSQL server found (Debian: apt-get install postgresql)"
}

pg_bin=$(find_postgres)
pgbench=$(command -v pgbench || printf '%s/pgbench' "$pg_bin")
psql=$(command -v psql || printf '%s/psql' "$pg_bin")
[ -x "$pgbench" ] || fail "no pgbench found"

if [ -z "$coeval" ]; then
    (cd "$root" && cargo build --release --quiet -p coeval-server --bin coeval)
    coeval=${CARGO_TARGET_DIR:-$root/target}/release/coeval
fi

# PostgreSQL refuses to run as root.
as_user=()
user=$(id -un)
if [ "$(id -u)" -eq 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    as_user=(setpriv "--reuid=$user" "--regid=$(id -gn "$user")" --clear-groups)
fi

# --- Servers ---------------------------------------------------------------------

work=$(mktemp -d "$parent/coeval-bench-XXXXXX")
chmod 755 "$work"
processes=()
finish() {
    local id
    for id in "${processes[@]}"; do kill -TERM "$id" 2>/dev/null || true; done
    for id in "${processes[@]}"; do wait "$id" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 20000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    printf '%s\n' "$port"
}

# The port of a system: both are spoken to over loopback TCP in the same way.
declare -A port
port[postgres]=$(free_port)
port[coeval]=$(free_port)
while [ "${port[coeval]}" = "${port[postgres]}" ]; do port[coeval]=$(free_port); done

export PGUSER=postgres PGDATABASE=postgres PGHOST=127.0.0.1
unset PGPORT PGPASSWORD PGOPTIONS PGSERVICE
sql() { "$psql" -X -q -A -t -v ON_ERROR_STOP=1 -p "${port[$1]}" -c "$2"; }

wait_for() {
    local tries=0
    until sql "$1" 'SELECT 1' >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { tail -n 20 "$work/$1.log" >&2; fail "$1 does not answer"; }
        sleep 0.1
    done
}

start_postgres() {
    install -d -o "$user" -m 700 "$work/postgres"
    "${as_user[@]}" "$pg_bin/initdb" -D "$work/postgres" -U postgres -A trust -E UTF8 \
        --no-locale >"$work/initdb.log" 2>&1 || { cat "$work/initdb.log" >&2; fail "initdb failed"; }
    # Room for the whole database in memory and no checkpoint within a run: both help
    # PostgreSQL. Durability stays as it is by default.
    (cd "$work/postgres" && exec "${as_user[@]}" "$pg_bin/postgres" -D "$work/postgres" \
        -p "${port[postgres]}" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
        -c fsync=on -c synchronous_commit=on -c shared_buffers=1GB -c max_wal_size=8GB \
        -c checkpoint_timeout=1h) >"$work/postgres.log" 2>&1 &
    processes+=($!)
    wait_for postgres
}

start_coeval() {
    "$coeval" start --data-dir "$work/coeval" --listen "127.0.0.1:${port[coeval]}" \
        >"$work/coeval.log" 2>&1 &
    processes+=($!)
    wait_for coeval
}

# --- The record ------------------------------------------------------------------

commit=$(git -C "$root" rev-parse --short=10 HEAD 2>/dev/null || echo unknown)
[ -z "$(git -C "$root" status --porcelain 2>/dev/null | grep -v '^?? bench/record')" ] || commit=$commit-changed
record=$work/record
[ "$keep_record" = no ] || record=$here/record/$(date -u +%Y-%m-%d)-$commit
mkdir -p "$record"

machine_facts() {
    echo "date: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
    echo "commit: $commit"
    echo "coeval: $("$coeval" --version 2>/dev/null || echo unknown)"
    echo "postgres: $("$pg_bin/postgres" --version)"
    echo "pgbench: $("$pgbench" --version)"
    echo "rustc: $(rustc --version 2>/dev/null || echo unknown)"
    echo "kernel: $(uname -srvm)"
    echo "load average before: $(cut -d' ' -f1-3 /proc/loadavg)"
    grep MemTotal /proc/meminfo
    echo "file system of the data: $(df -PT "$work" | awk 'NR == 2 { print $2, $1 }')"
    echo "seconds $seconds, scale $scale, repetitions $repeat"
    echo
    lscpu
    echo
    if [ -x "$pg_bin/pg_test_fsync" ]; then
        # Only the method that both use matters.
        "$pg_bin/pg_test_fsync" -s 1 -f "$work/fsync-probe" 2>/dev/null |
            awk '/one 8kB write/ { one = 1 } /two 8kB writes/ { one = 0 } one && /^ *fdatasync/ { print "one 8 kB write and fdatasync:", $2, $3 "; " $4, $5 }' || true
    fi
}

# --- Runs ------------------------------------------------------------------------

sums() {
    sql "$1" 'SELECT sum(abalance) FROM pgbench_accounts'
    sql "$1" 'SELECT sum(tbalance) FROM pgbench_tellers'
    sql "$1" 'SELECT sum(bbalance) FROM pgbench_branches'
    sql "$1" 'SELECT sum(delta) FROM pgbench_history'
}

# The invariant of TPC-B, on how far the run moved each sum: pgbench empties the
# history when a run starts.
check_balances() {
    local system=$1 script=$2 before=$3 after=$4 b=() a=() i moved=()
    mapfile -t b <<<"$before"
    mapfile -t a <<<"$after"
    for i in 0 1 2; do moved[i]=$((${a[i]:-0} - ${b[i]:-0})); done
    local history=${a[3]:-0}
    local expected="$history $history $history"
    [ "$script" = update ] && expected="$history 0 0"
    [ "$script" = select ] && expected="0 0 0"
    [ "${moved[*]}" = "$expected" ] ||
        fail "$system, $script: accounts, tellers, branches moved by ${moved[*]}, expected $expected"
}

# Runs one load once on one system and prints its transactions per second.
run_once() {
    local system=$1 name=$2 clients=$3 script=$4 turn=$5
    shift 5
    local output=$record/$name.$system.$turn.txt before after
    if [ "$script" = hot ]; then
        before=$(sql "$system" 'SELECT value FROM hot WHERE id = 1')
    else
        before=$(sums "$system")
    fi
    "$pgbench" -p "${port[$system]}" -c "$clients" -j 2 -T "$seconds" "$@" \
        >"$output" 2>&1 || { cat "$output" >&2; fail "$name on $system failed"; }
    # The record names a script by its place in the repository.
    sed -i "s#$root/##g" "$output"
    grep -q 'number of failed transactions: 0 ' "$output" ||
        { cat "$output" >&2; fail "$name on $system had failed transactions"; }
    if [ "$script" = hot ]; then
        after=$(sql "$system" 'SELECT value FROM hot WHERE id = 1')
        local processed
        processed=$(awk '/number of transactions actually processed/ { split($NF, n, "/"); print n[1] }' "$output")
        [ $((after - before)) -eq "$processed" ] ||
            fail "$name on $system: $processed transactions moved the row by $((after - before))"
    else
        after=$(sums "$system")
        check_balances "$system" "$script" "$before" "$after"
    fi
    awk '/^tps = / { printf "%.0f\n", $3 }' "$output"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

note "PostgreSQL: $("$pg_bin/postgres" --version), as $user"
note "Coeval: $coeval"
start_postgres
start_coeval
machine_facts >"$record/machine.txt"
for system in postgres coeval; do
    note "filling $system, scale $scale"
    "$pgbench" -p "${port[$system]}" -i -q -s "$scale" >"$record/initialize.$system.txt" 2>&1 ||
        { cat "$record/initialize.$system.txt" >&2; fail "pgbench -i failed on $system"; }
    sql "$system" 'CREATE TABLE hot (id int PRIMARY KEY, value bigint NOT NULL)'
    sql "$system" 'INSERT INTO hot VALUES (1, 0)'
    # The first run of all pays for cold caches; it is not counted.
    "$pgbench" -p "${port[$system]}" -c 8 -j 2 -T 2 -S >/dev/null 2>&1
done
sql postgres 'CHECKPOINT'

results=$record/results.tsv
printf 'load\tturn\tsystem\ttps\n' >"$results"
for ((turn = 1; turn <= repeat; turn++)); do
    for load in "${LOADS[@]}"; do
        read -r name aim clients script arguments <<<"$load"
        [ -z "$only" ] || [[ ",$only," == *",$name,"* ]] || continue
        # Who goes first alternates, so that neither always meets the warmer machine.
        order=(postgres coeval)
        [ $((turn % 2)) -eq 1 ] || order=(coeval postgres)
        for system in "${order[@]}"; do
            # shellcheck disable=SC2086 — the arguments are words
            tps=$(run_once "$system" "$name" "$clients" "$script" "$turn" $arguments)
            printf '%s\t%s\t%s\t%s\n' "$name" "$turn" "$system" "$tps" >>"$results"
            note "$(printf '%-18s turn %s/%s %-9s %8s tps' "$name" "$turn" "$repeat" "$system" "$tps")"
        done
    done
done

{
    printf '%-18s %12s %12s %7s %5s  %s\n' load postgres coeval ratio aim ''
    for load in "${LOADS[@]}"; do
        read -r name aim _ <<<"$load"
        grep -q "^$name	" "$results" || continue
        theirs=$(awk -F'\t' -v n="$name" '$1 == n && $3 == "postgres" { print $4 }' "$results" | median)
        ours=$(awk -F'\t' -v n="$name" '$1 == n && $3 == "coeval" { print $4 }' "$results" | median)
        awk -v name="$name" -v theirs="$theirs" -v ours="$ours" -v aim="$aim" 'BEGIN {
            ratio = ours / theirs
            verdict = aim == "-" ? "" : (ratio >= aim ? "reached" : "below")
            printf "%-18s %12.0f %12.0f %7.2f %5s  %s\n", name, theirs, ours, ratio, aim, verdict
        }'
    done
    echo
    echo "transactions per second, medians of $repeat; balances verified after each run"
} | tee "$record/summary.txt"
[ "$keep_record" = no ] || note "raw results: $record"
