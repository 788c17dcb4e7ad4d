/* export: a network for programs that compute it themselves. */
#include "commands.h"
#include "options/options.h"
#include "options/outputs.h"
#include "run/run.h"
#include "system/whole.h"
#include "text/say.h"

#include <lockstep_nn.h>
#include <stdio.h>

static int export_network(run *r)
{
    const ls_shape usual = LS_SHAPE(0, 1, 28, 28);
    int status = run_network_of_weights(r, &usual);
    if (status)
        return status;
    if (ls_module_export_onnx(r->net, r->chosen->onnx) != LS_OK)
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
        (status = check_new_file("--onnx", chosen.onnx)) != 0 ||
        (status = outputs_check_held(COMMAND_EXPORT, &chosen)) != 0)
        return status;
    chosen.devices = "cpu:0"; /* nothing is computed */
    if ((status = run_open(&r, &chosen, NULL)) == 0)
        status = export_network(&r);
    return run_close(&r, status);
}
