#!/bin/bash
# The guest's second program, run by init.sh in the host's root: sets the guest up, runs the command and powers off.
# From run-in-guest: here, out (folders), modules (the kernel's), now, folder (to run in) and command.
: "${here:?}" "${out:?}" "${modules:?}" "${now:?}" "${folder:?}" "${command[0]:?}"

exec >"$(ls /dev/vport*p1)" 2>&1
note() { echo "guest: $*, up $(cut -d' ' -f1 /proc/uptime) s" >/dev/console; }
note "kernel $(uname -r)"
date -s "@$now" >/dev/null
hostname rdma-guest
ulimit -l unlimited
ulimit -n 65536
export HOME=/run/tmp TMPDIR=/run/tmp LANG=C.UTF-8
mkdir -p "$out" "/lib/modules/$(uname -r)"
mount --bind /run/out "$out"
mount --bind "$modules" "/lib/modules/$(uname -r)"
ip link set lo up

# Two RoCE devices on the two ends of a veth pair. rdma_rxe works in the first network namespace only, so both ends
# stay there. accept_local lets an end take packets that come from the other's address; rxe's own look-ups are bound
# to its device and go over the wire, and the rules do the same for sockets bound to one address that talk to the other.
set_up() {
  local i
  modprobe -a ib_uverbs rdma_ucm rdma_rxe veth sch_netem || return
  modprobe -q udmabuf || true  # built in, a module or absent
  if [ -e /dev/udmabuf ]; then echo 1024 >/sys/module/udmabuf/parameters/size_limit_mb || return; fi  # 64 is its default
  for i in all default; do
    echo 1 >/proc/sys/net/ipv4/conf/$i/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter
    echo 0 >/proc/sys/net/ipv6/conf/$i/accept_dad
  done
  ip link add rn0 mtu 9000 type veth peer name rn1 mtu 9000 || return
  for i in 0 1; do
    ip addr add 10.77.0.$((i + 1))/24 dev rn$i && ip link set rn$i up || return
  done
  ip rule add pref 10 lookup local && ip rule del pref 0 lookup local || return
  for i in 0 1; do
    ip route add 10.77.0.$((2 - i))/32 dev rn$i table 10$i || return
    ip rule add pref 5 dev lo from 10.77.0.$((i + 1)) to 10.77.0.$((2 - i)) lookup 10$i || return
  done
  for i in 0 1; do
    rdma link add rxe$i type rxe netdev rn$i || return
  done
}

# Two network cards on one wire, one of them in a namespace of its own: what passes between them leaves the kernel,
# which veth and loopback devices do not let it do. A name of the namespace's is a file, as ip netns has it.
set_up_cards() {
  local i card
  modprobe e1000 && ip netns add far || return
  for i in 0 1; do
    card=$(ip -o link | grep -F "52:54:00:78:00:0$((i + 1))" | cut -d: -f2 | tr -d ' ')
    ip link set "$card" name card$i || return
  done
  ip link set card1 netns far && ip -n far link set lo up || return
  ip addr add 10.78.0.1/24 dev card0 && ip link set card0 up || return
  ip -n far addr add 10.78.0.2/24 dev card1 && ip -n far link set card1 up
}

status=125
if set_up && set_up_cards; then
  cd "$folder" || cd /
  note ready
  "${command[@]}"
  status=$?
else
  echo "guest: the RDMA devices or the network cards cannot be set up" | tee /dev/console
fi
note "status $status"
echo $status >/run/out/guest-status
sync
echo o >/proc/sysrq-trigger
sleep 30  # process 1 must not end before the power does
