# shellcheck shell=bash
# Several servers of one system: three nodes of Coeval, and PostgreSQL with a synchronous
# standby. To be sourced after both.sh; gives
#
#   start_standby    a standby of the started PostgreSQL, whose port is port[standby]
#   set_commit HOW   what PostgreSQL's standby acknowledges: on, or remote_apply
#   start_three      three nodes; node[N] is the port of node N, admin[N] that of its metrics,
#                    process[N] its process, and port[coeval-three] that of node 1
#   leader           which node leads, in which term

start_standby() {
    port[standby]=$(free_port)
    install -d -o "$user" -m 700 "$work/postgres-standby"
    "${as_user[@]}" "$pg_bin/pg_basebackup" -h 127.0.0.1 -p "${port[postgres]}" -U postgres \
        -D "$work/postgres-standby" -R -X stream --checkpoint=fast 2>"$work/basebackup.log" ||
        { cat "$work/basebackup.log" >&2; fail "pg_basebackup failed"; }
    (cd "$work/postgres-standby" && exec "${as_user[@]}" "$pg_bin/postgres" \
        -D "$work/postgres-standby" -p "${port[standby]}" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= -c shared_buffers=1GB -c max_wal_size=8GB \
        -c checkpoint_timeout=1h) >"$work/postgres-standby.log" 2>&1 &
    processes+=($!)
    sql postgres "ALTER SYSTEM SET synchronous_standby_names = '*'"
    sql postgres 'SELECT pg_reload_conf()' >/dev/null
    local tries=0
    until [ "$(sql postgres "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")" = 1 ]; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] ||
            { tail -n 20 "$work/postgres-standby.log" >&2; fail "the standby is not synchronous"; }
        sleep 0.1
    done
}

# The server's own command line says `on`, which only what is set for a role goes before.
set_commit() {
    sql postgres "ALTER ROLE postgres SET synchronous_commit = '$1'"
    [ "$(sql postgres 'SHOW synchronous_commit')" = "$1" ] || fail "PostgreSQL does not take $1"
}

declare -A node admin process
start_three() {
    local members= n
    declare -A between
    for n in 1 2 3; do
        node[$n]=$(free_port)
        between[$n]=$(free_port)
        # shellcheck disable=SC2034 — for the scripts that source this
        admin[$n]=$(free_port)
        members+=${members:+,}$n=127.0.0.1:${between[$n]}
    done
    for n in 1 2 3; do
        "$coeval" start --data-dir "$work/three-$n" --listen "127.0.0.1:${node[$n]}" \
            --admin-listen "127.0.0.1:${admin[$n]}" \
            --cluster-id 000102030405060708090a0b0c0d0e0f --cluster-node "$n" \
            --cluster-listen "127.0.0.1:${between[$n]}" --cluster-members "$members" \
            --cluster-found \
            >"$work/three-$n.log" 2>&1 &
        processes+=($!)
        # shellcheck disable=SC2034 — for the scripts that source this
        process[$n]=$!
    done
    port[coeval-three]=${node[1]}
    wait_for coeval-three
}

leader() { sql coeval-three 'SELECT leader, term FROM coeval.cluster_status'; }
