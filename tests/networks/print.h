/* A recipe to read, and for PyTorch. */
#ifndef TEST_NETWORKS_PRINT_H
#define TEST_NETWORKS_PRINT_H

#include "networks/recipe.h"

#include <stdio.h>

void recipe_print(const recipe *r, FILE *to);
/* Into the folder: NUMBER.json, what NUMBER.safetensors has besides the weights are the inputs of a first batch, its y
 * and all gradients, summed over the images. False after a failure, which is told. */
bool recipe_export(const recipe *r, const char *folder);

#endif
