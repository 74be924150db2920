#!/bin/bash
# A package that is installed over an /etc/onecopy that somebody made by hand: it stays as it is.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/steps.sh"

make() {
  mkdir /etc/onecopy
  printf 'name = "by-hand"\nlisten = "127.0.0.1:7701"\n' >/etc/onecopy/config.toml
  echo secret >/etc/onecopy/by-hand.key
  chmod 600 /etc/onecopy/by-hand.key
  look_at >"$work/made"
  apt-get -q update
}

look_at() {
  stat -c '%n %U %a' /etc/onecopy/config.toml /etc/onecopy/by-hand.key
  sha256sum /etc/onecopy/config.toml /etc/onecopy/by-hand.key
}

is_kept() { equal "what is in /etc/onecopy" "$(look_at)" "$(cat "$work/made")"; }

# dpkg asks which file counts; where nobody can answer it leaves the file, and the package unconfigured.
without_answer() {
  if apt_install install "$(package onecopy older)"; then die "dpkg did not ask"; fi
  is_kept
}

with_answer() {
  apt_install -o Dpkg::Options::=--force-confold install -f
  equal "the package's state" "$(dpkg-query -W -f '${db:Status-Abbrev}' onecopy)" "ii "
  is_kept
  onecopyd config check /etc/onecopy/config.toml | grep 'for node by-hand' >/dev/null
}

upgrade() {  # without a question: the package's own file is the same in both versions
  apt_install install "$(package onecopy newer)"
  is_kept
}

remove() {
  apt-get -q -y remove onecopy
  is_kept
}

must "somebody makes /etc/onecopy by hand" make
step "an installation over it that nobody answers changes nothing in it" without_answer
step "an installation that keeps old files succeeds, with all dependencies from the distribution" with_answer
step "an upgrade does not ask again" upgrade
step "a removal leaves it" remove
