#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "telar/train/trained.h"

namespace telar {

struct GenerateOptions {
  int64_t tokens = 100;
  /// By which logits are divided before a token is drawn. 0: the likeliest token, of equal ones the first.
  double temperature = 1;
  uint64_t seed = 0;
  /// Receives the prompt, then what each token adds; returns whether to go on. May be empty.
  std::function<bool(std::string_view added)> progress = {};
  /// Receives sentences on how the prompt was understood; may be empty.
  std::function<void(const std::string&)> note = {};
};

/// Throws Error (user) if the model predicts tokens at each position, where one prediction for a sample is
/// needed.
void require_one_prediction(const Trained& trained);

/// A prompt with the tokens that the model continues it with, one after another. It sees at most as many
/// tokens as a sample of its training has, the last ones. The result depends on the arguments alone. Throws
/// Error (user): the model was not trained on texts, the prompt is empty, options out of range; Error (run)
/// for a prediction that is not finite.
std::string generate(const Trained& trained, const std::string& prompt, const GenerateOptions& options);

}  // namespace telar
