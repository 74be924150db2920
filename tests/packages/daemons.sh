#!/bin/bash
# Sourced after steps.sh: two daemons, west and east, as ordinary processes of the user onecopy.
# shellcheck disable=SC2154  # $work is of steps.sh

# start NAME [FLAG...]: returns when it serves; $work/NAME.{pid,address} say which process it is and where its peers reach it.
start() {
  local name=$1 attempt
  shift
  rm -f "$work/$name.out"
  install -d -m 755 -o onecopy -g onecopy "$work/$name"
  setsid runuser -u onecopy -- onecopyd --name "$name" --listen 127.0.0.1:0 --lanes 127.0.0.1:0 --run-dir "$work/$name/run" "$@" \
    >"$work/$name.out" 2>>"$work/$name.log" &
  for ((attempt = 0; attempt < 300; attempt++)); do
    if grep -q '^ready ' "$work/$name.out"; then
      sed -n 's/^ready .*listen=\([^ ]*\).*/\1/p' "$work/$name.out" >"$work/$name.address"
      pgrep_of "$name" >"$work/$name.pid"
      return
    fi
    sleep 0.1
  done
  die "$name does not serve: $(tail -n 5 "$work/$name.log")"
}

pgrep_of() {  # the process of the daemon itself, not of what started it
  local pid
  for pid in /proc/[0-9]*; do
    if [[ $(tr '\0' ' ' <"$pid/cmdline" 2>/dev/null) == "onecopyd --name $1 "* ]]; then basename "$pid"; fi
  done
}

pid_of() { cat "$work/$1.pid"; }

stop() {  # stop NAME: it drains, and ends by itself
  local attempt pid
  pid=$(pid_of "$1")
  kill "$pid"
  for ((attempt = 0; attempt < 300; attempt++)); do
    if ! kill -0 "$pid" 2>/dev/null; then return; fi
    sleep 0.1
  done
  die "$1 does not end"
}

as_user() {  # as_user NODE WORD...: onecopy, as the user dev types it
  local name=$1
  shift
  runuser -u dev -- env "ONECOPY_RUN_DIR=$work/$name/run" onecopy "$@"
}

sum_of() { as_user "$1" --json buffer sum "$2" | sed -n 's/.*"value": *"\([0-9a-f]*\)".*/\1/p'; }

connected() {  # connected NODE PEER: waits until it says so
  local attempt
  for ((attempt = 0; attempt < 300; attempt++)); do
    if as_user "$1" node ls | grep "^$2 .*CONNECTED" >/dev/null; then return; fi
    sleep 0.1
  done
  die "$1 is not connected to $2: $(as_user "$1" node ls)"
}
