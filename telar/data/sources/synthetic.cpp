#include "telar/data/synthetic.h"

#include "telar/data/source.h"

namespace telar {

namespace {

constexpr double kMostGenerated = 1e9;

/// The test samples continue where the training samples end.
OpenedSource generate(const SourceRequest& request, Split part) {
  const Attributes& options = request.options;
  const bool train = part == Split::train;
  const int64_t samples = options.integer(train ? "samples" : "test_samples");
  if (samples == 0) return {};
  return {synthetic({.samples = samples,
                     .features = Shape(options.integers("shape")),
                     .classes = options.integer("classes"),
                     .seed = request.seed,
                     .first = train ? 0 : options.integer("samples"),
                     .vocabulary = options.integer("vocabulary")})};
}

void check_synthetic(const Attributes& options) {
  if (options.integers("shape").empty())
    throw OptionError("shape", "data.shape is empty; it must contain at least one number");
}

}  // namespace

void register_synthetic(SourceRegistry& registry) {
  registry.add({.name = "synthetic",
                .summary = "artificial samples that can be learned",
                .options = {classes_option(),
                            samples_option("shape", std::vector<int64_t>{1, 28, 28},
                                           {.least = 1, .most = 1 << 20}, "Shape of one sample."),
                            samples_option("samples", int64_t{1000}, {.least = 1, .most = kMostGenerated},
                                           "Number of samples to generate."),
                            samples_option("test_samples", int64_t{200}, {.least = 0, .most = kMostGenerated},
                                           "Number of test samples to generate."),
                            samples_option(
                                "vocabulary", int64_t{0}, {.least = 0, .most = 1 << 30},
                                "Above 0: each sample is a sequence of token ids below this value, of length "
                                "`data.shape`.")},
                .generated = true,
                .open = generate,
                .spec = spec_of_options,
                .check = check_synthetic});
}

}  // namespace telar
