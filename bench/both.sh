# shellcheck shell=bash
# PostgreSQL and Coeval side by side, both durable, both over loopback TCP: what the
# scripts of this folder that compare them have in common. It is sourced, and takes
#
#   here, root     this folder and the repository's
#   coeval         Coeval's binary; empty: it is built here
#   folder         where a folder for data is made, which goes at the end
#   keep_record, trial
#                  yes or no; common.sh, which has been sourced, reads these
#
# and gives pg_bin, psql, coeval, work, port[], sql, start_postgres, start_coeval,
# record, facts, ratios.

note() { printf '%s\n' "$*" >&2; }
fail() { note "$(basename "$0"): $*"; exit 1; }

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
psql=$(command -v psql || printf '%s/psql' "$pg_bin")

[ -n "$coeval" ] || coeval=$(built coeval-cli coeval)
refuse_other_profiles "$coeval"

# PostgreSQL refuses to run as root.
as_user=()
user=$(id -un)
if [ "$(id -u)" -eq 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    as_user=(setpriv "--reuid=$user" "--regid=$(id -gn "$user")" --clear-groups)
fi

# --- Servers ---------------------------------------------------------------------

work=$(mktemp -d "$folder/coeval-bench-XXXXXX")
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

record=$work/record
[ "$keep_record" = no ] || record=$root/$(cd "$root" && record_folder)
mkdir -p "$record"

# The conditions that figures of the two systems must be read with.
facts() {
    (cd "$root" && machine_facts)
    echo "coeval: $("$coeval" --version 2>/dev/null || echo unknown)"
    echo "postgres: $("$pg_bin/postgres" --version)"
    echo "file system of the data: $(df -PT "$work" | awk 'NR == 2 { print $2, $1 }')"
    if [ -x "$pg_bin/pg_test_fsync" ]; then
        # Only the method that both use matters.
        "$pg_bin/pg_test_fsync" -s 1 -f "$work/fsync-probe" 2>/dev/null |
            awk '/one 8kB write/ { one = 1 } /two 8kB writes/ { one = 0 } one && /^ *fdatasync/ { print "one 8 kB write and fdatasync:", $2, $3 "; " $4, $5 }' || true
    fi
}

median() { sort -n | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# ratios RESULTS NAME AIM …: a table of medians, from lines of load, turn, system and
# transactions per second; an aim of - is none.
ratios() {
    local results=$1 name aim theirs ours
    shift
    printf '%-22s %12s %12s %7s %5s  %s\n' load postgres coeval ratio aim ''
    while [ $# -gt 0 ]; do
        name=$1 aim=$2
        shift 2
        grep -q "^$name	" "$results" || continue
        theirs=$(awk -F'\t' -v n="$name" '$1 == n && $3 == "postgres" { print $4 }' "$results" | median)
        ours=$(awk -F'\t' -v n="$name" '$1 == n && $3 == "coeval" { print $4 }' "$results" | median)
        awk -v name="$name" -v theirs="$theirs" -v ours="$ours" -v aim="$aim" 'BEGIN {
            ratio = ours / theirs
            verdict = aim == "-" ? "" : (ratio >= aim ? "reached" : "below")
            printf "%-22s %12.0f %12.0f %7.2f %5s  %s\n", name, theirs, ours, ratio, aim, verdict
        }'
    done
}
