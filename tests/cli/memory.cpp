/* examples/memory.c as C++17: what C writes as compound literals has names here. */
#include <lockstep.h>
#include <lockstep_nn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

enum { SIZE = 12, CLASSES = 4, TEST = 200 };

static void draw(std::uint8_t *image, std::uint8_t &label,
                 unsigned i) /* noise, and a bright quarter that says the class */
{
    label = static_cast<std::uint8_t>(i % CLASSES);
    for (unsigned p = 0; p < SIZE * SIZE; p++) {
        unsigned quarter = (p / SIZE >= SIZE / 2) * 2U + (p % SIZE >= SIZE / 2);
        image[p] = static_cast<std::uint8_t>(((i + 7) * (p + 3) * 2654435761U >> 25) + (quarter == label ? 100 : 0));
    }
}

static ls_module *network(ls_session *s)
{
    ls_conv same = {};
    same.padding = 1;
    ls_pool third = {};
    third.kernel = 3;
    ls_module *net = ls_sequential(s, nullptr);
    ls_module_append(net, "conv", ls_nn_conv2d(s, 8, 3, &same));
    ls_module_append(net, "norm", ls_nn_batch_norm(s));
    ls_module_append(net, "relu", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "pool", ls_nn_max_pool2d(s, &third));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "out", ls_nn_linear(s, CLASSES));
    return net;
}

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? std::atoi(argv[1]) : 3, rows = argc > 2 ? std::atoi(argv[2]) : 2000;
    const std::size_t pixels = SIZE * SIZE, all = static_cast<std::size_t>(rows) + TEST;
    std::vector<std::uint8_t> images(all * pixels), labels(all);
    for (std::size_t i = 0; i < all; i++)
        draw(&images[i * pixels], labels[i], static_cast<unsigned>(i));

    ls_loader shuffled = {};
    shuffled.batch = 100;
    shuffled.shuffle = true;
    ls_init he = {};
    he.kind = LS_HE;
    ls_optim optim = {};
    optim.lr = 0.1;
    optim.momentum = 0.9;
    ls_session *s = ls_open(nullptr);
    ls_data *train = ls_data_from_memory(s, images.data(), labels.data(), rows, 1, SIZE, SIZE, CLASSES, &shuffled);
    ls_data *test = ls_data_from_memory(s, &images[static_cast<std::size_t>(rows) * pixels],
                                        &labels[static_cast<std::size_t>(rows)], TEST, 1, SIZE, SIZE, CLASSES, nullptr);
    ls_tensor *shape = ls_zeros(s, LS_SHAPE(2, 3)); /* the macro is C++ too */
    ls_module *net = network(s);
    ls_module_initialize(net, ls_try_devices(s, 2), &he);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &optim);
    for (int epoch = 0; epoch < epochs; epoch++)
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer);
        }
    std::printf("test acc: %.2f, %d sizes\n", ls_module_accuracy(net, test), ls_rank(shape));
    ls_module_save(net, argc > 3 ? argv[3] : "memory.safetensors");
    if (ls_failed(s)) /* the first failure, wherever it was */
        std::fprintf(stderr, "memory: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
