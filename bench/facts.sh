# What a record says of the machine and the source; to be sourced.
machine_facts() {
    printf 'date: %s\n' "$(date -u +%FT%TZ)"
    printf 'commit: %s\n' "$(git rev-parse --short=10 HEAD)"
    printf 'rustc: %s\n' "$(rustc --version)"
    printf 'kernel: %s\n' "$(uname -srvm)"
    printf 'load average: %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)"
    grep MemTotal /proc/meminfo
    lscpu
}
