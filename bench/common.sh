# shellcheck shell=bash
# Functions shared by the scripts of this folder; to be sourced.

# The head of the script that was called.
usage() {
    awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"
    exit 2
}

# read_options "NAME …" "$@": sets the variable of each name that follows --NAME,
# keep_record to no for --no-record, and trial to yes for --trial, which keeps no record.
read_options() {
    local names=" $1 " name
    shift
    keep_record=yes
    trial=no
    while [ $# -gt 0 ]; do
        name=${1#--}
        if [ "$1" = --no-record ]; then
            keep_record=no
            shift
        elif [ "$1" = --trial ]; then
            trial=yes
            keep_record=no
            shift
        elif [ "$1" != "$name" ] && [[ $names == *" $name "* ]] && [ $# -ge 2 ]; then
            printf -v "$name" %s "$2"
            shift 2
        else
            usage
        fi
    done
}

# built PACKAGE PROGRAM: builds a program of this source and prints where it lies. Figures are
# of the profile dist; a trial takes release, which builds faster.
built() {
    local root profile=dist
    root=$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")
    [ "$trial" = no ] || profile=release
    (cd "$root" && cargo build --profile "$profile" --quiet -p "$1" --bin "$2") || return
    printf '%s/%s/%s\n' "${CARGO_TARGET_DIR:-$root/target}" "$profile" "$2"
}

# refuse_other_profiles COEVAL: ends the script unless this binary says that it is of the
# profile dist, or this is a trial.
refuse_other_profiles() {
    local said
    said=$("$1" --version 2>&1) || said="nothing, for it cannot be run"
    case $said in *'(dist)') return 0 ;; esac
    if [ "$trial" = yes ]; then
        printf '%s: a trial, of which no record is kept: %s says %s\n' "$(basename "$0")" "$1" "$said" >&2
        return 0
    fi
    printf '%s: %s says %s; figures are of builds with --profile dist only, unless --trial is said\n' \
        "$(basename "$0")" "$1" "$said" >&2
    exit 1
}

# The conditions that figures must be read with.
machine_facts() {
    printf 'date: %s\n' "$(date -u +%FT%TZ)"
    printf 'commit: %s\n' "$(commit)"
    printf 'rustc: %s\n' "$(rustc --version 2>/dev/null || echo unknown)"
    printf 'kernel: %s\n' "$(uname -srvm)"
    printf 'load average before: %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)"
    grep MemTotal /proc/meminfo
    lscpu
}

# The source that is measured.
commit() {
    local commit
    commit=$(git rev-parse --short=10 HEAD 2>/dev/null || echo unknown)
    [ -z "$(git status --porcelain 2>/dev/null | grep -v '^?? bench/record')" ] ||
        commit=$commit-changed
    printf '%s\n' "$commit"
}

# Where a record of today belongs.
record_folder() { printf 'bench/record/%s-%s\n' "$(date -u +%F)" "$(commit)"; }

# keep FILE …: copies the files into the record, unless the caller turned the record off.
keep() {
    local record
    [ "$keep_record" = yes ] || return 0
    record=$(record_folder)
    mkdir -p "$record"
    cp "$@" "$record/"
    printf 'kept in %s\n' "$record"
}

# placed ARGUMENTS FOLDER: arguments of `coeval bench` in one process, with a log in a folder
# that is not there yet, unless they have --in-memory, which bench itself does not know.
placed() {
    case " $1 " in
        *" --in-memory "*) printf '%s\n' "${1/--in-memory/}" ;;
        *) printf '%s --data-dir %s\n' "$1" "$2" ;;
    esac
}
