# bash completion for longhaul: subcommands and options as the program's own --help lists them.
_longhaul() {
  local current=${COMP_WORDS[COMP_CWORD]} words
  if ((COMP_CWORD == 1)); then
    words=$(longhaul --help 2>/dev/null | sed -n '/^Subcommands:/,$s/^  \([a-z-]\+\) .*/\1/p')
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  elif [[ $current == -* ]]; then
    words=$(longhaul "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}
complete -o filenames -F _longhaul longhaul
