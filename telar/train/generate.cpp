#include "telar/train/generate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/core/random.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/texts/token_options.h"
#include "telar/data/texts/words.h"
#include "telar/train/batch_view.h"

namespace telar {

namespace {

constexpr uint64_t kGenerateStream = 0x9e4e;

void require_text(const Trained& trained, const std::string& prompt, const GenerateOptions& options) {
  if (!trained.spec.labels_positions())
    throw user_error(
        "the model in {} was trained on data.source {}, not on texts, so it continues none; give it samples as files",
        trained.checkpoint.string(), trained.job.data.source);
  if (prompt.empty()) throw user_error("the prompt is empty; it must have at least one token");
  if (options.tokens < 0)
    throw user_error("there are {} tokens to write; it must be at least 0", options.tokens);
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    throw user_error("the temperature is {}; it must be a number of at least 0", options.temperature);
}

/// The place that u, from 0 to 1, falls to, if each has a stretch as long as its probability.
int32_t drawn(std::span<const float> logits, double temperature, double u) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> sums;
  double sum = 0;
  for (const float logit : logits)
    sums.push_back(sum += std::exp((static_cast<double>(logit) - largest) / temperature));
  const auto found = std::ranges::upper_bound(sums, u * sum);
  return static_cast<int32_t>(std::min(found, sums.end() - 1) - sums.begin());
}

/// A text and its tokens, which grow.
class ContinuedText {
 public:
  ContinuedText(const Trained& trained, const std::string& prompt, const GenerateOptions& options)
      : words_(trained.spec.class_names), options_(trained.job.data.options), text_(prompt) {
    if (takes_tokenizer(options_)) {
      require_utf8(prompt, "the prompt", false);
      tokens_ = encoded_prompt(tokenizer_of(options_), prompt);
      prompt_ = std::ssize(tokens_);
    } else if (takes_words(options_)) {
      const Vocabulary vocabulary(words_);
      const std::vector<std::string_view> found = words_of(prompt);
      for (const std::string_view word : found) tokens_.push_back(vocabulary.token_of(word));
      const auto no_utf8 = std::ranges::count(found, kUnknownWord);
      if (options.note && no_utf8 > 0)
        options.note(fmt::format("{} words of the prompt are no UTF-8 and therefore unknown", no_utf8));
    } else {
      for (const char c : prompt) tokens_.push_back(static_cast<uint8_t>(c));
    }
    if (tokens_.empty()) throw user_error("the prompt has no word; it must have at least one");
  }

  const std::vector<int32_t>& tokens() const { return tokens_; }
  /// The text so far. Python writes that of a tokenizer's tokens, when all of them are there.
  const std::string& text() const { return text_; }

  void add(int32_t token) {
    tokens_.push_back(token);
    if (takes_words(options_)) {
      append_word(text_, words_[static_cast<size_t>(token)]);
    } else if (!takes_tokenizer(options_)) {
      text_ += static_cast<char>(token);
    }
  }
  void end() {
    if (takes_tokenizer(options_) && std::ssize(tokens_) > prompt_)
      text_ = decoded(tokenizer_of(options_), tokens_, prompt_, text_);
  }

 private:
  const std::vector<std::string>& words_;
  const Attributes& options_;
  std::vector<int32_t> tokens_;
  int64_t prompt_ = 0;  ///< tokens of it
  std::string text_;
};

class Generator {
 public:
  Generator(const Trained& trained, const GenerateOptions& options)
      : trained_(trained),
        options_(options),
        random_(options.seed, kGenerateStream),
        batch_(tensors_of(trained.spec)) {
    batch_.resize(1);
    batch_.ids()[0] = 0;
    batch_.all_samples = 1;
  }

  /// The token after these.
  int32_t next(std::span<const int32_t> tokens) {
    const auto length = static_cast<size_t>(trained_.spec.features[0]);
    const std::span<const int32_t> seen = tokens.last(std::min(tokens.size(), length));
    std::memset(batch_.data(0), 0, trained_.spec.feature_bytes());  // no position attends to those after it
    std::memcpy(batch_.data(0), seen.data(), seen.size_bytes());
    const std::vector<float> outputs = trained_.session->predict(view_of(batch_));
    const auto classes = static_cast<size_t>(trained_.spec.classes);
    const std::span logits = std::span(outputs).subspan((seen.size() - 1) * classes, classes);
    if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }))
      throw run_error("the model in {} predicts numbers that are not finite", trained_.checkpoint.string());
    if (options_.temperature > 0) return drawn(logits, options_.temperature, random_.uniform());
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  }

 private:
  const Trained& trained_;
  GenerateOptions options_;
  RandomSequence random_;
  Batch batch_;
};

}  // namespace

void require_one_prediction(const Trained& trained) {
  if (!trained.spec.labels_positions()) return;
  throw user_error(
      "the model in {} was trained on texts and predicts a token at each position; telar predict continues a text, with --prompt",
      trained.checkpoint.string());
}

std::string generate(const Trained& trained, const std::string& prompt, const GenerateOptions& options) {
  require_text(trained, prompt, options);
  Generator generator(trained, options);
  ContinuedText text(trained, prompt, options);
  size_t told = 0;
  const auto goes_on = [&] {
    const std::string_view all = text.text();
    const std::string_view added = all.substr(std::min(told, all.size()));
    told = all.size();
    return !options.progress || options.progress(added);
  };
  for (int64_t i = 0; goes_on() && i < options.tokens; ++i) text.add(generator.next(text.tokens()));
  text.end();
  goes_on();
  return text.text();
}

}  // namespace telar
