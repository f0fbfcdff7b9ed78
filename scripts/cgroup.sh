#!/usr/bin/env bash
# Runs a program in a memory group of its own (cgroup v1 or v2), page cache included, and takes the group away at the end.
#   scripts/cgroup.sh SIZE -- PROGRAM ARGS...         or, sourced:   with_memory_limit SIZE -- PROGRAM ARGS...
# SIZE is in bytes or with K, M, G (powers of 2). The exit code is the program's, or 125 where no group can be made
# (then one sentence on stderr says why). memory_limit_reason says beforehand whether one can be made.
# shellcheck shell=bash

cgroup_bytes() {
  local number=${1%[KMGkmg]}
  [[ $number =~ ^[0-9]+$ ]] || return 1
  case $1 in
    *[Kk]) echo $((number << 10)) ;;
    *[Mm]) echo $((number << 20)) ;;
    *[Gg]) echo $((number << 30)) ;;
    *) echo "$number" ;;
  esac
}

# cgroup_mount v1|v2: where the memory hierarchy is mounted; mountinfo has the type after " - ", the options last.
cgroup_mount() {
  if [ "$1" = v1 ]; then
    awk '$0 ~ / - cgroup / && $NF ~ /(^|,)memory(,|$)/ {print $5; exit}' /proc/self/mountinfo
  else
    awk '$0 ~ / - cgroup2 / {print $5; exit}' /proc/self/mountinfo
  fi
}

# cgroup_own v1|v2: this process' group below the mount; in a container the path may name folders that are not visible.
cgroup_own() {
  local mount=$2 path
  if [ "$1" = v1 ]; then
    path="$(awk -F: '$2 ~ /(^|,)memory(,|$)/ {print $3}' /proc/self/cgroup)"
  else
    path="$(awk -F: '$1 == 0 {print $3}' /proc/self/cgroup)"
  fi
  if [ -d "$mount$path" ]; then printf '%s' "${mount}${path%/}"; else printf '%s' "$mount"; fi
}

# Makes a group and prints its folder; on failure prints the reason and returns 1. In v1 below our own group; in v2 below
# the nearest group upwards that hands memory on to its children, since a group with processes in it cannot.
cgroup_make() {
  local mount base name="artesian.$$.$RANDOM"
  mount="$(cgroup_mount v1)"
  if [ -n "$mount" ]; then
    base="$(cgroup_own v1 "$mount")"
    mkdir "$base/$name" 2>/dev/null || { echo "$base may not be written to (be root)" && return 1; }
    echo "$base/$name"
    return
  fi
  mount="$(cgroup_mount v2)"
  [ -n "$mount" ] || { echo "no memory hierarchy is mounted" && return 1; }
  grep -qw memory "$mount/cgroup.controllers" 2>/dev/null || { echo "the memory controller is not in $mount" && return 1; }
  base="$(cgroup_own v2 "$mount")"
  while :; do
    grep -qw memory "$base/cgroup.subtree_control" 2>/dev/null || echo +memory >"$base/cgroup.subtree_control"
    if grep -qw memory "$base/cgroup.subtree_control" && mkdir "$base/$name"; then
      echo "$base/$name"
      return
    fi
    [ "$base" = "$mount" ] && break
    base="$(dirname "$base")"
  done 2>/dev/null
  echo "no group above this process hands memory on and may be written to (be root, or run under systemd-run --user --scope)"
  return 1
}

# Swap is part of the limit: in v1 memory and swap together, in v2 swap on its own.
cgroup_limit() {
  if [ -e "$1/memory.max" ]; then
    echo "$2" >"$1/memory.max" && { [ ! -e "$1/memory.swap.max" ] || echo 0 >"$1/memory.swap.max"; }
  else
    echo "$2" >"$1/memory.limit_in_bytes" &&
      { [ ! -e "$1/memory.memsw.limit_in_bytes" ] || echo "$2" >"$1/memory.memsw.limit_in_bytes"; }
  fi 2>/dev/null
}

# What is left in our own group after its program has ended is ended as well; then the group goes.
cgroup_remove() {
  local process tries
  for tries in 1 2 3 4 5 6 7 8 9 10; do
    while read -r process; do kill -KILL "$process" 2>/dev/null; done <"$1/cgroup.procs"
    rmdir "$1" 2>/dev/null && return
    sleep 0.$tries
  done
  echo "the memory group $1 could not be taken away" >&2
}

# memory_limit_reason: prints why no group can be made, or nothing where one can.
memory_limit_reason() {
  local made
  if ! made="$(cgroup_make)"; then
    echo "$made"
    return
  fi
  cgroup_limit "$made" $((64 << 20)) || echo "the limit of $made may not be set"
  rmdir "$made"
}

# Takes over this shell: its traps and its exit.
memory_limit_exec() {
  bytes="$(cgroup_bytes "$1")" || { echo "with_memory_limit: '$1' is no size; it takes 900M or 8G" >&2 && exit 125; }
  [ "${2:-}" = -- ] && [ $# -gt 2 ] || { echo "usage: with_memory_limit SIZE -- PROGRAM ARGS..." >&2 && exit 125; }
  shift 2
  group="$(cgroup_make)" || { echo "no memory cgroup can be made here: $group" >&2 && exit 125; }
  child=
  trap 'cgroup_remove "$group"' EXIT
  trap '[ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM HUP
  trap '[ -z "$child" ] || kill -INT "$child" 2>/dev/null' INT
  cgroup_limit "$group" "$bytes" || { echo "no memory cgroup can be made here: its limit may not be set" >&2 && exit 125; }
  # A background child has its stdin from /dev/null unless it is handed on, and ignores SIGINT unless told not to.
  { env --default-signal=INT,QUIT bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@" <&3 & } 3<&0
  child=$!
  # A signal ends wait early: wait until the child itself has ended.
  while wait "$child" 2>/dev/null; rc=$?; kill -0 "$child" 2>/dev/null; do :; done
  exit "$rc"
}
with_memory_limit() (memory_limit_exec "$@")

# drop_cache FILE...: forgets what the page cache holds of a file. Cached pages are charged to whoever read them first,
# so without this a limited program would read a large model from memory that is not counted as its own.
drop_cache() {
  local file
  for file in "$@"; do dd if="$file" iflag=nocache count=0 status=none; done
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  case ${1:-} in
    -h | --help | '') sed -n '2,6s/^# \{0,1\}//p' "$0" ;;
    *) memory_limit_exec "$@" ;;
  esac
fi
