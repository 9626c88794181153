#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/data/texts/text_windows.h"
#include "telar/data/texts/word_texts.h"
#include "telar/data/texts/words.h"

namespace telar {

namespace {

constexpr double kLongest = 1 << 20;
constexpr double kMostWords = 1'000'000;

WindowOptions windows_of(const Attributes& options) {
  const int64_t length = options.integer("length");
  const int64_t stride = options.integer("stride");
  return {.length = length, .stride = stride == 0 ? length : stride};
}

bool takes_words(const Attributes& options) { return options.text("tokens") == "words"; }

WindowPlaces places_of_bytes(const std::string& path, const std::vector<TextFile>& files,
                             const Attributes& options) {
  std::vector<int64_t> bytes;
  for (const TextFile& file : files) bytes.push_back(file.bytes);
  return {path, "bytes", bytes, windows_of(options)};
}

/// The vocabulary of a run, or that of the training samples, which the run will keep.
std::vector<std::string> vocabulary_of(const SourceRequest& request, Split part, const NumberedTexts& texts,
                                       const WindowPlaces& places) {
  const std::vector<std::string>& kept = request.options.texts("words");
  if (!kept.empty()) return kept;
  if (part == Split::test)
    throw user_error(
        "data.tokens is words, but nothing has decided on a vocabulary; texts of words are tested by the run that was trained on such");
  if (!request.training_rows)
    throw user_error(
        "data.tokens is words, and each process has other texts (data.spread), so none knows the words of all; choose bytes, or give all processes all texts");
  return frequent_words(texts, places, request.training_rows(places.count(), {}),
                        request.options.integer("most_words"));
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
    WindowPlaces places(path, "words", texts.lengths(), windows_of(options));
    std::vector<std::string> words = vocabulary_of(request, part, texts, places);
    without = places.texts_without();
    opened.decided.set("words", words);
    auto tokens = with_tokens(std::move(texts), words);
    opened.samples = word_windows(std::move(tokens), std::move(words), std::move(places));
  } else {
    WindowPlaces places = places_of_bytes(path, files, options);
    without = places.texts_without();
    opened.samples = byte_windows(files, std::move(places));
  }
  if (without > 0)
    opened.notes.push_back(fmt::format("{}: no sample is from {} of the files, with fewer than {} {}", path,
                                       without, options.integer("length") + 1, options.text("tokens")));
  const WindowOptions windows = windows_of(options);
  if (part == Split::train && request.sets_aside && windows.stride < windows.length)
    opened.notes.push_back(fmt::format(
        "data.stride is below data.length, so samples overlap, and those set aside for validation or test are partly trained on{} {} at the boundary of a part",
        request.split == SplitBy::time ? ": at most" : "; with data.split: time it is at most",
        (windows.length - 1) / windows.stride));
  return opened;
}

/// Of words, known when the training samples have decided on them.
std::optional<SampleSpec> spec_of_text(const Attributes& options) {
  if (!takes_words(options)) return spec_of_windows(options.integer("length"), kByteTokens);
  const std::vector<std::string>& words = options.texts("words");
  if (words.empty()) return std::nullopt;
  SampleSpec spec = spec_of_windows(options.integer("length"), std::ssize(words));
  spec.class_names = words;
  return spec;
}

void check_text(const Attributes& options) {
  require_path("text", options);
  const std::vector<std::string>& words = options.texts("words");
  if (words.empty() || (takes_words(options) && words.front() == kUnknownWord)) return;
  throw OptionError(
      "words",
      fmt::format(
          "data.words is decided by the training samples with data.tokens words, and begins with {}; leave it out",
          kUnknownWord));
}

}  // namespace

void register_text(SourceRegistry& registry) {
  registry.add(
      {.name = "text",
       .summary = "texts as sequences of tokens, each with the token that follows as its label",
       .unit = "windows",
       .options =
           {path_option("path", "A file, or a folder whose files are the texts."), test_path_option(),
            samples_option("length", int64_t{128}, {.least = 1, .most = kLongest}, "Tokens of a sample."),
            samples_option("stride", int64_t{0}, {.least = 0, .most = kLongest},
                           "Tokens from the beginning of a sample to that of the next one. 0: "
                           "`data.length`, so that samples do not overlap."),
            samples_option("tokens", "bytes", {.choices = {"bytes", "words"}},
                           "bytes: each byte of a text is a token. words: each word, punctuation mark and "
                           "end of a line; the texts are then kept in memory."),
            samples_option("most_words", int64_t{10000}, {.least = 2, .most = kMostWords},
                           "With `data.tokens: words`: the most frequent words of the training samples are "
                           "known, so many with the one for all others."),
            samples_option(
                "words", std::vector<std::string>{}, {},
                "The known words. Decided by the training samples and recorded by a run; not to be "
                "written by hand.")},
       .paths = {"path", "test_path"},
       .test_paths = {"test_path"},
       .test_by_user = true,
       .labels_positions = true,
       .open = open_text,
       .spec = spec_of_text,
       .check = check_text,
       .owns = [](const std::string& /*name*/) { return true; }});
}

}  // namespace telar
