#!/bin/sh
# Makes the fixtures of one format of data directories, which every later build must open:
#
#   make.sh BINARY FOLDER    as in   make.sh /somewhere/target/debug/coeval 807602d
#
# with the binary of the last commit that writes the format, after whose short hash the folder
# is named. The test `formats` finds each folder by itself. psql is needed.
#
#   data.tar.gz             one server's directory; the server was killed
#   backup.tar.gz           a backup of it
#   cluster.tar.gz          the directories of three nodes that two leaders wrote to
#   cluster-backup.tar.gz   a backup of them
#   rows.txt                what rows.sql answers on each of them
set -eu
binary=$1
here=$(cd "$(dirname "$0")" && pwd)
into=$here/$2
work=$(mktemp -d)
trap 'kill $(cat "$work"/*.pid) 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir -p "$into"
port=$((20000 + $$ % 10000))

# A reserve of disk space is zeros: a small one shows what it is.
export COEVAL_DISK_RESERVE_BYTES=1048576

ask() { psql -X -q -At -v ON_ERROR_STOP=1 -h 127.0.0.1 -U coeval -d coeval "$@"; }
await() { until ask -p "$1" -c 'select 1' >"$work/asked" 2>&1; do sleep 0.2; done; }
# A tar file that depends on nothing but the files.
pack() {
    tar -C "$work" --sort=name --owner=0 --group=0 --mtime=@0 -cS "$2" | gzip -9n >"$into/$1"
}

"$binary" start --data-dir "$work/data" --listen "127.0.0.1:$port" 2>"$work/log" &
echo $! >"$work/server.pid"
await $port
ask -p $port -f "$here/fill.sql"
ask -p $port -f "$here/rows.sql" >"$into/rows.txt"
"$binary" backup --url "postgres://coeval@127.0.0.1:$port" --to "$work/backup"
kill -9 "$(cat "$work/server.pid")"
rm "$work/server.pid"
pack data.tar.gz data
pack backup.tar.gz backup

cluster=0123456789abcdef0123456789abcdef
members=1=127.0.0.1:$((port + 11)),2=127.0.0.1:$((port + 12)),3=127.0.0.1:$((port + 13))
mkdir "$work/cluster"
for node in 1 2 3; do
    "$binary" start --data-dir "$work/cluster/node-$node" --listen "127.0.0.1:$((port + node))" \
        --cluster-node $node --cluster-id $cluster --cluster-members "$members" \
        --cluster-found 2>"$work/log-$node" &
    echo $! >"$work/node-$node.pid"
done
await $((port + 1))
# The newest kinds of entries are in the log once every member reads them.
held='select condition like $$%held back%$$ from coeval.cluster_status'
while [ "$(ask -p $((port + 1)) -c "$held")" != f ]; do sleep 0.2; done
# Half of it under one leader, the rest under the next.
sed '/^checkpoint;/q' "$here/fill.sql" >"$work/first.sql"
sed '1,/^checkpoint;/d' "$here/fill.sql" >"$work/rest.sql"
ask -p $((port + 1)) -f "$work/first.sql"
url=postgres://coeval@127.0.0.1:$((port + 1))
# One of the two is not the leader, so the term changes.
for node in 2 3; do
    "$binary" cluster transfer --url "$url" $node
    await $((port + 1))
done
ask -p $((port + 1)) -f "$work/rest.sql"
ask -p $((port + 1)) -f "$here/rows.sql" | cmp - "$into/rows.txt"
"$binary" backup --url "$url" --to "$work/cluster-backup"
for node in 3 2 1; do
    kill "$(cat "$work/node-$node.pid")"
    while kill -0 "$(cat "$work/node-$node.pid")" 2>/dev/null; do sleep 0.1; done
    rm "$work/node-$node.pid"
done
pack cluster.tar.gz cluster
pack cluster-backup.tar.gz cluster-backup
ls -l "$into"
