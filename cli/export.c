/* export: a network for programs that compute it themselves. */
#include "commands.h"
#include "run.h"
#include "say.h"
#include "whole.h"

#include <stdio.h>

/* The network's images get their shape by --input, by the weights file, or else are the data set's. */
static ls_status load(const run *r)
{
    const settings *chosen = r->chosen;
    ls_module *net = r->net;
    const ls_shape usual = LS_SHAPE(1, 1, 28, 28);
    if (chosen->input.rank)
        ls_infer(net, ls_zeros(r->session, chosen->input));
    if (ls_load(net, chosen->weights) == LS_SHAPE_UNKNOWN && ls_catch(r->session, LS_SHAPE_UNKNOWN)) {
        ls_infer(net, ls_zeros(r->session, usual));
        ls_load(net, chosen->weights);
    }
    return ls_status_of(r->session);
}

static int export_network(run *r)
{
    int status = run_model_of_weights(r);
    if (status)
        return status;
    r->net = ls_model(r->session, r->model);
    if (ls_initialize(r->net, r->devices, NULL) != LS_OK)
        return session_failed(r->session, r->model);
    if (load(r) != LS_OK)
        return session_failed(r->session, "--weights");
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
    if ((status = check_new_file("--onnx", chosen.onnx)) != 0)
        return status;
    chosen.devices = "cpu:0"; /* nothing is computed */
    if ((status = run_open(&r, &chosen, NULL)) == 0)
        status = export_network(&r);
    return run_close(&r, status);
}
