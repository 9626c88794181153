#pragma once

#include "run_files_input.h"
#include "telar/io/model_text.h"
#include "telar/nn/training_step.h"

// The part of fuzz/model.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Reads the text of a model file and makes a training step of it. Returns whether it is accepted.
inline bool read_model(std::span<const uint8_t> input) {
  return read_and_write(
      input,
      [](const std::string& text) {
        ModelText read = model_from_json(text, "the model");
        Model model;
        model.name = read.name;
        model.graphs = std::make_shared<ModelGraphs>(read.graphs);
        make_training_step(model, {.batch = 3});
        return read;
      },
      [](const ModelText& model) { return to_json(model); });
}

}  // namespace telar::fuzz
