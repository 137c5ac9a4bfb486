/* The front ends of this recorder. To add one, add a row here; the core stays unchanged. */
#include "capture/core/front.h"
#include "capture/core/tables.h"
#include "capture/cuda/cupti.h"
#include "capture/cuda/front.h"
#include "capture/nvtx/nvtx.h"
#include "capture/python/python_stack.h"
#include "capture/stack/stack.h"
#include "capture/torch/operators.h"
#include "capture/torch/torch.h"
#include "capture/torch/torch_history.h"

static const struct mp_front *const fronts[] = {
    &mp_tables_front,
    &mp_stack_front,
    &mp_torch_front,
    &mp_autograd_front,
    &mp_annotations_front,
    &mp_operators_front,
    &mp_cupti_front,
    &mp_cuda_front_end,
    &mp_python_front,
    &mp_nvtx_front,
    NULL,
};

const struct mp_fronts mp_fronts = {.front = fronts, .capture = mp_stack_capture, .same_stack = mp_stack_same};
