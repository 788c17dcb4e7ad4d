#include "help.h"

#include <stdio.h>

typedef struct page {
    int command;
    const char *name, *usage, *before, *after;
} page;

static const page pages[] = {
    {COMMAND_TRAIN, "train", "lockstep train [options]",
     "Trains a network on Fashion-MNIST or other images, on several devices at once. Any number of devices gives the\n"
     "same bits.",
     "Results go to stdout: the last two lines are the accuracy with the seconds per epoch (without evaluation)\n"
     "and the devices, and the fingerprint of the trained weights. Progress and messages go to stderr; on a terminal\n"
     "with live curves, without colours where NO_COLOR is set.\n"
     "\n"
     "Examples:\n"
     "  lockstep train\n"
     "  lockstep train --model resnet18 --devices cpu:0-1 --epochs 1\n"
     "  lockstep train --limit 2000 --epochs 1 --log run.jsonl --save lenet.safetensors\n"
     "  lockstep train --dataset cifar10 --data cifar-10-batches-bin --flip --crop 4\n"
     "  lockstep train --report look\n"
     "  lockstep train --epochs 1 --trace trace.json\n"
     "  mpirun -n 4 lockstep train --checkpoint runs/a --resume\n"},
    {COMMAND_EVAL, "eval", "lockstep eval --weights FILE [options]",
     "Prints the accuracy of trained weights on the test images.",
     "Example:\n  lockstep eval --weights lenet.safetensors\n"},
    {COMMAND_PREDICT, "predict",
     "lockstep predict --weights FILE PICTURE... [options]\n       lockstep predict --weights FILE --out FILE "
     "[options]",
     "Says what pictures show (PNG or JPEG): a line for each, the likeliest classes with per cent. They are made to "
     "fit the\n"
     "size and the channels of the images that the weights were trained on.\n"
     "Or writes the logits of every test image of a data set, one row of float32 an image, in file order.",
     "A picture that cannot be read costs a line on stderr and the status, 1, and the others nothing.\n"
     "\n"
     "Examples:\n"
     "  lockstep predict --weights lenet.safetensors shoe.png bag.jpg\n"
     "  lockstep predict --weights lenet.safetensors --out logits.npy --limit-test 100\n"},
    {COMMAND_EXPORT, "export", "lockstep export --onnx FILE --weights FILE [options]",
     "Writes a network with its trained weights as an ONNX model, which onnxruntime and others run: from 'input', any\n"
     "number of images with values from 0 to 1, to 'output', the logits.",
     "Example:\n  lockstep export --onnx lenet.onnx --weights lenet.safetensors\n"},
    {COMMAND_FETCH, "data fetch", "lockstep data fetch [options]",
     "Downloads the four files of Fashion-MNIST and verifies their SHA-256 sums.",
     "Example:\n  lockstep data fetch --to ./data\n"},
    {COMMAND_REPORT, "report", "lockstep report RUN.jsonl... [options]",
     "Shows runs side by side, from the logs that 'lockstep train --log' wrote: a table on stdout, and in a folder "
     "the\n"
     "page report.html and the curves as curve.png and curve.svg.",
     "Runs whose losses are equal to the last bit in every step are said to be.\n"
     "\n"
     "Example:\n"
     "  lockstep train --devices cpu:0 --log one.jsonl\n"
     "  lockstep train --devices cpu:0-1 --log two.jsonl\n"
     "  lockstep report one.jsonl two.jsonl --out compared\n"},
    {COMMAND_BENCH, "bench", "lockstep bench [options]",
     "Measures training on random images: images per second on 1, 2, ... of the devices, and what more would bring; "
     "with\n"
     "--profile where the time of a step on all of them goes.",
     "The profile lists the operations of a step, the longest first: their time on all cores together, their share of\n"
     "the step, and a core's speed in them beside what was measured as its most, in multiply-adds and in bytes from "
     "and\n"
     "to memory. A convolution's GFLOP/s are direct convolution's arithmetic; Winograd does with a sixth to a half "
     "of\n"
     "the multiplications and may pass 100 %, as do operands that lie in a cache. What computes is measured in "
     "processor\n"
     "time: what other programs take of the cores is a line of its own, and no part of the operations' shares.\n"
     "\n"
     "Examples:\n"
     "  lockstep bench\n"
     "  lockstep bench --model resnet18 --devices cpu:0 --isa avx2\n"
     "  lockstep bench --profile --model lenet --steps 200 --json profile.json\n"},
    {COMMAND_DOCTOR, "doctor", "lockstep doctor [options]",
     "Looks at this machine before a long run: whether cores are free, the memory is enough, devices compute and copy "
     "the "
     "same\nnumbers, MPIs can be loaded, and the data are whole. Under mpirun it does so on each rank.",
     "A line on stdout for what is sound, one on stderr for what is not, with how to mend it. The status is 0 where "
     "nothing "
     "was\nfound, else 1.\n"
     "\n"
     "Examples:\n"
     "  lockstep doctor\n"
     "  lockstep doctor --model resnet18 --batch 1024 --checkpoint kept\n"
     "  mpirun -n 4 lockstep doctor\n"},
    {COMMAND_PLAIN, "this command", "lockstep devices\n       lockstep fingerprint FILE",
     "devices lists the devices of this machine; fingerprint prints the fingerprint of a weights file: SHA-256 over\n"
     "its tensors in byte order of their names, each as name, a zero byte, and the values as little-endian float32.",
     "Example:\n  lockstep fingerprint lenet.safetensors\n"},
};

static const page *page_of(int command)
{
    const page *p = pages;
    while (p->command != command)
        p++;
    return p;
}

const char *command_name(int command)
{
    return page_of(command)->name;
}

void print_help(int command, void (*print_options)(int command))
{
    const page *p = page_of(command);
    printf("usage: %s\n\n%s\n\n", p->usage, p->before);
    print_options(command);
    printf("\n%s", p->after);
}

void print_overview(void)
{
    printf("usage: lockstep COMMAND [options]\n"
           "\n"
           "Trains neural networks on several devices at once, with the same bits on any number of them.\n"
           "\n"
           "  train              train LeNet or ResNet-18 on Fashion-MNIST or other images\n"
           "  eval               accuracy of trained weights\n"
           "  predict FILE...    what pictures show, or logits of the test images\n"
           "  export             a trained network as an ONNX model\n"
           "  devices            the devices of this machine\n"
           "  doctor             whether this machine is fit for a long run\n"
           "  fingerprint FILE   fingerprint of a weights file\n"
           "  report RUN...      runs side by side: a table, a page and a picture\n"
           "  bench              images per second, and where a step's time goes\n"
           "  data fetch         download Fashion-MNIST\n"
           "\n"
           "  lockstep help COMMAND     options, defaults and examples; as does lockstep COMMAND --help\n"
           "  lockstep version          version, and what this program was built with; as does --version or -V\n"
           "\n"
           "Exit status: 0 done, 1 a failure (one line on stderr), 2 wrong usage, 128 + N ended by signal N.\n"
           "\n"
           "Examples:\n"
           "  lockstep train --devices cpu:0-1\n"
           "  lockstep train --model resnet18 --batch 256 --epochs 10 --save resnet18.safetensors\n"
           "  lockstep eval --weights resnet18.safetensors\n");
}
