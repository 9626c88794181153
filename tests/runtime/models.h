#pragma once

#include "telar/nn/zoo.h"

namespace telar::test {

/// The demo's network, for images of 28 × 28 pixels and 10 classes.
inline Model convnet() { return make_model("convnet", {}, {1, 28, 28}, 10); }

}  // namespace telar::test
