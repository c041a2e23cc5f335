#!/usr/bin/env bash
# Where a server's processor time goes under the loads of pgbench.sh, by perf.
#
#   bench/profile.sh [--seconds 6] [--scale 10] [--coeval BINARY] [--output FILE] [--trial]
#
# Prints for each load: transactions per second, the server's processor time for each
# transaction, its shares by module (kernel, coeval, libc) and the first symbols.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=bench/common.sh
. "$here/common.sh"
seconds=6
scale=10
coeval=
output=/dev/stdout
read_options "seconds scale coeval output" "$@"
command -v perf >/dev/null || { echo "profile.sh: no perf found (Debian: linux-perf)" >&2; exit 1; }
[ -n "$coeval" ] || coeval=$(built coeval-cli coeval)
refuse_other_profiles "$coeval"

work=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || { kill -TERM "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "$work"
}
trap finish EXIT
port=$((20000 + RANDOM % 20000))
export PGHOST=127.0.0.1 PGPORT=$port PGUSER=postgres PGDATABASE=postgres
"$coeval" start --data-dir "$work/data" --listen "127.0.0.1:$port" >"$work/log" 2>&1 &
server=$!
until psql -X -q -c 'SELECT 1' >/dev/null 2>&1; do
    kill -0 "$server" || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
done
pgbench -i -q -s "$scale" >"$work/initialize" 2>&1
psql -X -q -c 'CREATE TABLE hot (id int PRIMARY KEY, value bigint NOT NULL)' \
    -c 'INSERT INTO hot VALUES (1, 0)'

# User and system time of the server so far, in clock ticks.
ticks() { sed 's/.*) //' "/proc/$server/stat" | awk '{ print $12 + $13 }'; }

profile() {
    local name=$1 before after transactions
    shift
    before=$(ticks)
    perf record -q -F 499 -g -o "$work/perf" -p "$server" -- sleep "$seconds" 2>/dev/null &
    local recorder=$!
    pgbench -j 2 -T "$seconds" "$@" >"$work/pgbench" 2>&1
    after=$(ticks)
    wait "$recorder" || true
    transactions=$(awk '/actually processed/ { split($NF, n, "/"); print n[1] }' "$work/pgbench")
    echo "== $name"
    awk -v t="$transactions" -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" \
        '/^tps = / { printf "%.0f transactions a second, %.1f µs of the server'\''s processor time for each\n", $3, ticks / hz / t * 1e6 }' \
        "$work/pgbench"
    perf report -i "$work/perf" --no-children --stdio -g none --sort dso 2>/dev/null |
        awk '/^ +[0-9.]+%/ && n++ < 4 { print "   ", $1, $2 }'
    perf report -i "$work/perf" --no-children --stdio -g none --sort comm,symbol 2>/dev/null |
        awk '/^ +[0-9.]+%/ && n++ < 20 { sub(/ +-  +-.*$/, ""); print }'
    echo
}

{
    profile "TPC-B prepared, 8 clients" -c 8 -M prepared
    profile "TPC-B simple, 8 clients" -c 8 -M simple
    profile "select-only prepared, 8 clients" -c 8 -M prepared -S
    profile "select-only simple, 8 clients" -c 8 -M simple -S
    profile "one hot row, 32 clients" -c 32 -M prepared -n -f "$here/hot-row.sql"
} >"$output"
