/* How the files of this folder, compiled once for each instruction set, find one another. */
#pragma once

#include "device/backend.h"

/* LANES(ls_conv) is ls_conv_avx512 where the build says -DLANES_ISA=avx512. */
#define LANES_PASTE(name, isa) name##_##isa
#define LANES_NAME(name, isa)  LANES_PASTE(name, isa)
#define LANES(name)            LANES_NAME(name, LANES_ISA)
#define LANES_STRING(text)     #text
#define LANES_QUOTE(text)      LANES_STRING(text)

/* The backend of one instruction set. Any thread may call it. */
const ls_backend *LANES(ls_lanes)(void);

/* Each file puts its kernels into the table. */
void LANES(ls_lanes_add_conv)(ls_backend *backend);
void LANES(ls_lanes_add_weight)(ls_backend *backend);
void LANES(ls_lanes_add_conv_pool)(ls_backend *backend);
void LANES(ls_lanes_add_winograd)(ls_backend *backend);
void LANES(ls_lanes_add_winograd_weight)(ls_backend *backend);
void LANES(ls_lanes_add_norm)(ls_backend *backend);
void LANES(ls_lanes_add_pool)(ls_backend *backend);
void LANES(ls_lanes_add_pointwise)(ls_backend *backend);
void LANES(ls_lanes_add_elementwise)(ls_backend *backend);
void LANES(ls_lanes_add_function)(ls_backend *backend);
void LANES(ls_lanes_add_expand)(ls_backend *backend);
void LANES(ls_lanes_add_view)(ls_backend *backend);
void LANES(ls_lanes_add_set_norm)(ls_backend *backend);
void LANES(ls_lanes_add_batch_matmul)(ls_backend *backend);
void LANES(ls_lanes_add_embedding)(ls_backend *backend);
void LANES(ls_lanes_add_recurrent)(ls_backend *backend);
void LANES(ls_lanes_add_attention)(ls_backend *backend);
void LANES(ls_lanes_add_features)(ls_backend *backend);
void LANES(ls_lanes_add_dropout)(ls_backend *backend);
void LANES(ls_lanes_add_loss)(ls_backend *backend);
void LANES(ls_lanes_add_flat)(ls_backend *backend);
void LANES(ls_lanes_add_peak)(ls_backend *backend);

/* CONV_WEIGHT of a linear layer: whether it is one, its sums, which need no scratch, and the units that parts are made
 * of. */
int LANES(ls_lanes_is_linear)(const ls_op_call *call);
void LANES(ls_lanes_linear_weight)(const ls_op_call *call);
int LANES(ls_lanes_linear_weight_units)(const ls_op_call *call);
size_t LANES(ls_lanes_linear_weight_scratch)(const ls_op_call *call);

/* The three directions of a convolution whose groups have one input channel and few outputs. */
int LANES(ls_lanes_is_depthwise)(const ls_op_call *call);
void LANES(ls_lanes_depthwise)(const ls_op_call *call); /* CONV and CONV_DATA */
void LANES(ls_lanes_depthwise_weight)(const ls_op_call *call);
size_t LANES(ls_lanes_depthwise_scratch)(const ls_op_call *call); /* all three */
int LANES(ls_lanes_depthwise_units)(const ls_op_call *call);      /* all three */

/* Bytes of scratch for the operations that use any. */
size_t LANES(ls_lanes_images_scratch)(const ls_op_call *call);
size_t LANES(ls_lanes_conv_scratch)(const ls_op_call *call); /* CONV and CONV_DATA */
size_t LANES(ls_lanes_weight_scratch)(const ls_op_call *call);
size_t LANES(ls_lanes_attention_scratch)(const ls_op_call *call); /* both directions */
size_t LANES(ls_lanes_winograd_scratch)(const ls_op_call *call);  /* both directions */
size_t LANES(ls_lanes_winograd_weight_scratch)(const ls_op_call *call);
size_t LANES(ls_lanes_recurrent_scratch)(const ls_op_call *call); /* LSTM, GRU, both directions */

/* Into how many parts they can be cut. */
int LANES(ls_lanes_conv_units)(const ls_op_call *call); /* both */
int LANES(ls_lanes_weight_units)(const ls_op_call *call);
int LANES(ls_lanes_conv_pool_units)(const ls_op_call *call); /* both directions */
int LANES(ls_lanes_batch_matmul_units)(const ls_op_call *call);
int LANES(ls_lanes_embedding_units)(const ls_op_call *call); /* both directions */
int LANES(ls_lanes_attention_units)(const ls_op_call *call); /* both directions */
int LANES(ls_lanes_winograd_units)(const ls_op_call *call);
int LANES(ls_lanes_winograd_weight_units)(const ls_op_call *call);
