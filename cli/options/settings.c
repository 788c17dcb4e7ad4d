#include "options/settings.h"

const settings settings_usual = {.batch = 256,
                                 .epochs = 10,
                                 .init = {.kind = LS_NORMAL, .scale = 0.01},
                                 .init_text = "normal:0.01",
                                 .dataset = "fashion-mnist",
                                 .lr = -1,
                                 .beta1 = -1,
                                 .beta2 = -1,
                                 .eps = -1,
                                 .weight_decay = -1,
                                 .start_factor = -1,
                                 .end_factor = -1,
                                 .gamma = -1};
