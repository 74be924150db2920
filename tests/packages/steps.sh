#!/bin/bash
# Sourced by the scripts that run in a bare system: runs their steps, each a function, and tells of each by a line on standard
# output: `ok NAME`, or `FAIL NAME: what the function said last`. What steps print goes to standard error.

work=/srv/packages-test  # what steps leave for one another
mkdir -p "$work"

step() {  # step NAME FUNCTION: fails where one of the function's commands does. Not in a condition, where `set -e` is off
  echo "=== $1" >&2
  (set -euo pipefail; "$2") >"$work/step" 2>&1 </dev/null
  failed=$?
  cat "$work/step" >&2
  if [ $failed = 0 ]; then echo "ok $1"; else echo "FAIL $1: $(tail -n 6 "$work/step" | tr '\n' '|')"; fi
}

must() {  # as step; what fails ends the script
  step "$@"
  if [ $failed != 0 ]; then exit 1; fi
}

die() { echo "$*"; exit 1; }

equal() {  # equal WHAT IS SHOULD-BE
  [ "$2" = "$3" ] || die "$1 is '$2' and should be '$3'"
}

package() {  # package NAME older|newer: its file
  ls /shared/"$2"/"$1"_*.deb
}

version_of() { dpkg-deb -f "$(package onecopy "$1")" Version; }

apt_install() {
  apt-get -q -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
}

# A line for each file of the system that a package could leave behind, with its content where it is a setting.
list_files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /shared -o -path /scripts -o -path /var/cache -o \
    -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path '/roo[t]' -o -path /home -o -path /srv -o -path /results -o -path /log -o -path /run/systemd \) -prune -o -printf '%p %y %m %u:%g %l\n' | sort
  # The caches of the linker and of accounts' tools change by themselves.
  find /etc -xdev -type f ! -name ld.so.cache ! -name '*-' ! -name .pwd.lock -exec sha256sum {} + | sort -k 2 |
    grep -vE ' /etc/(passwd|group|shadow|gshadow)$'
  grep -hv '^onecopy:' /etc/passwd /etc/group /etc/shadow /etc/gshadow
}
