/* export: a network for programs that compute it themselves. */
#include "commands.h"
#include "outputs.h"
#include "run.h"
#include "say.h"
#include "whole.h"

#include <stdio.h>

/* The network's images get their shape by --input, by the weights file, or else are the data set's. */
static int load(const run *r)
{
    const settings *chosen = r->chosen;
    ls_module *net = r->net;
    ls_shape images = chosen->input; /* none of them: what counts is their size */
    images.dim[0] = 0;
    if (images.rank && !ls_infer(net, ls_zeros(r->session, images)))
        return session_failed(r->session, "--input");
    if (ls_load(net, chosen->weights) == LS_SHAPE_UNKNOWN && ls_catch(r->session, LS_SHAPE_UNKNOWN)) {
        ls_infer(net, ls_zeros(r->session, LS_SHAPE(0, 1, 28, 28)));
        ls_load(net, chosen->weights);
    }
    return ls_failed(r->session) ? session_failed(r->session, "--weights") : 0;
}

static int export_network(run *r)
{
    int status = run_model_of_weights(r);
    if (status)
        return status;
    r->net = ls_model_for_file(r->session, r->model, r->chosen->weights);
    if (!r->net)
        return session_failed(r->session, "--weights");
    if (ls_initialize(r->net, r->devices, NULL) != LS_OK)
        return session_failed(r->session, r->model);
    if ((status = load(r)) != 0)
        return status;
    if (ls_export_onnx(r->net, r->chosen->onnx) != LS_OK)
        return session_failed(r->session, "--onnx");
    if (!r->chosen->quiet)
        note("%s as an ONNX model in %s", r->model, r->chosen->onnx);
    return 0;
}

int command_export(int argc, char **argv)
{
    settings chosen;
    run r;
    int status = 0;
    if (!read_options_only(COMMAND_EXPORT, argc, argv, &chosen, &status) || status)
        return status;
    if (!chosen.onnx)
        return wrong_usage("--onnx", "is needed: the file for the model");
    if (!chosen.weights)
        return wrong_usage("--weights", "is needed: the file with the trained weights");
    if ((status = outputs_check(COMMAND_EXPORT, &chosen, NULL, 0)) != 0 ||
        (status = check_new_file("--onnx", chosen.onnx)) != 0)
        return status;
    chosen.devices = "cpu:0"; /* nothing is computed */
    if ((status = run_open(&r, &chosen, NULL)) == 0)
        status = export_network(&r);
    return run_close(&r, status);
}
