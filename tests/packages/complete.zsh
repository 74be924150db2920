# What zsh offers, by the completions that are installed: in a shell of its own on a terminal, where a key lists them.
zmodload zsh/zpty
zpty shell 'zsh -f -i'

run() {  # a command in that shell, until its prompt is back
  zpty -w shell "$1"
  zpty -r shell REPLY "*<ready>*" || { print "zsh does not answer"; exit 1 }
}

zpty -w shell 'PS1="<ready>"; PROMPT_EOL_MARK=""; unsetopt zle_bracketed_paste 2>/dev/null; autoload -Uz compinit && compinit -u -D; zstyle ":completion:*" list-prompt ""; LISTMAX=1000; print -r -- begin''s'
zpty -r shell REPLY '*begins*<ready>*' || { print "zsh does not begin"; exit 1 }

offers() {  # offers EXPECTED LINE: the line is completed to, or a list has, what is expected
  zpty -w -n shell "$2"$'\t'
  zpty -w -n shell $'\C-a: \C-e\n'
  zpty -r shell REPLY "*<ready>*" || { print "zsh does not answer to $2"; exit 1 }
  [[ $REPLY == *$1* ]] || { print -r -- "zsh, $2: '$REPLY' has no '$1'"; exit 1 }
}

touch '/tmp/a file'
offers 'onecopy buffer' 'onecopy buf'
offers 'buffer create' 'onecopy --run-dir /tmp buffer cr'
offers '--size' 'onecopy buffer create --s'
offers '--checksum' 'onecopy cp a b --ch'
offers '/tmp/a\ file' 'onecopy cp /tmp/a\ f'
offers 'onecopyd config' 'onecopyd con'
offers 'onecopy-bench report' 'onecopy-bench re'
