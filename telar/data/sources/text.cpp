#include "telar/data/texts/text_windows.h"

#include "telar/core/error.h"
#include "telar/data/source.h"

namespace telar {

namespace {

constexpr double kLongest = 1 << 20;

int64_t stride_of(const Attributes& options) {
  const int64_t stride = options.integer("stride");
  return stride == 0 ? options.integer("length") : stride;
}

OpenedSource open_text(const SourceRequest& request, Split part) {
  const bool train = part == Split::train;
  const Attributes& options = request.options;
  const std::string& path = options.text(train ? "path" : "test_path");
  if (path.empty()) return {};
  const auto windows = std::make_shared<const TextWindows>(
      path, list_texts(path), TextWindowOptions{options.integer("length"), stride_of(options)});
  OpenedSource opened{windows};
  if (const int64_t files = windows->files_without(); files > 0)
    opened.notes.push_back(fmt::format("{}: {} files have fewer than {} bytes, so no sample is from them",
                                       path, files, options.integer("length") + 1));
  if (train && request.split == SplitBy::random && stride_of(options) < options.integer("length"))
    opened.notes.push_back(
        "data.stride is below data.length, so samples overlap, and those for validation are partly trained on; data.split: time sets the end of the text aside");
  return opened;
}

SampleSpec spec_of_text(const Attributes& options) {
  return spec_of_windows(options.integer("length"), kByteTokens);
}

}  // namespace

void register_text(SourceRegistry& registry) {
  registry.add(
      {.name = "text",
       .summary = "texts as sequences of tokens, each with the token that follows as its label",
       .unit = "windows",
       .options = {path_option("path", "A file, or a folder whose files are the texts."), test_path_option(),
                   samples_option("length", int64_t{128}, {.least = 1, .most = kLongest},
                                  "Tokens of a sample. Each byte of a text is a token."),
                   samples_option("stride", int64_t{0}, {.least = 0, .most = kLongest},
                                  "Tokens from the beginning of a sample to that of the next one. 0: "
                                  "`data.length`, so that samples do not overlap.")},
       .paths = {"path", "test_path"},
       .test_paths = {"test_path"},
       .test_by_user = true,
       .open = open_text,
       .spec = spec_of_text,
       .check = [](const Attributes& options) { require_path("text", options); },
       .owns = [](const std::string& /*name*/) { return true; }});
}

}  // namespace telar
