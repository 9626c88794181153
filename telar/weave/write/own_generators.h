#pragma once

#include <functional>

#include "telar/weave/python/names.h"
#include "telar/weave/write/edits.h"

namespace telar::weave {

/// Gives a seed to generators of random numbers that a script creates without one
/// (`np.random.default_rng()`), if it draws from them before training, where all processes must draw alike.
/// `trains`: whether a call that draws is part of training, where the processes must differ. Throws Refusal
/// if one generator does both.
void seed_own_generators(const Names& names, Edits& edits, const std::function<bool(const Node*)>& trains);

}  // namespace telar::weave
