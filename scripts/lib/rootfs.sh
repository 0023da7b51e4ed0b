# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # cache and work are of the script that sources this.
#
# Root file systems of Debian, made once and kept in a cache folder: with debootstrap, or by unpacking packages alone.
# To be sourced by a script that has `set -euo pipefail` and
#
#     cache=FOLDER    where they are kept
#     work=FOLDER     a temporary folder of this run, for logs; make it before make_root
#     die TEXT HINT   ends the script
#     trap cleanup EXIT, and INT and TERM that exit
#
# Environment: GCAUSE_MIRROR, the Debian mirror to take (default: the one that apt uses here).

# Processes that cleanup ends; folders that cleanup removes, as they are not finished.
children=()
half_made=()

# Ends what is still running and removes what is temporary, however the script ends.
cleanup() {
    local pid folder
    trap - EXIT INT TERM
    for pid in "${children[@]}"; do
        kill -TERM "$pid" 2>/dev/null || true
    done
    for pid in "${children[@]}"; do
        wait_end "$pid" 5 || kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    for folder in "${half_made[@]}" "$work"; do
        [[ -z $folder ]] || rm -rf --one-file-system "$folder"
    done
}

# True once process $1 has ended, false if it has not after $2 seconds.
wait_end() {
    local pid=$1 tries=$(($2 * 10))
    while kill -0 "$pid" 2>/dev/null; do
        ((tries-- > 0)) || return 1
        sleep 0.1
    done
}

# Forgets an ended child, so that its PID is never signalled after another process got it.
forget() {
    local pid kept=()
    for pid in "${children[@]}"; do
        [[ $pid == "$1" ]] || kept+=("$pid")
    done
    children=("${kept[@]}")
}

# The Debian mirror that apt uses here, or nothing: then debootstrap takes its own default.
mirror() {
    local uri
    if [[ -n ${GCAUSE_MIRROR:-} ]]; then
        echo "$GCAUSE_MIRROR"
        return
    fi
    # shellcheck disable=SC2016 # $(REPO_URI) is apt's, not the shell's.
    uri=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' \
        'Label: Debian' 'Component: main' 2>/dev/null | awk 'NR == 1' || true)
    if [[ $uri == mirror+file:* ]]; then
        uri=$(awk '/^[a-z]+:\/\// { print $1; exit }' "${uri#mirror+file:}")
    fi
    echo "$uri"
}

# Runs a command in namespaces of its own, its output into file $1: what it starts and mounts is gone when it
# ends, however it ends.
contained() {
    local log=$1 code=0
    shift
    unshare --mount --pid --fork --kill-child --mount-proc "$@" >"$log" 2>&1 &
    children+=($!)
    wait $! || code=$?
    forget $!
    return $code
}

# Makes a system of suite $2 with packages $3 in folder $1, from mirror $4 if that is not empty.
install_system() {
    contained "$work/root.log" debootstrap --variant=minbase "--include=$3" "$2" "$1" ${4:+"$4"} && return
    tail -n 15 "$1/debootstrap/debootstrap.log" >&2 2>/dev/null || true
    return 1
}

# The same, but only unpacks the packages and what they depend on, which is enough to run their programs and takes
# a quarter of the time. As with debootstrap, a mirror may be a snapshot, whose date has passed.
unpack_system() {
    contained "$work/root.log" mmdebstrap --mode=root --variant=extract --format=directory \
        --aptopt='Acquire::Check-Valid-Until "false"' "--include=$3,base-files,coreutils" "$2" "$1" ${4:+"$4"} &&
        mkdir -p "$1/mnt" "$1/proc"
}

# Makes folder $2 the root file system of suite $3 with packages $4 (names with commas between) by function $1,
# unless it is there. Where $5 is given, that function finishes the new one: it takes the folder, and fails where
# it fails.
make_root() {
    local make=$1 root=$2 suite=$3 packages=$4 finish=${5:-} lock new uri
    mkdir -p "$cache"
    exec {lock}>"$root.lock"
    flock "$lock"
    if [[ ! -d $root ]]; then
        uri=$(mirror)
        new=$(mktemp -d "$root.new.XXXXXX")
        half_made+=("$new")
        chmod 755 "$new"
        printf 'Debian %s with %s into %s: up to two minutes, once\n' "$suite" "$packages" "$root" >&2
        if ! "$make" "$new" "$suite" "$packages" "$uri"; then
            tail -n 15 "$work/root.log" >&2 || true
            die "the root file system $root could not be made" \
                "see above; GCAUSE_MIRROR names another mirror, GCAUSE_CACHE another folder"
        fi
        [[ -z $finish ]] || "$finish" "$new" || die "the root file system $root could not be finished" "see above"
        rm -rf "$new"/var/cache/apt/archives/*.deb
        mv "$new" "$root"
        half_made=()
    fi
    exec {lock}>&-
}
