#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/data/texts/labelled_texts.h"
#include "telar/data/texts/text_windows.h"
#include "telar/data/texts/token_options.h"
#include "telar/data/texts/word_texts.h"

namespace telar {

namespace {

WindowOptions windows_of(const Attributes& options) {
  const int64_t length = options.integer("length");
  const int64_t stride = options.integer("stride");
  return {.length = length, .stride = stride == 0 ? length : stride};
}

WindowPlaces places_of_bytes(const std::string& path, const std::vector<TextFile>& files,
                             const Attributes& options) {
  std::vector<int64_t> bytes;
  for (const TextFile& file : files) bytes.push_back(file.bytes);
  return {path, "bytes", bytes, windows_of(options)};
}

/// Each file, as UTF-8.
EachText each_of(const std::vector<TextFile>& files) {
  return [&files](const std::function<void(std::string_view)>& give) {
    for (const TextFile& file : files) {
      const Bytes bytes = read_listed_file(file.path);
      const std::string_view text =
          plain_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.path);
      require_utf8(text, file.path, true);
      give(text);
    }
  };
}

OpenedSource open_text(const SourceRequest& request, Split part) {
  const Attributes& options = request.options;
  const std::string& path = options.text(part == Split::train ? "path" : "test_path");
  if (path.empty()) return {};
  const std::vector<TextFile> files = list_texts(path);
  OpenedSource opened;
  int64_t without = 0;
  if (takes_words(options)) {
    NumberedTexts texts = numbered_texts(files);
    if (texts.no_utf8 > 0) opened.notes.push_back(texts.no_utf8_note(path));
    WindowPlaces places(path, "words", texts.lengths(), windows_of(options));
    std::vector<std::string> words = vocabulary_of(request, part, [&] {
      return frequent_words(texts, places, request.training_rows(places.count(), {}),
                            options.integer("most_words"));
    });
    without = places.texts_without();
    opened.decided.set("words", words);
    auto tokens = with_tokens(std::move(texts), words);
    opened.samples = word_windows(std::move(tokens), std::move(words), std::move(places));
  } else if (takes_tokenizer(options)) {
    const EncodedTexts texts = encoded_as(options, each_of(files), opened.decided);
    WindowPlaces places(path, "tokens", texts.counts, windows_of(options));
    without = places.texts_without();
    opened.samples = token_windows(texts, std::move(places));
  } else {
    WindowPlaces places = places_of_bytes(path, files, options);
    without = places.texts_without();
    opened.samples = byte_windows(files, std::move(places));
  }
  if (without > 0)
    opened.notes.push_back(fmt::format("{}: no sample is from {} of the files, with fewer than {} {}", path,
                                       without, options.integer("length") + 1, token_unit(options)));
  const WindowOptions windows = windows_of(options);
  if (part == Split::train && request.sets_aside && windows.stride < windows.length)
    opened.notes.push_back(fmt::format(
        "data.stride is below data.length, so samples overlap, and those set aside for validation or test are partly trained on{} {} at the boundary of a part",
        request.split == SplitBy::time ? ": at most" : "; with data.split: time it is at most",
        (windows.length - 1) / windows.stride));
  return opened;
}

std::optional<SampleSpec> spec_of_text(const Attributes& options) {
  const std::optional<int64_t> tokens = vocabulary_size(options);
  if (!tokens) return std::nullopt;
  SampleSpec spec = spec_of_windows(options.integer("length"), *tokens);
  spec.class_names = options.texts("words");
  return spec;
}

void check_text(const Attributes& options) {
  require_path("text", options);
  check_tokens(options);
}

}  // namespace

void register_text(SourceRegistry& registry) {
  std::vector<Option> options = {
      path_option("path", "A file, or a folder whose files are the texts."), test_path_option(),
      samples_option("length", int64_t{128}, {.least = 1, .most = kLongestText}, "Tokens of a sample."),
      samples_option("stride", int64_t{0}, {.least = 0, .most = kLongestText},
                     "Tokens from the beginning of a sample to that of the next one. 0: "
                     "`data.length`, so that samples do not overlap.")};
  for (Option& option : token_options("bytes")) options.push_back(std::move(option));
  registry.add({.name = "text",
                .summary = "texts as sequences of tokens, each with the token that follows as its label",
                .unit = "windows",
                .options = std::move(options),
                .paths = {"path", "test_path"},
                .test_paths = {"test_path"},
                .test_by_user = true,
                .labels_positions = true,
                .open = open_text,
                .spec = spec_of_text,
                .check = check_text,
                .owns = [](const std::string& /*name*/) { return true; },
                .kept = kTokenizerFile});
}

}  // namespace telar
