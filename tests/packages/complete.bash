# What bash offers, by the completions that are installed.
set -euo pipefail
compopt() { :; }  # only while a line is edited

offers() {  # offers EXPECTED WORD...: the last word is being typed
  local expected=$1 function
  shift
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  function=$(complete -p "$1" | sed -n 's/.*-F \([^ ]*\) .*/\1/p')
  "$function"
  [ "${COMPREPLY[*]}" = "$expected" ] || { echo "bash, $*: '${COMPREPLY[*]}', not '$expected'"; exit 1; }
}

for program in onecopy onecopyd onecopy-bench; do
  # shellcheck source=/dev/null
  . "/usr/share/bash-completion/completions/$program"
done
touch '/tmp/a file'
offers "buffer" onecopy buf
offers "create" onecopy --run-dir /tmp buffer cr
offers "--size" onecopy buffer create --s
offers "--create --checksum" onecopy cp a b --c
offers "/tmp/a file" onecopy cp "/tmp/a f"
offers "" onecopy buffer create --size ""
offers "/etc" onecopy --run-dir = /et
offers "config" onecopyd con
offers "default check" onecopyd config ""
offers "report" onecopy-bench re
