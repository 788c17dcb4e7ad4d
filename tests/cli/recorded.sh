# Sourced after common.sh by tests of the program with a record of what it does to files (recorded.c).
# shellcheck shell=sh
# shellcheck disable=SC2154 # of common.sh

record() { # FOLDER: from the next run on
    RECORD_FOLDER=$(cd "$1" && pwd -P)
    RECORD_TO=$work/record
    export RECORD_FOLDER RECORD_TO
}

# Lines of the record: what has to be done, in this order.
replaced() { # TEMPORARY NAME FOLDER
    printf 'write %s\nsync %s\nrename %s %s\nsync %s\n' "$1" "$1" "$1" "$2" "$3"
}
made() { # NAME FOLDER
    printf 'make %s\nsync %s\n' "$1" "$2"
}
of_library() { # NAME FOLDER
    replaced "$1.tmp" "$1" "$2"
}

is_recorded() { # the last run's record is $work/wanted
    diff "$work/wanted" "$work/record" >"$work/difference" || wrong "$called: other calls than have to be: $(cat "$work/difference")"
}
