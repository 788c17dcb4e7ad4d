/* A recipe to read, and for PyTorch. */
#ifndef TEST_NETWORKS_PRINT_H
#define TEST_NETWORKS_PRINT_H

#include "networks/recipe.h"

#include <stdio.h>

void recipe_print(const recipe *r, FILE *to);
/* Into the folder: NUMBER.json, the steps and the loss; NUMBER.safetensors, the values, the inputs of a first batch,
 * its y, the outputs in inference, and the gradients of its step, summed over the images; NUMBER.onnx where there can
 * be one. False after a failure, which is told. */
bool recipe_export(const recipe *r, const char *folder);

#endif
