# The reading half of arrows.sh: prints FILE:LINE: WHY of each place that leaves its room, and writes the picture of src's rooms to the
# file `picture`. It takes the sources, the public headers first. From the environment: `rooms`, lines "TREE ROOM MAY-INCLUDE...", and
# `fields`, the public functions that only show a field.

BEGIN {
    most_lines = 800 # of a file
    most_files = 20  # .c files of a folder
    most_share = 15  # per cent of src's lines, of a folder without folders in it
    for (i = 1; i < ARGC; i++)
        there[ARGV[i]] = 1
    read_rooms(ENVIRON["rooms"])
    n = split(ENVIRON["fields"], names)
    for (i = 1; i <= n; i++)
        shows[names[i]] = 1
    own("intrin\\.h$|^arm_(neon|sve|acle)\\.h$", "^src/device/cpu/lanes/lanes\\.h$", "SIMD intrinsics outside lanes.h")
    own("^(cuda|cudnn|cublas).*\\.h$|^(nvrtc|nccl)\\.h$", "^src/device/cuda/|^src/comm/nccl|^tests/(emulated/|own_kernels)",
        "CUDA header outside device/cuda and comm/nccl")
    own("^mpi\\.h$", "^include/lockstep_mpi\\.h$", "mpi.h outside lockstep_mpi.h")
    own("^lockstep_mpi\\.h$", "^src/cluster/mpi/|^(examples|tests|bench)/",
        "lockstep_mpi.h is for programs that have MPI, and for the plugins")
    own("^protobuf-c/|\\.pb-c\\.h$", "^src/io/onnx|^tests/", "ONNX's messages outside io/onnx")
    own("^dnnl.*\\.h$|^oneapi/", "^(tests|bench)/", "oneDNN is for tests and bench")
}

# Headers like `header` are for files like `by` alone.
function own(header, by, why)
{
    owned[++n_owned] = header
    owner[n_owned] = by
    disowned[n_owned] = why
}

function read_rooms(text,    rows, words, n, m, i, k)
{
    n = split(text, rows, "\n")
    for (i = 1; i <= n; i++) {
        m = split(rows[i], words, " ")
        for (k = 2; k <= m; k++) # its own room too
            may[words[1], words[2], words[k]] = 1
    }
}

function report(file, line, why)
{
    print file ":" line ": " why
}

# The tree, folder, room or module of a path. What lies beside the rooms of a tree is in the room ".".
function tree_of(path) { sub(/\/.*/, "", path); return path }
function folder_of(path) { sub(/\/[^\/]*$/, "", path); return path }
function module_of(path) { sub(/\.[a-z]+$/, "", path); return path }
function room_of(path)
{
    sub(/^[^\/]*\//, "", path)
    return path ~ /\// ? tree_of(path) : "."
}

FNR == 1 {
    end_file()
    begin_file()
}
{ last_line = FNR }
/^[ \t]*#[ \t]*include[ \t]*[<"]/ { check_include() }
tree == "include" && FILENAME !~ /_mpi\.h$/ && match($0, /^[A-Za-z_][A-Za-z0-9_ *]* \*?ls_[a-z0-9_]+\(/) {
    name = substr($0, 1, RLENGTH - 1)
    sub(/.*[ *]/, "", name)
    public[name] = !(name in shows)
}
tree == "src" && FILENAME ~ /\.[ch]$/ { check_quiet(code_of($0)) }
tree == "src" && FILENAME ~ /\.c$/ { check_environment() }
END {
    end_file()
    check_folders()
    check_circles()
    draw()
}

function begin_file()
{
    tree = tree_of(FILENAME)
    folder = folder_of(FILENAME)
    room = room_of(FILENAME)
    module = module_of(FILENAME)
    inside = begun = 0
    waiting = ""
    if (tree != "src" && tree != "cli")
        return
    if (!((tree, room, room) in may) && !unknown[tree, room]++)
        report(FILENAME, 1, tree "/" room " is no room that tools/arrows.sh knows")
    if (!(folder in files)) {
        folders[++n_folders] = folder
        files[folder] = 0
    }
    files[folder] += FILENAME ~ /\.c$/
    if (!(module in targets)) {
        modules[++n_modules] = module
        targets[module] = ""
    }
    if (tree == "src" && !seen[room]++)
        rooms[++n_rooms] = room
}

function end_file()
{
    if (last_line > most_lines)
        report(last_file, last_line, "longer than " most_lines " lines")
    if (tree == "src" || tree == "cli")
        lines[folder] += last_line
    if (tree == "src")
        all_lines += last_line
    last_file = FILENAME
}

function check_include(    text, header, quoted, i, target, to)
{
    text = $0
    sub(/^[^<"]*/, "", text)
    quoted = substr(text, 1, 1) == "\""
    header = substr(text, 2)
    sub(/[>"].*/, "", header)
    for (i = 1; i <= n_owned; i++)
        if (header ~ owned[i] && FILENAME !~ owner[i])
            report(FILENAME, FNR, disowned[i])
    if (!quoted)
        return
    target = target_of(header)
    if (tree == "cli" && target == "")
        report(FILENAME, FNR, header ": the program uses its own headers, by their paths in cli/, and the public ones alone")
    if (tree == "examples" && tree_of(target) != "examples" && header != "lockstep.h")
        report(FILENAME, FNR, header ": the examples use the public headers alone")
    if (target == "" || (tree != "src" && tree != "cli"))
        return
    note(module, module_of(target))
    to = room_of(target)
    if (to != room && !((tree, room, to) in may) && ((tree, room, room) in may))
        report(FILENAME, FNR, room " must not include from " to " (" header ")")
    if (tree == "src" && to != room)
        includes[room, to] = 1
}

# The file that the #include of a header means; "" for none of the tree.
function target_of(header,    beside)
{
    if (tree == "cli")
        return header !~ /\.\./ && (("cli/" header) in there) ? "cli/" header : ""
    beside = folder "/" header
    while (sub(/[^\/]+\/\.\.\//, "", beside))
        ;
    if (beside in there)
        return beside
    return tree == "src" && (("src/" header) in there) ? "src/" header : ""
}

function note(from, to)
{
    if (from == to || ((from, to) in place))
        return
    place[from, to] = FILENAME ":" FNR
    targets[from] = targets[from] " " to
}

# A line without comments and without what stands between quotes.
function code_of(text,    at, rest, block)
{
    if (inside) {
        if (!(at = index(text, "*/")))
            return ""
        text = substr(text, at + 2)
        inside = 0
    }
    if (text !~ /["\/]/)
        return text
    gsub(/'(\\.|[^'\\])'/, "0", text)
    gsub(/\\"/, "", text)
    gsub(/"[^"]*"/, "\"\"", text)
    while (match(text, /\/[\/*]/)) {
        rest = substr(text, RSTART + 2)
        block = substr(text, RSTART + 1, 1) == "*"
        text = substr(text, 1, RSTART - 1)
        if (!block)
            return text
        if (!(at = index(rest, "*/"))) {
            inside = 1
            return text
        }
        text = text " " substr(rest, at + 2)
    }
    return text
}

# The library never exits, prints, or catches signals.
function check_quiet(code)
{
    if (code ~ /(^|[^A-Za-z0-9_.>])(exit|_exit|_Exit|quick_exit|abort|assert|printf|vprintf|puts|putchar|perror|psignal|signal|sigaction)[ \t]*\(/ ||
        code ~ /(^|[^A-Za-z0-9_])(stdout|stderr|STDOUT_FILENO|STDERR_FILENO)([^A-Za-z0-9_]|$)/)
        report(FILENAME, FNR, "the library exits, prints or catches signals:" code)
}

# A public function that does more than show a field first takes an environment of its own (base/environment.h): what the program
# has set, such as how it rounds and its locale, must reach neither numbers nor files.
function check_environment(    name)
{
    if (waiting != "" && begun) {
        if ($0 != "    LS_OWN_ENVIRONMENT;")
            report(FILENAME, FNR, waiting " does not begin with LS_OWN_ENVIRONMENT")
        waiting = ""
    }
    if (waiting != "" && /^\{/)
        begun = 1
    if (/^[A-Za-z_][A-Za-z0-9_ *]*[ *]ls_[a-z0-9_]+\(/ && !/^(static|typedef)/ && !/;$/) {
        name = $0
        sub(/\(.*/, "", name)
        sub(/.*[ *]/, "", name)
        waiting = public[name] ? name : ""
        begun = 0
    }
}

function check_folders(    i, k, inner)
{
    for (i = 1; i <= n_folders; i++) {
        folder = folders[i]
        if (files[folder] > most_files)
            print folder ": " files[folder] " .c files in one folder; at most " most_files
        inner = 0
        for (k = 1; k <= n_folders; k++)
            inner += index(folders[k], folder "/") == 1
        if (folder ~ /^src\// && !inner && lines[folder] * 100 > all_lines * most_share)
            print folder ": " lines[folder] " of src's " all_lines " lines in one folder; at most " most_share " %"
    }
}

# A module, which is a .c and a .h of one name, must not need one that needs it. Each circle is named once, and then taken for broken.
function check_circles(    i, last)
{
    find_harmless()
    for (i = 1; i <= n_modules; i++)
        while ((last = last_of_circle(modules[i])) != "")
            report_circle(modules[i], last)
}

# Modules from which no circle can be reached.
function find_harmless(    found, left, words, n, i, k)
{
    do {
        found = 0
        for (i = 1; i <= n_modules; i++) {
            if (modules[i] in harmless)
                continue
            n = split(targets[modules[i]], words, " ")
            left = 0
            for (k = 1; k <= n; k++)
                left += !(words[k] in harmless)
            if (!left) {
                harmless[modules[i]] = 1
                found = 1
            }
        }
    } while (found)
}

# The module before `start` in the shortest circle through it, those before it in `before`; "" where there is none.
function last_of_circle(start,    queue, head, tail, at, words, n, k)
{
    split("", before)
    queue[head = tail = 1] = start
    while (head <= tail) {
        at = queue[head++]
        n = split(targets[at], words, " ")
        for (k = 1; k <= n; k++) {
            if ((words[k] in harmless) || !((at, words[k]) in place))
                continue
            if (words[k] == start)
                return at
            if (!(words[k] in before)) {
                before[words[k]] = at
                queue[++tail] = words[k]
            }
        }
    }
    return ""
}

function report_circle(start, last,    chain, to, edge)
{
    for (to = start; edge == "" || to != start; last = before[last]) {
        edge = place[last, to]
        chain = " -> " to " (" edge ")" chain
        delete place[last, to]
        to = last
    }
    print edge ": files in a circle: " start chain
}

# The rooms of src in layers, each with those rooms of lower layers that it includes from, but for what these include from anyway.
function draw(    layer, shown, i)
{
    find_reach()
    find_layers()
    printf "" >picture
    for (layer = top; layer >= 0; layer--) {
        shown = layer
        for (i = 1; i <= n_rooms; i++)
            if (layer_of[rooms[i]] == layer) {
                print row(shown, rooms[i]) >picture
                shown = ""
            }
    }
    close(picture)
}

function row(layer, from,    to, i, text)
{
    text = sprintf("%2s  %-10s ->", layer, from)
    for (layer = top; layer >= 0; layer--)
        for (i = 1; i <= n_rooms; i++) {
            to = rooms[i]
            if (layer_of[to] == layer && ((from, to) in includes) && !is_between(from, to))
                text = text " " to
        }
    sub(/ *->$/, "", text)
    return text
}

# Whether a way of includes leads from one room to another.
function find_reach(    i, k, m)
{
    for (i = 1; i <= n_rooms; i++)
        for (k = 1; k <= n_rooms; k++)
            reaches[rooms[i], rooms[k]] = ((rooms[i], rooms[k]) in includes)
    for (m = 1; m <= n_rooms; m++)
        for (i = 1; i <= n_rooms; i++)
            for (k = 1; k <= n_rooms; k++)
                if (reaches[rooms[i], rooms[m]] && reaches[rooms[m], rooms[k]])
                    reaches[rooms[i], rooms[k]] = 1
}

function is_between(from, to,    m)
{
    for (m = 1; m <= n_rooms; m++)
        if (reaches[from, rooms[m]] && reaches[rooms[m], to])
            return 1
    return 0
}

# A room's layer is the longest way down from it; of rooms in a circle, which was reported, it means nothing.
function find_layers(    pass, i, k)
{
    for (i = 1; i <= n_rooms; i++)
        layer_of[rooms[i]] = 0
    for (pass = 1; pass < n_rooms; pass++)
        for (i = 1; i <= n_rooms; i++)
            for (k = 1; k <= n_rooms; k++)
                if (((rooms[i], rooms[k]) in includes) && layer_of[rooms[k]] == pass - 1)
                    layer_of[rooms[i]] = top = pass
}
