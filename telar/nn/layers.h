#pragma once

/// Layers: functions that declare a layer's parameters under its name (PyTorch's: "NAME.weight", "NAME.bias"
/// …) and add its operations. Activations, `add`, `concat`, `flatten` and pools have no parameters: use the
/// functions of telar/graph/ops, which accept a ModelBuilder.
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/pooling.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/softmax.h"
#include "telar/nn/layers/convolution.h"
#include "telar/nn/layers/dropout.h"
#include "telar/nn/layers/embedding.h"
#include "telar/nn/layers/linear.h"
#include "telar/nn/layers/normalisation.h"
#include "telar/nn/layers/pooling.h"
#include "telar/nn/layers/recurrent.h"
#include "telar/nn/layers/residual.h"
