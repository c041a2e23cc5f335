#!/usr/bin/env bash
# Writes PostgreSQL's answers into locks.txt: for each pair of its statements, whether the
# second transaction waits for the first.
#
#   PGHOST=… PGPORT=… crates/sql/tests/golden/record_locks.sh
#
# It drops the schema public of that database first. PostgreSQL 15. A statement that waits
# is told from one that does not by its lock_timeout, so a slow machine changes nothing.
set -euo pipefail
file=$(cd "$(dirname "$0")" && pwd)/locks.txt

psql -qX -c 'drop schema if exists public cascade' -c 'create schema public' 2>/dev/null
psql -qX -c 'create table t (a int primary key, b int)' \
    -c 'insert into t values (1, 1), (2, 2)'
coproc FIRST { psql -qAtX 2>&1; }
coproc SECOND { psql -qAtX 2>&1; }

# Runs statements in a session, and prints what it says.
run() { # input, output, statements
    local line
    printf '%s;\n\\echo \001\n' "$3" >&"$1"
    while IFS= read -r line <&"$2" && [ "$line" != $'\001' ]; do
        printf '%s\n' "$line"
    done
}
first() { run "${FIRST[1]}" "${FIRST[0]}" "$1"; }
second() { run "${SECOND[1]}" "${SECOND[0]}" "$1"; }

mapfile -t statements < <(sed -n 's/^s //p' "$file")
second "set lock_timeout = '50ms'"
{
    grep -v '^m ' "$file"
    for one in "${statements[@]}"; do
        line=
        for other in "${statements[@]}"; do
            first "begin; ${one//\$n/1}" >/dev/null
            said=$(second "begin; ${other//\$n/2}")
            case $said in
            *'lock timeout'*) line+=X ;;
            *ERROR*) echo "$other after $one: $said" >&2 && exit 1 ;;
            *) line+=. ;;
            esac
            second rollback
            first rollback
        done
        printf 'm %s\n' "$line"
    done
} >"$file.new"
mv "$file.new" "$file"
