# From describe.sh's lines: lockstep(1), in the macros of man(7). -v date=YYYY-MM-DD
BEGIN {
    FS = "\t"
}

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/'/, "\\(aq", text)
    gsub(/`/, "\\(ga", text)
    gsub(/~/, "\\(ti", text)
    gsub(/\^/, "\\(ha", text)
    sub(/^\./, "\\\\\\&.", text)
    return text
}

function code(text) { # every hyphen is one to type
    text = escaped(text)
    gsub(/-/, "\\-", text)
    return text
}

function prose(text,    n, i, words, word, line, lines) { # in lines of 78; the hyphens of options alone are to type
    n = split(text, words, " ")
    for (i = 1; i <= n; i++) {
        word = words[i] ~ /^([^a-zA-Z]*--?[a-z]|-$)/ ? code(words[i]) : escaped(words[i])
        if (line != "" && length(line " " word) > 78) {
            lines = lines line "\n"
            line = ""
        }
        line = line (line == "" ? "" : " ") word
    }
    return lines line
}

# One line of running text or of an example; an empty one ends a paragraph. Indented lines are to be typed. `headed` where a
# heading stands before it.
function text_line(line) {
    if (line == "") {
        close_example()
        pending = 1
        return
    }
    if (line ~ /^  /) {
        if (!example) {
            print (headed ? "" : ".PP\n") ".RS 2\n.nf"
            example = 1
            headed = pending = 0
        }
        print code(substr(line, 3))
        return
    }
    close_example()
    if (pending)
        print ".PP"
    pending = 0
    print prose(line)
}

function close_example() {
    if (example)
        print ".fi\n.RE"
    example = 0
}

function close_page() {
    close_example()
    pending = 0
}

$1 == "version" { version = $2 }

$1 == "overview" { overview[++overviews] = $2 }

$1 == "command" {
    order[++commands] = $2
    summary[$2] = $3
}

$1 == "option" {
    tag = "\\fB" code($3) "\\fR" ($4 == "" ? "" : " \\fI" $4 "\\fR")
    options[$2] = options[$2] ".TP\n" tag "\n" prose($7) "\n"
}

$1 == "page" { page[$2] = page[$2] $3 "\n" }

# A command's help: usage, text, options, text. Commands with the same help share a section.
function section(names, text,    n, i, lines, state) {
    print ".SS " quoted_names(names)
    n = split(text, lines, "\n")
    state = "usage"
    for (i = 1; i < n; i++) {
        if (state == "usage") {
            if (lines[i] == "") {
                state = "before"
                print ".PP"
                continue
            }
            sub(/^(usage:|      ) /, "", lines[i])
            if (i > 1)
                print ".br"
            print usage(lines[i])
        } else if (lines[i] ~ /^  --/ && state == "before") {
            pending = 0
            printf "%s", options[names_first]
            state = "options"
        } else if (state == "options") {
            if (lines[i] == "") {
                state = "after"
                pending = 1
            }
        } else if (!(state == "before" && lines[i] == ""))
            text_line(lines[i])
    }
    close_page()
}

function usage(line,    n, i, words, result) {
    n = split(line, words, " ")
    for (i = 1; i <= n; i++) {
        if (words[i] ~ /^[a-z-]+$/)
            words[i] = "\\fB" code(words[i]) "\\fR"
        else if (words[i] ~ /^[A-Z]/)
            words[i] = "\\fI" code(words[i]) "\\fR"
        else
            words[i] = code(words[i])
        result = result (i > 1 ? " " : "") words[i]
    }
    return result
}

function quoted_names(names) {
    gsub(/-/, "\\-", names)
    return "\"" names "\""
}

END {
    if (!commands || version == "") {
        print "man.awk: no commands or no version" > "/dev/stderr"
        exit 1
    }
    about = overview[3]
    sub(/\.$/, "", about)
    print ".\\\" Written from the program's --help; do not edit."
    print ".TH LOCKSTEP 1 \"" date "\" \"lockstep " version "\" \"User Commands\""
    print ".SH NAME\n" prose("lockstep - " tolower(substr(about, 1, 1)) substr(about, 2))
    print ".SH SYNOPSIS\n\\fBlockstep\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]"
    print ".br\n\\fBlockstep\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR"
    print ".br\n\\fBlockstep\\fR \\fB\\-\\-help\\fR | \\fB\\-\\-version\\fR"
    print ".SH DESCRIPTION\n" prose(overview[3])
    for (i = 1; i <= commands; i++)
        print ".TP\n\\fB" code(order[i]) "\\fR\n" prose(summary[order[i]])
    print ".SH COMMANDS"
    for (i = 1; i <= commands; i++) {
        if (order[i] in done)
            continue
        names = names_first = order[i]
        for (k = i + 1; k <= commands; k++)
            if (page[order[k]] == page[order[i]]) {
                names = names ", " order[k]
                done[order[k]] = 1
            }
        section(names, page[order[i]])
    }
    # What follows the table of commands: the exit status and examples.
    for (i = 1; i <= overviews; i++) {
        if (sub(/^Exit status: /, "", overview[i])) {
            print ".SH \"EXIT STATUS\""
            while (i <= overviews && overview[i] != "")
                print prose(overview[i++])
        } else if (overview[i] ~ /^Examples?:$/) {
            print ".SH EXAMPLES"
            headed = 1
            while (++i <= overviews)
                text_line(overview[i])
            close_page()
        }
    }
    print ".SH \"SEE ALSO\"\n.BR mpirun (1)"
}
