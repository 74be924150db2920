#!/bin/bash
# The life of the packages on a node: installed, used, upgraded and downgraded under live buffers, removed, purged.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/steps.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/daemons.sh"

prepare() {
  apt-get -q update
  # What the packages depend on comes first, so that what they leave behind can be told from it.
  local name
  for name in onecopy libonecopy-dev; do
    apt-get -q -y --no-install-recommends satisfy "$(dpkg-deb -f "$(package "$name" older)" Depends)"
  done
  apt_install install man-db zsh fish
  useradd --create-home dev
  list_files >"$work/before"
}

install_it() { apt_install install "$(package onecopy older)" "$(package libonecopy-dev older)"; }

look() {
  local program
  for program in onecopyd onecopy onecopy-bench; do
    equal "$program --version" "$($program --version)" "$program $(version_of older)"
  done
  equal "the user's shell" "$(getent passwd onecopy | cut -d: -f7)" /usr/sbin/nologin
  equal "the run directory" "$(stat -c '%U %a' /run/onecopy)" "onecopy 755"
  equal "the service" "$(systemctl --root=/ is-enabled onecopyd)" enabled
  onecopyd config check /etc/onecopy/config.toml
  onecopyd config check /usr/share/doc/onecopy/examples/config.toml
  dpkg-query -W -f '${Conffiles}\n' onecopy | grep '/etc/onecopy/config.toml' >/dev/null || die "config.toml is not a conffile"
}

verify_unit() {
  local said
  said=$(systemd-analyze verify --man=yes onecopyd.service 2>&1) || die "$said"
  if grep onecopyd <<<"$said"; then die "systemd-analyze has a remark"; fi
}

manuals() {
  local page said
  for page in 'onecopy.1' 'onecopy-bench.1' 'onecopyd.8' 'onecopy.toml.5'; do
    said=$(MANWIDTH=100 man --warnings "${page##*.}" "${page%.*}" 2>&1 >"$work/page") || die "$page: $said"
    equal "what man says of $page" "$said" ""
    grep -q 'SEE ALSO' "$work/page" || die "$page has no end"
  done
  man 1 onecopy | grep -e '--keep-arrivals' >/dev/null || die "onecopy(1) lacks an option"
  man 5 onecopy.toml | grep 'drain_timeout = ' >/dev/null || die "onecopy.toml(5) lacks a key"
}

complete_in_bash() { bash /scripts/complete.bash; }
complete_in_zsh() { zsh -f /scripts/complete.zsh; }
complete_in_fish() { HOME=/tmp fish /scripts/complete.fish; }

first_transfer() {
  start west
  start east --peer "west=$(cat "$work/west.address")"
  connected east west
  cd ~dev || exit
  head -c 64M /dev/urandom >weights.bin
  chown dev: weights.bin .
  as_user east buffer create weights --size 64MiB --memory host
  as_user west buffer create weights --size 64MiB --memory host
  as_user east cp ./weights.bin weights
  as_user east cp weights west:weights --checksum
  as_user east cp west:weights ./back.bin
  cmp weights.bin back.bin
}

# What an administrator has made before the upgrade.
settle() {
  echo 'name = "mine"' >>/etc/onecopy/config.toml
  echo key >/etc/onecopy/mine.key
  echo '# tuned' >/etc/onecopy/tuned.toml
  sha256sum /etc/onecopy/* >"$work/settings"
}

settings_are_kept() { sha256sum --quiet --check "$work/settings"; }

upgrade() {
  local before
  before=$(sum_of east weights)
  [ -n "$before" ] || die "there is no buffer to keep"
  apt_install install "$(package onecopy newer)" "$(package libonecopy-dev newer)" 2>&1 | tee "$work/upgrade"
  equal "the new program" "$(onecopy --version)" "onecopy $(version_of newer)"
  local name
  for name in east west; do
    equal "the process of $name" "$(pgrep_of "$name")" "$(pid_of "$name")"
    equal "the buffer of $name" "$(sum_of "$name" weights)" "$before"
    as_user "$name" --json node show | grep "\"version\": \"$(version_of older)\"" >/dev/null || die "$name is not the former version"
  done
  as_user east cp weights west:weights --checksum  # the new client, former daemons
  settings_are_kept
}

upgrade_is_explained() {
  grep -q 'the running onecopyd is still the former version' "$work/upgrade" || die "apt did not tell that the daemon is the former one"
}

restart() {
  stop east
  start east --peer "west=$(cat "$work/west.address")"
  connected east west
  as_user east --json node show | grep "\"version\": \"$(version_of newer)\"" >/dev/null || die "east is not the new version"
  equal "the buffers of a restarted daemon" "$(as_user east --json buffer ls | tr -d '[:space:]')" "[]"
  cd ~dev || exit
  as_user east cp west:weights ./restarted.bin  # of the former version's node
  cmp weights.bin restarted.bin
}

downgrade() {
  apt_install --allow-downgrades install "$(package onecopy older)" "$(package libonecopy-dev older)"
  equal "the program" "$(onecopy --version)" "onecopy $(version_of older)"
  equal "the process of east" "$(pgrep_of east)" "$(pid_of east)"
  as_user east buffer create again --size 1MiB  # the former client, the new daemon
  settings_are_kept
  stop east
  start east --peer "west=$(cat "$work/west.address")"
  connected east west
  cd ~dev || exit
  as_user east cp west:weights ./downgraded.bin
  cmp weights.bin downgraded.bin
}

remove() {
  stop east
  stop west
  apt-get -q -y remove onecopy libonecopy-dev
  local program
  for program in onecopyd onecopy onecopy-bench; do
    if [ -e "/usr/bin/$program" ]; then die "$program is still there"; fi
  done
  if [ -e /run/onecopy ]; then die "/run/onecopy is still there"; fi
  settings_are_kept
}

reinstall() {
  install_it
  settings_are_kept
}

purge() {
  apt-get -q -y purge onecopy libonecopy-dev
  if [ -e /etc/onecopy/config.toml ]; then die "the conffile is still there"; fi
  grep -vF config.toml "$work/settings" | sha256sum --quiet --check
  list_files >"$work/after"
  # The administrator's files, which are not the package's to remove; nothing else is different.
  local different
  different=$(diff "$work/before" "$work/after" | grep '^[<>]' | grep -vE '[ /]/?etc/onecopy(/(mine\.key|tuned\.toml))?( |$)' || true)
  equal "what a purge leaves" "$different" ""
  getent passwd onecopy >/dev/null || die "the user is gone, whose files may still be there"
}

must "what the packages depend on is in the distribution" prepare
must "the packages are installed" install_it
step "programs, user, folders, service and configuration are there" look
step "systemd accepts the installed unit, with its manual pages" verify_unit
step "man shows every page without a warning" manuals
step "completion in bash" complete_in_bash
step "completion in zsh" complete_in_zsh
step "completion in fish" complete_in_fish
must "a first transfer by typed commands" first_transfer
step "an administrator changes the configuration" settle
step "an upgrade keeps daemons, buffers and settings" upgrade
step "an upgrade says that the daemon is the former one" upgrade_is_explained
step "a restart brings the new version, beside a node of the former one" restart
step "a downgrade keeps settings, and its daemon works" downgrade
step "a removal leaves settings" remove
step "an installation after a removal finds the settings" reinstall
step "a purge leaves what is the administrator's, and nothing else" purge
