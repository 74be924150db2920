# What zsh offers, by the completions that are installed: in a shell of its own on a terminal, where a key lists them.
zmodload zsh/zpty
zpty shell 'zsh -f -i'

until_told() {  # until_told WORD: reads what that shell shows, up to the word
  zpty -r shell REPLY "*$1*" || { print "zsh does not say $1"; exit 1 }
}

# Words in two pieces: the terminal also shows what is typed here.
zpty -w shell 'autoload -Uz compinit && compinit -u -D; zstyle ":completion:*" list-prompt ""; LISTMAX=1000'
zpty -w shell 'told() { zle -I; print -r -- "typed: $BUFFER :en""d"; BUFFER=; }; zle -N told; bindkey "^X^F" told; print -r -- beg""ins'
until_told begins

offers() {  # offers EXPECTED LINE: the line is completed to, or a list has, what is expected
  zpty -w -n shell "$2"$'\t\C-x\C-f'
  until_told :end
  [[ $REPLY == *$1* ]] || { print -r -- "zsh, $2: ${(qqqq)REPLY} has no '$1'"; exit 1 }
}

touch '/tmp/a file'
offers 'typed: onecopy buffer ' 'onecopy buf'
offers 'typed: onecopy --run-dir /tmp buffer create ' 'onecopy --run-dir /tmp buffer cr'
offers 'typed: onecopy buffer create --size=' 'onecopy buffer create --s'
offers 'typed: onecopy cp a b --checksum ' 'onecopy cp a b --ch'
offers 'typed: onecopy cp /tmp/a\ file ' 'onecopy cp /tmp/a\ f'
offers 'typed: onecopyd config ' 'onecopyd con'
offers 'typed: onecopy-bench report ' 'onecopy-bench re'
