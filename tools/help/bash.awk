# From describe.sh's lines: what completion.bash asks about the program.
BEGIN {
    FS = "\t"
    print "# Completion of lockstep's commands, options and values in bash. Written from the program's --help; do not edit."
    print ""
}

function word(text) { # as a case pattern of the shell
    return "'" text "'"
}

$1 == "command" {
    command[++commands] = $2
    if ($4 != "")
        values[++rows] = word($2) ") echo file ;;"
    # A command of two words is the first, which knows the second alone.
    split($2, part, " ")
    if (!(part[1] in listed)) {
        listed[part[1]] = 1
        first = first " " part[1]
    }
    if (part[2] != "")
        second[part[1]] = second[part[1]] " " part[2]
}

$1 == "option" {
    # One that takes a value is offered with its =, so that the value follows at once.
    options[$2] = options[$2] " " $3 ($5 == "flag" ? "" : "=")
    values[++rows] = word($2 " " $3) ") echo '" $5 ($6 == "" ? "" : " " $6) "' ;;"
}

END {
    if (!commands || !rows) {
        print "bash.awk: no commands or no options" > "/dev/stderr"
        exit 1
    }
    print "_lockstep_words() # COMMAND: the words that may follow it; of none, the commands"
    print "{"
    print "    case $1 in"
    print "    '') echo '" substr(first, 2) " --help --version' ;;"
    for (name in second)
        print "    " word(name) ") echo '" substr(second[name], 2) "' ;;"
    for (i = 1; i <= commands; i++)
        print "    " word(command[i]) ") echo '" substr(options[command[i]], 2) "' ;;"
    print "    esac"
    print "}"
    print ""
    print "_lockstep_value() # 'COMMAND OPTION', or COMMAND for its operands: the kind of value, and the values"
    print "{"
    print "    case $1 in"
    for (i = 1; i <= rows; i++)
        print "    " values[i]
    print "    esac"
    print "}"
    print ""
}
