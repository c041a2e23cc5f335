#!/usr/bin/env bash
# Tries the unit and what the image runs, on a Debian of its own below a temporary
# folder: the unit under a booted systemd (started, killed, reloaded, stopped), and the
# last stage of the Dockerfile by its own lines in a chroot, for building an image takes
# a registry. Nothing outside of that folder is changed.
#
#   deploy/try.sh target/dist/coeval
#
# Needs root, debootstrap, systemd-nspawn, psql; two minutes, most of them debootstrap's.
set -euo pipefail
binary=$(realpath "${1:?the path of a coeval binary}")
here=$(cd "$(dirname "$0")" && pwd)
for tool in debootstrap systemd-nspawn nsenter psql; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2; exit 2; }
done

folder=$(mktemp -d)
root=$folder/debian
nspawn=
clean() {
    [ -z "$nspawn" ] || kill "$nspawn" 2>/dev/null && wait "$nspawn" 2>/dev/null || true
    rm -rf --one-file-system "$folder"
}
trap clean EXIT

say() { printf '%-60s %s\n' "$1" ok; }
fail() { echo "FAILED: $1" >&2; exit 1; }
within_a_minute() {
    for _ in $(seq 240); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.25
    done
    return 1
}

debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$root" >"$folder/debootstrap.log" 2>&1 ||
    { cat "$folder/debootstrap.log" >&2; exit 2; }
install -m 0755 "$binary" "$root/usr/local/bin/coeval"

# As docs/operations/install.md has it.
chroot "$root" useradd --system --home-dir /var/lib/coeval --shell /usr/sbin/nologin coeval
install -D -m 0644 "$here/coeval.toml" "$root/etc/coeval/coeval.toml"
install -D -m 0644 "$here/coeval.service" "$root/etc/systemd/system/coeval.service"
chroot "$root" systemctl --quiet enable coeval

systemd-nspawn --quiet --register=no --keep-unit --private-network -D "$root" --boot \
    --machine="coeval-try-$$" >"$folder/boot.log" 2>&1 </dev/null &
nspawn=$!
init() { pgrep --parent "$nspawn" | head -n 1; }
inside() { nsenter --target "$(init)" --all -- "$@"; }
query() { nsenter --target "$(init)" --net -- psql -X -h 127.0.0.1 -p 5433 -U visitor -Atc "$1"; }
main_pid() { inside systemctl show coeval --property MainPID --value; }

within_a_minute query 'SELECT 1' || { cat "$folder/boot.log"; fail "the unit does not come up"; }
say "the unit starts with the machine"
query 'CREATE TABLE kept (id int PRIMARY KEY)' >/dev/null
query 'INSERT INTO kept VALUES (1), (2)' >/dev/null
before=$(main_pid)
inside kill -9 "$before" 2>/dev/null || inside sh -c "kill -9 $before"
within_a_minute query 'SELECT 1' || fail "it does not come back"
[ "$(query 'SELECT count(*) FROM kept')" = 2 ] || fail "rows are gone"
[ "$(main_pid)" != "$before" ] || fail "it was not killed"
say "killed, it is started again with what it held"
inside systemctl reload coeval || fail "reload"
inside journalctl --unit coeval --no-pager | grep -q 'read again' || fail "reload reads nothing"
say "reload reads the access file again"
inside systemctl stop coeval
[ "$(inside systemctl show coeval --property Result --value)" = success ] || fail "stop"
say "stop ends in order"
inside systemctl poweroff || true
wait "$nspawn" || true
nspawn=

# The image: its last stage's own lines of RUN and ENV.
stage=$(sed -n '/^FROM debian/,$p' "$here/Dockerfile" | sed -e ':join' -e '/\\$/N; s/\\\n//; t join')
chroot "$root" userdel coeval
rm -rf "$root/var/lib/coeval"
chroot "$root" sh -euc "$(sed -n 's/^RUN //p' <<<"$stage")" 2>/dev/null
mapfile -t settings < <(sed -n 's/^ENV //p' <<<"$stage" | xargs -n 1)
health=$(sed -n 's/^ *CMD \["bash", "-c", \(".*"\)\]/\1/p' "$here/Dockerfile")
health=$(sed 's/\\\(["\\]\)/\1/g' <<<"${health:1:-1}")
unshare --net -- sh -c 'ip link set lo up && exec "$@"' sh \
    chroot --userspec=coeval:coeval "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin \
    "${settings[@]}" coeval start >"$folder/image.log" 2>&1 &
server=$!
healthy() {
    nsenter --target "$server" --net -- chroot "$root" env "${settings[@]}" bash -c "$health"
}
within_a_minute healthy || { cat "$folder/image.log"; kill "$server"; fail "the image's check"; }
say "the image's last stage runs and its health check passes"
kill -TERM "$server"
wait "$server" || fail "the image's server does not stop in order"
say "SIGTERM stops it in order"
