/* Weights from PyTorch: torchvision's ResNet-18 with a last layer for other classes, which alone is trained. Before, in
 * Python:
 *     save_file(torchvision.models.resnet18(weights="DEFAULT").state_dict(), "resnet18.safetensors")
 * pretrained [EPOCHS [IMAGES [FILE]]] */
#include "arguments.h"
#include "torchvision.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>
#include <lockstep_weights.h>
#include <stdio.h>

static ls_module *network(ls_session *s, const ls_data *like, const char *file)
{
    static const int blocks[] = {2, 2, 2, 2};
    static const char *const last[] = {"fc.*", NULL};
    const char *report = NULL;
    ls_module *net = resnet(s, blocks, false, 10);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_HE, .like = like});
    if (ls_module_load_with(net, file, &(ls_load_options){.skip = last}, &report) == LS_OK)
        puts(report);
    ls_module_freeze(net, "*", true);
    ls_module_freeze(net, "fc.*", false);
    return net;
}

int main(int argc, char **argv)
{
    int epochs = 1, images = 10000;
    const char *file = "resnet18.safetensors";
    read_arguments(
        argc, argv,
        "torchvision's ResNet-18 from FILE (resnet18.safetensors), and EPOCHS (1) over IMAGES (10000) for its "
        "last layer.\nIt prints, and writes no file.",
        (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &images}, {"FILE", .text = &file}}, 3);
    ls_session *s = ls_open(NULL);
    ls_data *train = ls_data_fashion_mnist(s, LS_TRAIN, &(ls_loader){.batch = 128, .shuffle = true, .limit = images});
    ls_data *test = ls_data_fashion_mnist(s, LS_TEST, &(ls_loader){.limit = images});
    ls_module *net = network(s, train, file);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++)
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer);
        }
    printf("test acc: %.2f\n", ls_module_accuracy(net, test));
    if (ls_failed(s))
        fprintf(stderr, "pretrained: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
