# shellcheck shell=bash
# Memory cgroups for measurements. Sourced by scripts that run a program with a memory limit and without swap.
#
#   cgroup_check                  fails with a message if no cgroup with a memory limit can be made
#   cgroup_make LIMIT             makes a group; its folder is in cgroup_path
#   cgroup_read                   reads the kernel's figures into cgroup_peak, cgroup_failcnt and cgroup_kills
#   cgroup_remove                 kills the processes in the group and removes it; does nothing without a group
#
# Uses cgroup v1 or v2, whichever has the memory controller.

# shellcheck disable=SC2034 # the variables are for those who source this
cgroup_path=""
cgroup_peak=0
cgroup_failcnt=0
cgroup_kills=0

if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    cgroup_parent=/sys/fs/cgroup/memory
    cgroup_limit_file=memory.limit_in_bytes
else
    cgroup_parent=/sys/fs/cgroup
    cgroup_limit_file=memory.max
fi

cgroup_write() { # FILE VALUE: writes a control file of the group; fails if the kernel refuses
    { echo "$2" >"$cgroup_path/$1"; } 2>/dev/null
}

cgroup_make() { # LIMIT
    cgroup_path="$cgroup_parent/larder-show-$$"
    if ! mkdir "$cgroup_path" 2>/dev/null; then
        echo "cannot make a cgroup in $cgroup_parent: run as root, with a writable cgroup file system" >&2
        cgroup_path=""
        return 1
    fi
    if ! cgroup_write "$cgroup_limit_file" "$1"; then
        echo "cannot set $cgroup_limit_file in $cgroup_path: there is no memory controller, or it does not take $1" >&2
        cgroup_remove
        return 1
    fi
    # Absent if the kernel does not account swap.
    if [ -e "$cgroup_path/memory.memsw.limit_in_bytes" ]; then cgroup_write memory.memsw.limit_in_bytes "$1" || true; fi
    if [ -e "$cgroup_path/memory.swappiness" ]; then cgroup_write memory.swappiness 0 || true; fi
    if [ -e "$cgroup_path/memory.swap.max" ]; then cgroup_write memory.swap.max 0 || true; fi
}

cgroup_keyed() { # FILE KEY: the number after the key in a file of "key number" lines
    awk -v key="$2" '$1 == key { value = $2 } END { print value + 0 }' "$cgroup_path/$1"
}

cgroup_read() {
    if [ "$cgroup_limit_file" = memory.max ]; then
        cgroup_peak=$(cat "$cgroup_path/memory.peak" 2>/dev/null || echo -) # since Linux 5.19
        cgroup_failcnt=$(cgroup_keyed memory.events max)
        cgroup_kills=$(cgroup_keyed memory.events oom_kill)
    else
        cgroup_peak=$(cat "$cgroup_path/memory.max_usage_in_bytes")
        cgroup_failcnt=$(cat "$cgroup_path/memory.failcnt")
        cgroup_kills=$(cgroup_keyed memory.oom_control oom_kill)
    fi
}

cgroup_remove() {
    [ -n "$cgroup_path" ] || return 0
    local attempt pid
    for attempt in $(seq 100); do
        while read -r pid; do
            if [ "$pid" -gt 1 ]; then kill -KILL "$pid" 2>/dev/null || true; fi # 0: in another namespace
        done <"$cgroup_path/cgroup.procs"
        if rmdir "$cgroup_path" 2>/dev/null; then
            cgroup_path=""
            return 0
        fi
        sleep 0.1
    done
    echo "cannot remove $cgroup_path after $attempt attempts" >&2
    return 1
}

cgroup_check() {
    cgroup_make 64M && cgroup_remove
}
