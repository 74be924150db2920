#!/bin/bash
# The packages under a running systemd: the service starts with the installation, an upgrade leaves it and its buffers
# alone, a removal stops it. The first part, before systemd runs, prepares; it then becomes systemd, whose only task is the
# second part.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/steps.sh"

prepare() {
  apt-get -q update
  apt_install satisfy "$(dpkg-deb -f "$(package onecopy older)" Depends), systemd"
  useradd --create-home dev
  cat >/etc/systemd/system/packages-test.target <<'EOT'
[Unit]
Requires=basic.target packages-test.service
After=basic.target
AllowIsolate=yes
EOT
  cat >/etc/systemd/system/packages-test.service <<'EOT'
[Unit]
After=basic.target
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
Environment=LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
ExecStart=/bin/bash /scripts/service.sh under-systemd
StandardOutput=append:/results
StandardError=append:/log
EOT
  # They would look for hardware and terminals, or set what is the machine's.
  systemctl --root=/ mask systemd-udevd.service systemd-udev-trigger.service systemd-journald-audit.socket getty.target \
    console-getty.service systemd-sysctl.service systemd-modules-load.service systemd-remount-fs.service \
    sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount
}

active() { equal "the service" "$(systemctl is-active onecopyd)" "$1"; }
pid() { systemctl show --property MainPID --value onecopyd; }
as_dev() { runuser -u dev -- onecopy "$@"; }
sum() { as_dev --json buffer sum live | sed -n 's/.*"value": *"\([0-9a-f]*\)".*/\1/p'; }

install_it() {
  apt_install install "$(package onecopy older)"
  active active
  pid >"$work/pid"
  equal "the service's user" "$(stat -c %U "/proc/$(pid)")" onecopy
  equal "the holder's service" "$(systemctl is-active onecopy-holder)" active
}

transfer() {
  cd ~dev || exit
  head -c 8M /dev/urandom >live.bin
  chmod a+r live.bin
  as_dev buffer create live --size 8MiB
  as_dev cp ./live.bin live --checksum
  sum >"$work/sum"
}

reload() {
  printf '[log]\nlevel = "debug"\n' >>/etc/onecopy/config.toml
  systemctl reload onecopyd
  journalctl --unit onecopyd --no-pager | grep 'log.level' >/dev/null || die "the daemon has not read its configuration again"
}

upgrade() {
  apt_install install "$(package onecopy newer)" 2>&1 | tee "$work/upgrade"
  equal "the daemon's process" "$(pid)" "$(cat "$work/pid")"
  equal "the buffer" "$(sum)" "$(cat "$work/sum")"
  grep -q 'still the former version' "$work/upgrade" || die "apt did not tell that the daemon is the former one"
  as_dev --json node show | grep "\"version\": \"$(version_of older)\"" >/dev/null
}

needrestart_leaves_it() {
  apt_install install needrestart
  needrestart -r a -l 2>&1 | tee "$work/needrestart"
  grep onecopyd "$work/needrestart" >/dev/null || die "needrestart does not see that onecopyd runs the former program"
  equal "the daemon's process" "$(pid)" "$(cat "$work/pid")"
}

held_by() { systemctl show --property MainPID --value onecopy-holder; }

restart() {
  systemctl restart onecopyd
  active active
  as_dev --json node show | grep "\"version\": \"$(version_of newer)\"" >/dev/null
  equal "the buffer" "$(sum)" "$(cat "$work/sum")"
}

killed() {
  local before holder
  before=$(pid)
  holder=$(held_by)
  kill -KILL "$before"
  for _ in $(seq 100); do
    if as_dev node show >/dev/null 2>&1 && [ "$(pid)" != "$before" ]; then break; fi
    sleep 0.1
  done
  equal "the buffer" "$(sum)" "$(cat "$work/sum")"
  equal "the holder's process" "$(held_by)" "$holder"
}

holder_killed() {
  local holder
  holder=$(held_by)
  kill -KILL "$holder"
  for _ in $(seq 100); do
    if [ "$(held_by)" != "$holder" ] && [ "$(held_by)" != 0 ] &&
      [ "$(find "/proc/$(held_by)/fd" -lname '/memfd:*' 2>/dev/null | wc -l)" -ge 2 ]; then break; fi
    sleep 0.1
  done
  systemctl restart onecopyd
  equal "the buffer" "$(sum)" "$(cat "$work/sum")"
}

stopped_stays_stopped() {
  systemctl stop onecopyd
  apt_install --allow-downgrades install "$(package onecopy older)"
  active inactive
  systemctl start onecopyd
  equal "the buffer" "$(sum)" "$(cat "$work/sum")"
}

remove() {
  apt-get -q -y remove onecopy
  if systemctl is-active onecopyd onecopy-holder; then die "a service still runs"; fi
  if [ -e /run/onecopy ]; then die "/run/onecopy is still there"; fi
  apt-get -q -y purge onecopy
  local left
  left=$(find /etc/systemd /var/lib/systemd -name '*onecopy*')
  equal "what systemd's folders have" "$left" ""
}

if [ "${1:-}" != under-systemd ]; then
  must "systemd is prepared" prepare
  export container=onecopy-test  # so that it ends with its task
  exec /lib/systemd/systemd --unit=packages-test.target --log-target=null --show-status=no >/dev/null 2>&1
fi
must "under systemd, an installation starts the service" install_it
step "under systemd, a first transfer" transfer
step "under systemd, a reload reads the configuration again, in the unit's sandbox" reload
step "under systemd, an upgrade leaves the daemon and its buffers alone" upgrade
step "under systemd, needrestart does not restart the daemon" needrestart_leaves_it
step "under systemd, a restart starts the new version, and the buffers are there" restart
step "under systemd, a daemon that is killed comes back with its buffers" killed
step "under systemd, a holder that is killed gets the buffers again" holder_killed
step "under systemd, a service that is stopped stays stopped through an installation" stopped_stays_stopped
step "under systemd, a removal stops the service, a purge leaves nothing of it" remove
