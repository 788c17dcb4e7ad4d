# From describe.sh's lines: completion of lockstep's commands, options and values in zsh.
BEGIN {
    FS = "\t"
}

function quoted(text) { # within the shell's single quotes
    gsub(/'/, "'\\''", text)
    return "'" text "'"
}

function described(name, about) { # for _describe
    gsub(/:/, "\\:", about)
    return quoted(name ":" about)
}

# Values that end at a colon go on, so no space may follow them.
function choices(values,    n, i, value, open, whole) {
    n = split(values, value, " ")
    for (i = 1; i <= n; i++)
        if (value[i] ~ /:$/)
            open = open " " value[i]
        else
            whole = whole " " value[i]
    gsub(/:/, "\\:", open)
    return open == "" ? "(" substr(whole, 2) ")" : "{compadd -S \"\" --" open "; compadd --" whole "}"
}

function action(kind, values) { # for _arguments
    if (kind == "file")
        return "_files"
    if (kind == "folder")
        return "_files -/"
    if (kind == "devices")
        return "_lockstep_devices"
    if (kind == "choice")
        return choices(values)
    return kind == "list" ? "_sequence compadd - " values : " "
}

$1 == "command" {
    command[++commands] = $2
    split($2, part, " ")
    if (part[2] == "")
        first = first "\n        " described($2, $3)
    else {
        if (!(part[1] in second))
            first = first "\n        " described(part[1], $3)
        second[part[1]] = second[part[1]] " " described(part[2], $3)
    }
    if ($4 != "")
        arguments[$2] = " \\\n            '*:file:_files'"
}

$1 == "option" {
    help = $7
    gsub(/[][\\]/, "\\\\&", help)
    value = $5 == "flag" ? "" : ":" $4 ":" action($5, $6)
    arguments[$2] = arguments[$2] " \\\n            " quoted($3 ($5 == "flag" ? "" : "=") "[" help "]" value)
    options++
}

END {
    if (!commands || !options) {
        print "zsh.awk: no commands or no options" > "/dev/stderr"
        exit 1
    }
    print "#compdef lockstep"
    print "# Written from the program's --help; do not edit."
    print ""
    print "_lockstep_devices() {"
    print "    local -a devices=(${${(f)\"$(_call_program devices lockstep devices)\"}%% *})"
    print "    _sequence compadd - $devices"
    print "}"
    print ""
    print "_lockstep() {"
    print "    local -a names"
    print "    if ((CURRENT == 2)); then"
    print "        names=(" first ")"
    print "        _describe -t commands command names"
    print "        names=('--help:commands and examples' '--version:version, and what this program was built with')"
    print "        _describe -o -t options option names"
    print "        return"
    print "    fi"
    for (name in second) {
        print "    if [[ $words[2] == " name " ]]; then"
        print "        if ((CURRENT == 3)); then"
        print "            names=(" substr(second[name], 2) ")"
        print "            _describe -t commands command names"
        print "            return"
        print "        fi"
        print "        words=(\"$words[1]\" \"$words[2] $words[3]\" \"${(@)words[4,-1]}\")"
        print "        ((CURRENT--))"
        print "    fi"
    }
    print "    shift words"
    print "    ((CURRENT--))"
    print "    case $words[1] in"
    for (i = 1; i <= commands; i++) {
        print "    " quoted(command[i]) ")"
        print "        _arguments" arguments[command[i]]
        print "        ;;"
    }
    print "    esac"
    print "}"
    print ""
    print "_lockstep \"$@\""
}
