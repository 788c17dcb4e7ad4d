#include "options/help.h"

#include <stdio.h>

typedef struct page {
    int command;
    const char *name, *usage, *before, *after;
} page;

static const page pages[] = {
    {COMMAND_TRAIN, "train", "lockstep train [options]",
     "Trains a network on Fashion-MNIST or other images, on several devices at once. Any number of devices\n"
     "gives the same bits.",
     "Results go to stdout. The last two lines are the accuracy and the fingerprint of the trained weights. The\n"
     "accuracy's line also names the devices and the seconds of an epoch's training. Progress and messages go to\n"
     "stderr. A terminal shows live curves, in colour unless NO_COLOR is set.\n"
     "\n"
     "Examples:\n"
     "  lockstep train --init xavier --epochs 3\n"
     "  lockstep train --model resnet18 --devices cpu:0-1 --epochs 1\n"
     "  lockstep train --init xavier --limit 10000 --epochs 3 --log run.jsonl --save lenet.safetensors\n"
     "  lockstep train --init xavier --dataset cifar10 --data cifar-10-batches-bin --flip --crop 4\n"
     "  lockstep train --report look\n"
     "  lockstep train --init xavier --epochs 1 --trace trace.json\n"
     "  mpirun -n 4 lockstep train --checkpoint runs/a --resume\n"},
    {COMMAND_EVAL, "eval", "lockstep eval --weights FILE [options]",
     "Prints the accuracy of trained weights on the test images.",
     "Example:\n  lockstep eval --weights lenet.safetensors\n"},
    {COMMAND_PREDICT, "predict",
     "lockstep predict --weights FILE PICTURE... [options]\n       lockstep predict --weights FILE --out FILE "
     "[options]",
     "Says what is in pictures (PNG or JPEG). For each picture it prints one line: the likeliest classes, each with\n"
     "its probability in per cent. The pictures are made to fit the size and the channels of the images that the\n"
     "weights were trained on. With --out it writes the logits of every test image of a data set instead, one row of\n"
     "float32 for each image, in file order.",
     "A picture that cannot be read is named on stderr, and the status is then 1. The other pictures are still\n"
     "classified.\n"
     "\n"
     "Examples:\n"
     "  lockstep predict --weights lenet.safetensors shoe.png bag.jpg\n"
     "  lockstep predict --weights lenet.safetensors --out logits.npy --limit-test 100\n"},
    {COMMAND_EXPORT, "export", "lockstep export --onnx FILE --weights FILE [options]",
     "Writes a network with its trained weights as an ONNX model, for onnxruntime and other programs. The model's\n"
     "'input' takes any number of images with values from 0 to 1. Its 'output' is the logits.",
     "Example:\n  lockstep export --onnx lenet.onnx --weights lenet.safetensors\n"},
    {COMMAND_FETCH, "data fetch", "lockstep data fetch [options]",
     "Downloads the four files of Fashion-MNIST and verifies their SHA-256 sums.",
     "Example:\n  lockstep data fetch --to ./data\n"},
    {COMMAND_REPORT, "report", "lockstep report RUN.jsonl... [options]",
     "Shows runs side by side, from the logs of 'lockstep train --log'. It prints a table, and writes the page\n"
     "report.html and the curves as curve.png and curve.svg.",
     "Where the losses of two runs are equal in every bit of every step, the table says so.\n"
     "\n"
     "Example:\n"
     "  lockstep train --devices cpu:0 --log one.jsonl\n"
     "  lockstep train --devices cpu:0-1 --log two.jsonl\n"
     "  lockstep report one.jsonl two.jsonl --out compared\n"},
    {COMMAND_BENCH, "bench", "lockstep bench [options]",
     "Measures training on random images: the images per second on 1, 2, ... devices, with a forecast for more. With\n"
     "--profile it shows where the time of a step on all devices goes.",
     "The profile lists the operations of a step, the longest first. For each it gives the time, added up over all\n"
     "cores, and its share of the step. It also gives two speeds of a core for each operation: GFLOP/s, and GB/s\n"
     "from and to memory. Each speed is the mean over all cores. After each speed comes its percentage of a core's\n"
     "peak. The peak is measured on all cores at the same time, and is the mean over them. GFLOP/s are counted as if\n"
     "every convolution were direct. Winograd makes only a sixth to three fifths of those multiplications, so its\n"
     "figure may pass 100 %. GB/s may pass 100 % too, where operands come from a cache. Computing is measured in\n"
     "processor time. The time of other programs is a line of its own.\n"
     "\n"
     "Examples:\n"
     "  lockstep bench\n"
     "  lockstep bench --model resnet18 --devices cpu:0 --isa avx2\n"
     "  lockstep bench --profile --model lenet --steps 200 --json profile.json\n"},
    {COMMAND_DOCTOR, "doctor", "lockstep doctor [options]",
     "Checks this machine before a long run: free cores, enough memory, devices that compute and copy correctly, MPIs\n"
     "that can be loaded, and complete data files. The options are those of the run that is planned. Under mpirun it\n"
     "checks every rank.",
     "What passes is printed on stdout, a line each. A fault is a line on stderr that says what to do. The status is "
     "0\n"
     "without faults, else 1.\n"
     "\n"
     "Examples:\n"
     "  lockstep doctor\n"
     "  lockstep doctor --model resnet18 --batch 1024 --checkpoint kept\n"
     "  mpirun -n 4 lockstep doctor\n"},
    {COMMAND_PLAIN, "this command", "lockstep devices\n       lockstep fingerprint FILE",
     "'lockstep devices' lists the devices of this machine. 'lockstep fingerprint' prints the fingerprint of a\n"
     "weights file. This is the SHA-256 over the file's tensors, sorted by the bytes of their names. For each tensor\n"
     "the hash covers the name, a zero byte, and the values as little-endian float32.",
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
           "  eval               print the accuracy of trained weights\n"
           "  predict FILE...    classify pictures, or write the logits of the test images\n"
           "  export             write a trained network as an ONNX model\n"
           "  devices            list the devices of this machine\n"
           "  doctor             check this machine before a long run\n"
           "  fingerprint FILE   print the fingerprint of a weights file\n"
           "  report RUN...      show runs side by side: a table, a page and a picture\n"
           "  bench              measure images per second, and where a step's time goes\n"
           "  data fetch         download Fashion-MNIST\n"
           "\n"
           "  lockstep help COMMAND     options, defaults and examples; the same as lockstep COMMAND --help\n"
           "  lockstep version          version, and what it was built with; the same as --version or -V\n"
           "\n"
           "Exit status: 0 done, 1 a failure (one line on stderr), 2 wrong usage, 128 + N ended by signal N.\n"
           "\n"
           "Examples:\n"
           "  lockstep train --devices cpu:0-1\n"
           "  lockstep train --model resnet18 --batch 256 --epochs 10 --save resnet18.safetensors\n"
           "  lockstep eval --weights resnet18.safetensors\n");
}
