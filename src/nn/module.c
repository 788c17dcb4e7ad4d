#include "nn/module.h"

#include <lockstep_train.h>

#include "base/environment.h"
#include "nn/freezing.h"

#include <stdio.h>
#include <string.h>

/* What to write in place of a module in two networks. */
#define LS_SHARED_APART                                                                                                \
    "two networks cannot share weights: initialize what they share as a network of its own, and call "                 \
    "ls_module_forward of one on the other's result"

ls_module *ls_bad_layer(ls_session *session, const char *message)
{
    if (session)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s", message);
    return NULL;
}

ls_module *ls_module_new(ls_session *session, ls_forward *forward)
{
    if (!session || ls_failed(session))
        return NULL;
    ls_module *module = ls_session_alloc(session, 1, sizeof *module, "a module");
    if (module)
        *module = (ls_module){.session = session, .forward = forward};
    return module;
}

ls_module *ls_block(ls_session *session, ls_forward *forward, void *user)
{
    LS_OWN_ENVIRONMENT;
    if (session && !forward)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_block: forward is NULL");
    ls_module *module = ls_module_new(session, forward);
    if (module) {
        module->user = user;
        module->calls_children = true;
    }
    return module;
}

void *ls_module_user(ls_module *block)
{
    return block ? block->user : NULL;
}

static ls_tensor *forward_in_turn(ls_module *self, ls_tensor *x)
{
    for (int i = 0; i < self->n_children; i++)
        x = ls_module_call(self, self->children[i].name, x);
    return x;
}

static int find_child(const ls_module *parent, const char *name)
{
    for (int i = 0; i < parent->n_children; i++)
        if (strcmp(parent->children[i].name, name) == 0)
            return i;
    return -1;
}

static ls_status grow(ls_module *parent)
{
    int capacity = parent->capacity ? 2 * parent->capacity : 8;
    ls_child_entry *larger = ls_session_alloc(parent->session, (size_t)capacity, sizeof *larger, "a module's children");
    if (!larger)
        return LS_OUT_OF_MEMORY;
    if (parent->n_children)
        memcpy(larger, parent->children, (size_t)parent->n_children * sizeof *larger);
    parent->children = larger;
    parent->capacity = capacity;
    return LS_OK;
}

/* The path that a module has by its first place; false where it is too long. */
static bool write_path(const ls_module *module, char *path, size_t size)
{
    if (!module->parent) {
        *path = '\0';
        return true;
    }
    if (!write_path(module->parent, path, size))
        return false;
    const size_t length = strlen(path);
    return (size_t)snprintf(path + length, size - length, "%s%s", length ? "." : "", module->name) < size - length;
}

static const char the_network[] = "the network"; /* its own path in messages */

const char *ls_module_path(const ls_module *module, char text[LS_MODULE_PATH])
{
    write_path(module, text, LS_MODULE_PATH); /* or as much of it as there is room for */
    return module->parent ? text : strcpy(text, the_network);
}

ls_module *ls_module_root(ls_module *module)
{
    while (module->parent)
        module = module->parent;
    return module;
}

/* The module that dots in a name lead to from here, and what of the name is left: "encoder.weight" is "weight" of a
 * child. A name may have dots of its own: "out_proj.weight" of attention. */
static ls_module *owner_of(ls_module *module, const char **name)
{
    for (const char *dot; (dot = strchr(*name, '.'));) {
        int i = module->n_children - 1;
        const size_t length = (size_t)(dot - *name);
        while (i >= 0 && (strncmp(module->children[i].name, *name, length) != 0 || module->children[i].name[length]))
            i--;
        if (i < 0)
            break;
        module = module->children[i].module;
        *name = dot + 1;
    }
    return module;
}

ls_tensor *ls_layer_parameter(ls_module *self, const char *name, ls_shape shape)
{
    ls_session *session = self->session;
    ls_recording *recording = session->recording;
    char path[sizeof recording->path];
    if (!recording || ls_failed(session))
        return NULL;
    ls_module *owner = owner_of(self, &name);
    if (ls_module_root(owner) != recording->root || !write_path(owner, path, sizeof path)) {
        ls_raise(&session->context, LS_BAD_ARGUMENT,
                 "ls_module_parameter: \"%s\" is asked of a module of another network, or one that is nested too "
                 "deeply",
                 name);
        return NULL;
    }
    recording->by_another = strcmp(path, recording->path) != 0;
    ls_tensor *parameter = ls_record_parameter(session, path, name, &shape);
    recording->by_another = false;
    return parameter;
}

ls_status ls_module_add_freezing(ls_module *module, const char *pattern, bool frozen)
{
    ls_session *session = module->session;
    ls_module *root = ls_module_root(module);
    char path[LS_MODULE_PATH];
    char *whole = ls_format(&session->context, "a pattern", "%s%s%s",
                            root == module ? "" : ls_module_path(module, path), root == module ? "" : ".", pattern);
    const ls_freezing *freezing = whole ? ls_freezing_with(session, root->freezing, whole, frozen) : NULL;
    ls_release(&session->context, whole);
    root->freezing = freezing ? freezing : root->freezing;
    return ls_status_of(session);
}

/* Once the module has got its place. */
static ls_status hand_up_freezing(ls_module *child)
{
    const ls_freezing *own = child->freezing;
    child->freezing = NULL;
    for (int i = 0; own && i < own->n; i++)
        if (ls_module_add_freezing(child, own->rules[i].pattern, own->rules[i].frozen) != LS_OK)
            break;
    return ls_status_of(child->session);
}

/* Looks at each module once, however many places it has: `walk` is this search's number. */
static bool is_within(const ls_module *module, ls_module *whole, uint64_t walk)
{
    bool found = module == whole;
    for (int i = 0; i < whole->n_children && !found && whole->recorded != walk; i++)
        found = is_within(module, whole->children[i].module, walk);
    whole->recorded = walk;
    return found;
}

/* Whether the parameters of the module's network are made, which nothing can join or change from then on. */
static bool is_defined(ls_module *module)
{
    const ls_module *root = ls_module_root(module);
    return root->defined && *root->defined;
}

/* A module may have several places, all in one network, and known before its parameters are made: what came later would
 * be left out. */
static ls_status check_place(ls_module *parent, const char *name, ls_module *child)
{
    ls_context *context = &parent->session->context;
    char path[LS_MODULE_PATH];
    if (!parent->calls_children)
        return ls_raise(
            context, LS_BAD_ARGUMENT,
            "ls_module_append: \"%s\": the parent, %s, is a layer or a whole network and calls no children; put both "
            "into ls_sequential",
            name, ls_module_path(parent, path));
    if (child->session != parent->session)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_module_append: \"%s\" belongs to another session", name);
    if (is_within(parent, child, ++parent->session->recordings))
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_module_append: \"%s\" would be a part of itself", name);
    if (child->network)
        return ls_raise(
            context, LS_BAD_ARGUMENT,
            "ls_module_append: \"%s\" has values of its own; append it first, then initialize the outermost module",
            name);
    const ls_module *root = ls_module_root(parent), *owner = ls_module_root(child);
    if (owner != root && owner->network)
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_module_append: \"%s\" is \"%s\" of another network, which has values; " LS_SHARED_APART,
                        name, ls_module_path(child, path));
    if (is_defined(parent))
        return ls_raise(
            context, LS_BAD_ARGUMENT,
            "ls_module_append: \"%s\" comes too late to %s: the parameters were made when the images' shape became "
            "known; append before the first call, and before ls_module_initialize with init.shape or init.like",
            name, ls_module_path(parent, path));
    return LS_OK;
}

ls_status ls_module_recompute(ls_module *module, bool on)
{
    LS_OWN_ENVIRONMENT;
    if (!module || ls_failed(module->session))
        return module ? ls_status_of(module->session) : LS_BAD_ARGUMENT;
    char path[LS_MODULE_PATH];
    if (is_defined(module))
        return ls_raise(
            &module->session->context, LS_BAD_ARGUMENT,
            "ls_module_recompute: it comes too late to %s: the network was recorded when the images' shape "
            "became known; call it before the first call, and before ls_module_initialize with init.shape or init.like",
            ls_module_path(module, path));
    module->recompute = on;
    return LS_OK;
}

ls_status ls_module_append(ls_module *parent, const char *name, ls_module *child)
{
    LS_OWN_ENVIRONMENT;
    if (!parent || !child) {
        ls_session *session = parent ? parent->session : child ? child->session : NULL;
        if (session)
            return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_module_append: %s is NULL",
                            parent ? "child" : "parent");
        return LS_BAD_ARGUMENT;
    }
    ls_context *context = &parent->session->context;
    char number[16];
    snprintf(number, sizeof number, "%d", parent->n_children);
    if (!name)
        name = number;
    if (strpbrk(name, "./") || !*name || strlen(name) > 64)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_module_append: \"%s\" is no name for a child", name);
    if (find_child(parent, name) >= 0)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_module_append: there is a child \"%s\" already", name);
    if (check_place(parent, name, child) != LS_OK)
        return LS_BAD_ARGUMENT;
    if (parent->n_children == parent->capacity && grow(parent) != LS_OK)
        return LS_OUT_OF_MEMORY;
    char *kept = ls_session_alloc(parent->session, strlen(name) + 1, 1, "a child's name");
    if (!kept)
        return LS_OUT_OF_MEMORY;
    parent->children[parent->n_children++] = (ls_child_entry){strcpy(kept, name), child};
    if (child->parent)
        return LS_OK; /* its parameters bear the name of its first place */
    child->parent = parent;
    child->name = kept;
    return hand_up_freezing(child);
}

ls_module *ls_sequential(ls_session *session, ls_module *const list[])
{
    LS_OWN_ENVIRONMENT;
    ls_module *module = session ? ls_block(session, forward_in_turn, NULL) : NULL;
    for (int i = 0; module && list && list[i]; i++)
        if (ls_module_append(module, NULL, list[i]) != LS_OK)
            return NULL;
    return module;
}

ls_module *ls_module_child(ls_module *parent, const char *name)
{
    int i = parent && name ? find_child(parent, name) : -1;
    return i < 0 ? NULL : parent->children[i].module;
}

/* Where a child that is called has another place than its first: `before` and `name` are those of this one. */
static ls_status note_place(ls_recording *recording, const char *before, const char *name)
{
    char other[sizeof recording->path];
    const int length = snprintf(other, sizeof other, "%s%s%s", before, *before ? "." : "", name);
    if ((size_t)length >= sizeof other)
        return LS_OK; /* longer than the first place's name, which fits: no file is found by it */
    return strcmp(other, recording->path) == 0 ? LS_OK : ls_flat_alias(recording->flat, other, recording->path);
}

/* A call within another one whose results are not kept belongs to that. */
static ls_tensor *run_forward(ls_recording *recording, ls_module *module, ls_tensor *x)
{
    const int around = recording->block;
    if (module->recompute && !around)
        recording->block = ++recording->blocks;
    ls_tensor *y = module->forward(module, x);
    ls_environment_renew();
    recording->block = around;
    return y;
}

/* Parameters lie under the path of the first place, whichever is called. */
static ls_tensor *call(ls_recording *recording, const char *name, ls_module *child, ls_tensor *x)
{
    ls_session *session = child->session;
    char before[sizeof recording->path];
    memcpy(before, recording->path, sizeof before);
    ls_tensor *y = NULL;
    if (ls_module_root(child) != recording->root) {
        ls_raise(&session->context, LS_BAD_ARGUMENT,
                 "ls_module_call: a module called at \"%s\" is \"%s\" of another network; " LS_SHARED_APART,
                 *before ? before : the_network, ls_module_path(child, recording->path));
    } else if (!write_path(child, recording->path, sizeof recording->path)) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_module_call: modules are nested too deeply at \"%s\"", before);
    } else if (note_place(recording, before, name) == LS_OK) {
        child->uses = child->recorded == recording->number ? child->uses + 1 : 1;
        child->recorded = recording->number;
        y = run_forward(recording, child, x);
    }
    memcpy(recording->path, before, sizeof before);
    return y;
}

/* Says what the parent's children are called. */
static ls_module *no_child(const ls_module *parent, const char *name, const char *function)
{
    enum { LISTED = 512 };
    char path[LS_MODULE_PATH], listed[LISTED] = "";
    for (int i = 0, length = 0; i < parent->n_children && length < LISTED - 80; i++)
        length +=
            snprintf(listed + length, (size_t)(LISTED - length), "%s\"%s\"%s", i ? ", " : "", parent->children[i].name,
                     length > LISTED - 170 && i + 1 < parent->n_children ? ", ..." : "");
    ls_raise(&parent->session->context, LS_BAD_ARGUMENT,
             parent->n_children
                 ? "%s: there is no child \"%s\" in %s, whose children are %s; give it to ls_module_append "
                   "by that name"
                 : "%s: there is no child \"%s\" in %s, which has none%s; give it to ls_module_append by "
                   "that name",
             function, name ? name : "(null)", ls_module_path(parent, path), listed);
    return NULL;
}

/* The child that a forward may call; NULL after a failure, whose message begins with the function. */
static ls_module *callee(const ls_module *parent, const char *name, const char *function)
{
    ls_session *session = parent->session;
    const int i = name ? find_child(parent, name) : -1;
    if (ls_failed(session))
        return NULL;
    if (i < 0)
        return no_child(parent, name, function);
    if (!session->recording)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: \"%s\" called outside a forward", function, name);
    return ls_failed(session) ? NULL : parent->children[i].module;
}

ls_tensor *ls_module_call(ls_module *parent, const char *name, ls_tensor *x)
{
    LS_OWN_ENVIRONMENT;
    ls_module *child = parent && x ? callee(parent, name, "ls_module_call") : NULL;
    return child ? call(parent->session->recording, name, child, x) : NULL;
}

ls_tensor *ls_module_call_with_lengths(ls_module *parent, const char *name, ls_tensor *x, ls_tensor *lengths)
{
    LS_OWN_ENVIRONMENT;
    ls_module *child = parent && x ? callee(parent, name, "ls_module_call_with_lengths") : NULL;
    if (!child)
        return NULL;
    if (!child->takes_lengths) {
        ls_raise(&parent->session->context, LS_BAD_ARGUMENT,
                 "ls_module_call_with_lengths: \"%s\" is neither a recurrent layer nor attention; others take no "
                 "lengths: ls_module_call calls them",
                 name);
        return NULL;
    }
    child->lengths = lengths;
    ls_tensor *y = call(parent->session->recording, name, child, x);
    child->lengths = NULL;
    return y;
}

ls_tensor *ls_module_input(ls_module *self, int i)
{
    LS_OWN_ENVIRONMENT;
    if (!self || ls_failed(self->session))
        return NULL;
    const ls_recording *recording = self->session->recording;
    if (recording && i >= 0 && i < recording->n_inputs)
        return recording->inputs[i];
    if (recording)
        ls_raise(&self->session->context, LS_BAD_ARGUMENT,
                 "ls_module_input: there is no input %d; the network was called with %d", i, recording->n_inputs);
    else
        ls_raise(&self->session->context, LS_BAD_ARGUMENT, "ls_module_input: input %d asked for outside a forward", i);
    return NULL;
}

static ls_tensor *record(ls_module *root, ls_recording *recording, ls_recorded *recorded, const ls_input_shapes *shapes)
{
    ls_session *session = root->session;
    for (int i = 0; i < shapes->n; i++) {
        ls_tensor *input = ls_tensor_new(session, LS_TENSOR_INPUT, &shapes->at[i], (ls_device){LS_HOST, 0});
        if (!input)
            return NULL;
        input->input = i;
        recording->inputs[recording->n_inputs++] = recorded->inputs[i] = ls_tensor_hold(input);
    }
    ls_tensor *output = run_forward(recording, root, recorded->inputs[0]);
    if (ls_failed(session))
        return NULL;
    if (!output || output->kind != LS_TENSOR_COMPUTED || output->fold || output->shape.dim[0] != -1) {
        ls_raise(&session->context, LS_BAD_SHAPE,
                 "the network's forward must return what it made of its input, a row for each image");
        return NULL;
    }
    return ls_tensor_hold(output);
}

/* What only others have named of a module that was called is a name that the module does not have. */
static ls_status check_names(ls_module *root, const ls_recording *recording)
{
    const ls_flat *flat = recording->flat;
    for (int i = 0; i < flat->n_views; i++) {
        const char *name = flat->views[i].name;
        const ls_module *owner = owner_of(root, &name);
        if (!flat->views[i].by_another || owner->recorded != recording->number)
            continue;
        char listed[512] = "", path[LS_MODULE_PATH];
        const size_t path_length = (size_t)(name - flat->views[i].name);
        for (int k = 0, n = 0; k < flat->n_views && n < (int)sizeof listed - 100; k++)
            if (!flat->views[k].by_another && strncmp(flat->views[k].name, flat->views[i].name, path_length) == 0)
                n += snprintf(listed + n, sizeof listed - (size_t)n, "%s\"%.64s\"", n ? ", " : "; it has ",
                              flat->views[k].name + path_length);
        return ls_raise(&root->session->context, LS_BAD_ARGUMENT,
                        "ls_module_parameter: \"%s\" has no parameter \"%s\"%s", ls_module_path(owner, path), name,
                        listed);
    }
    return LS_OK;
}

ls_status ls_module_record(ls_module *root, ls_flat *flat, bool training, const ls_input_shapes *shapes,
                           ls_recorded *recorded)
{
    ls_session *session = root->session;
    if (session->recording)
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "a network was called in the forward of another one");
    ls_recording recording = {.flat = flat, .training = training, .root = root, .number = ++session->recordings};
    int scope = ls_scope_open(session, NULL);
    if (scope < 0)
        return ls_status_of(session);
    session->recording = &recording;
    recorded->output = record(root, &recording, recorded, shapes);
    if (!ls_failed(session))
        check_names(root, &recording);
    session->recording = NULL;
    ls_scope_close(session, scope);
    return ls_status_of(session);
}

void ls_recorded_release(ls_recorded *recorded)
{
    ls_tensor_drop(recorded->output);
    for (int i = 0; i < LS_MAX_INPUTS; i++)
        ls_tensor_drop(recorded->inputs[i]);
    *recorded = (ls_recorded){.output = NULL};
}
