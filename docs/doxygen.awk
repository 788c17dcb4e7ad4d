# The header's comments as Doxygen wants them: those before a declaration, those behind a member, and the section lines as groups.
NR == 1 { sub(/^\/\* /, "/** @file\n * ") }
/^\/\* ---- / {
    title = $0
    sub(/^\/\* ---- /, "", title)
    sub(/ -+ \*\/$/, "", title)
    if (open)
        print "/** @} */"
    id = tolower(title)
    gsub(/[^a-z]+/, "_", id)
    print "/** @defgroup " id " " title "\n * @{ */"
    open = 1
    next
}
/^ *\/\* / { sub(/\/\* /, "/** ") }
/[^ ].*[^*]\/\* / { sub(/\/\* /, "/**< ") }
/^#ifdef __cplusplus$/ && open { print "/** @} */"; open = 0 }
{ print }
