# The word to complete with what stands before it, from the words that bash split at = and : too: "$cur" and words[].
_lockstep_split()
{
    local i part joined=''
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        if ((i > 0)) && { [[ $part == [=:]* ]] || [[ $joined == yes ]]; }; then
            words[${#words[@]} - 1]+=$part
        else
            words+=("$part")
        fi
        joined=
        [[ $part != [=:]* ]] || joined=yes
    done
    cur=${words[${#words[@]} - 1]}
    unset "words[${#words[@]}-1]"
}

_lockstep_offer() # BEGINNING KIND VALUES...: what of this kind begins so
{
    local begin=$1 kind=$2 kept=''
    shift 2
    case $kind in
    file | folder)
        compopt -o filenames 2>/dev/null
        if [[ $kind == file ]]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$begin")
        else
            mapfile -t COMPREPLY < <(compgen -d -- "$begin")
        fi
        return
        ;;
    devices)
        # shellcheck disable=SC2046 # a list of words
        set -- $("${words[0]}" devices 2>/dev/null | sed -n 's/^\([a-z]*:[0-9]*\) .*/\1/p')
        ;;
    esac
    # What stands before the last comma of a list is kept.
    if [[ $kind == list || $kind == devices ]] && [[ $begin == *,* ]]; then
        kept=${begin%,*},
    fi
    mapfile -t COMPREPLY < <(compgen -P "$kept" -W "$*" -- "${begin#"$kept"}")
}

_lockstep()
{
    local cur words before i command='' offer='' known=''
    COMPREPLY=()
    _lockstep_split
    for ((i = 1; i < ${#words[@]}; i++)); do
        [[ ${words[i]} != -* && -n $(_lockstep_words "${command:+$command }${words[i]}") ]] || break
        command+=${command:+ }${words[i]}
    done
    before=${words[${#words[@]} - 1]}
    if [[ $cur == --*=* ]]; then
        offer=$(_lockstep_value "$command ${cur%%=*}")
        # What is put in place stands for the word as bash knows it, which may begin behind the =.
        [[ $COMP_WORDBREAKS == *=* ]] || known=${cur%%=*}=
        cur=${cur#*=}
    elif [[ $before == --* && $before != *=* ]]; then
        offer=$(_lockstep_value "$command $before")
        [[ $offer != flag ]] || offer=
    fi
    [[ -n $offer || $cur == -* ]] || offer=$(_lockstep_value "$command")
    [[ -n $offer ]] || offer="words $(_lockstep_words "$command")"
    # shellcheck disable=SC2086 # the kind and its values
    _lockstep_offer "$cur" $offer
    [[ -z $known ]] || COMPREPLY=("${COMPREPLY[@]/#/$known}")
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${cur%:*}:"}")
    fi
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _lockstep lockstep
