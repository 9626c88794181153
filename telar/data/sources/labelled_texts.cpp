#include "telar/data/texts/labelled_texts.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "telar/comm/printable.h"
#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/data/texts/padded_texts.h"
#include "telar/data/texts/text_windows.h"
#include "telar/data/texts/token_options.h"
#include "telar/data/texts/word_texts.h"

namespace telar {

namespace {

using Tokens = std::vector<std::vector<int32_t>>;

bool is_folder(const Attributes& options) { return options.text("form") == "folder"; }

TextColumns columns_of(const Attributes& options) {
  const std::string& separator = options.text("separator");
  return {.text = options.text("text"),
          .label = options.text("label"),
          .separator = separator == "semicolon" ? ';'
                       : separator == "tab"     ? '\t'
                                                : ','};
}

std::vector<LabelledText> texts_of_file(const Bytes& bytes, const std::string& path, TextUse use,
                                        const Attributes& options) {
  const std::string_view text = plain_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  if (options.text("form") == "lines") return texts_of_lines(text, path, use);
  return texts_of_table(text, path, use, columns_of(options));
}

std::vector<LabelledText> labelled_texts_at(const std::string& path, const Attributes& options,
                                            std::vector<std::string>& notes) {
  std::vector<LabelledText> texts;
  if (is_folder(options)) {
    TextFolder folder = texts_of_folder(path);
    if (folder.ignored > 0)
      notes.push_back(fmt::format(
          "{}: {} files and folders are ignored; texts are the .txt files in the folders of their classes",
          path, folder.ignored));
    texts = std::move(folder.texts);
  } else {
    if (std::filesystem::is_directory(path))
      throw user_error("{}: is a folder; set data.form to folder if it has one for each class", path);
    texts = texts_of_file(read_unpacked(path), path, TextUse::train, options);
  }
  if (texts.empty()) throw user_error("{}: has no texts", path);
  return texts;
}

/// The labels, sorted.
std::vector<std::string> classes_in(const std::vector<LabelledText>& texts, const std::string& path) {
  std::set<std::string> names;
  for (const LabelledText& text : texts) names.insert(text.label);
  if (names.size() == 1)
    throw user_error("{}: all texts have the label '{}'; at least two are needed", path,
                     printable(*names.begin(), 60));
  if (names.size() > 2 && names.size() == texts.size())
    throw user_error("{}: each of the {} texts has a label of its own, so nothing can be learned", path,
                     texts.size());
  return {names.begin(), names.end()};
}

std::vector<int32_t> class_numbers(const std::vector<LabelledText>& texts,
                                   const std::vector<std::string>& classes) {
  std::vector<int32_t> numbers;
  for (const LabelledText& text : texts) {
    const auto found = std::ranges::lower_bound(classes, text.label);
    if (found == classes.end() || *found != text.label)
      throw user_error("{}: '{}' is not one of the {} labels that the model knows (data.class_names)",
                       text.place, printable(text.label, 60), classes.size());
    numbers.push_back(static_cast<int32_t>(found - classes.begin()));
  }
  return numbers;
}

/// Texts as tokens, and what is to be said of them.
struct CutTexts {
  NumberedTexts numbered;  ///< of bytes, these are the tokens
  int64_t cut = 0;
  int64_t empty = 0;

  CutTexts(const std::vector<LabelledText>& texts, const Attributes& options, Attributes& decided) {
    const auto length = static_cast<size_t>(options.integer("length"));
    Tokens encoded;
    if (takes_tokenizer(options)) {
      for (const LabelledText& text : texts) require_utf8(text.text, text.place, is_folder(options));
      const auto each = [&](const std::function<void(std::string_view)>& give) {
        for (const LabelledText& text : texts) give(text.text);
      };
      encoded = encoded_as(options, each, decided).tokens(options.integer("length") + 1);
    }
    for (const LabelledText& text : texts) {
      if (takes_words(options)) {
        numbered.add(text.text, text.place, is_folder(options));
      } else if (takes_tokenizer(options)) {
        numbered.texts.push_back(std::move(encoded[numbered.texts.size()]));
      } else {
        const std::string_view bytes = std::string_view(text.text).substr(0, length + 1);
        std::vector<int32_t>& tokens = numbered.texts.emplace_back();
        for (const char byte : bytes) tokens.push_back(static_cast<uint8_t>(byte));
      }
      std::vector<int32_t>& tokens = numbered.texts.back();
      if (tokens.empty()) ++empty;
      if (tokens.size() > length) ++cut;
      tokens.resize(std::min(tokens.size(), length));
      tokens.shrink_to_fit();
    }
  }

  void say(const std::string& path, const Attributes& options,
           const std::function<void(const std::string&)>& note) const {
    const int64_t texts = std::ssize(numbered.texts);
    if (cut > 0)
      note(fmt::format("{}: {} of {} texts have more than {} {} (data.length), and are cut there", path, cut,
                       texts, options.integer("length"), token_unit(options)));
    if (empty > 0)
      note(fmt::format("{}: {} of {} texts have no {}, only padding", path, empty, texts,
                       token_unit(options)));
    if (numbered.no_utf8 > 0) note(numbered.no_utf8_note(path));
  }
};

/// The words that are most frequent in the training rows.
std::vector<std::string> words_of_rows(const SourceRequest& request, const NumberedTexts& texts,
                                       const SplitKeys& keys) {
  std::vector<int64_t> counts(texts.words.size());
  for (const int64_t row : request.training_rows(std::ssize(texts.texts), keys))
    for (const int32_t word : texts.texts[static_cast<size_t>(row)]) ++counts[static_cast<size_t>(word)];
  return frequent_words(texts.words, counts, request.options.integer("most_words"));
}

/// As known by the options and by what the samples have decided.
std::optional<SampleSpec> spec_of_texts(const Attributes& options) {
  const std::optional<int64_t> tokens = vocabulary_size(options);
  const std::vector<std::string>& classes = options.texts("class_names");
  if (classes.empty() || !tokens) return std::nullopt;
  return spec_of_padded(options.integer("length"), *tokens, classes);
}

OpenedSource open_texts(const SourceRequest& request, Split part) {
  Attributes options = request.options;
  const std::string& path = options.text(part == Split::train ? "path" : "test_path");
  if (path.empty()) return {};
  if (is_folder(options) && request.split == SplitBy::time)
    throw user_error(
        "data.split is time, but the texts of a folder are in the order of their classes; choose random or stratified");
  OpenedSource opened;
  const std::vector<LabelledText> texts = labelled_texts_at(path, options, opened.notes);
  if (options.texts("class_names").empty()) options.set("class_names", classes_in(texts, path));
  std::vector<int32_t> labels = class_numbers(texts, options.texts("class_names"));
  if (request.split == SplitBy::stratified) opened.keys = {labels.begin(), labels.end()};
  CutTexts cut(texts, options, opened.decided);
  for (const auto& [name, value] : opened.decided) options.set(name, value);
  cut.say(path, options, [&](const std::string& note) { opened.notes.push_back(note); });
  opened.decided.set("class_names", options.texts("class_names"));
  Tokens tokens;
  if (takes_words(options)) {
    options.set("words", vocabulary_of(request, part,
                                       [&] { return words_of_rows(request, cut.numbered, opened.keys); }));
    opened.decided.set("words", options.texts("words"));
    tokens = with_tokens(std::move(cut.numbered), options.texts("words"));
  } else {
    tokens = std::move(cut.numbered.texts);
  }
  opened.samples = padded_texts(*spec_of_texts(options), std::move(tokens), std::move(labels));
  return opened;
}

/// How many lines begin like those that a model is trained on.
int64_t with_labels(const std::vector<LabelledText>& texts, const std::vector<std::string>& classes) {
  return std::ranges::count_if(texts, [&](const LabelledText& text) {
    const size_t tab = text.text.find('\t');
    return tab != std::string::npos && std::ranges::binary_search(classes, text.text.substr(0, tab));
  });
}

/// New texts: a table with their column, lines, or one whole text.
DatasetPtr text_inputs(const InputFile& file, const Attributes* options) {
  std::vector<LabelledText> texts;
  if (is_folder(*options)) {
    const std::string_view text =
        plain_text({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}, file.path);
    texts.push_back({std::string(text), "", file.path});
  } else {
    texts = texts_of_file(file.bytes, file.path, TextUse::predict, *options);
  }
  Attributes decided = *options;
  CutTexts cut(texts, *options, decided);
  if (file.note) cut.say(file.path, *options, file.note);
  const int64_t labelled =
      options->text("form") == "lines" ? with_labels(texts, options->texts("class_names")) : 0;
  if (file.note && labelled > 0)
    file.note(fmt::format(
        "{}: {} of {} lines begin with a label and a tab, which are read as a part of the text; telar evaluate takes labelled texts",
        file.path, labelled, texts.size()));
  Tokens tokens = takes_words(*options) ? with_tokens(std::move(cut.numbered), options->texts("words"))
                                        : std::move(cut.numbered.texts);
  return padded_texts(*spec_of_texts(*options), std::move(tokens), no_labels(std::ssize(texts)));
}

void check_texts(const Attributes& options) {
  require_path("labelled_texts", options);
  check_tokens(options);
  if (options.text("form") == "table" && options.text("text") == options.text("label"))
    throw OptionError("label",
                      fmt::format("data.text and data.label are both '{}'; a text is no label of itself",
                                  options.text("label")));
  const std::vector<std::string>& classes = options.texts("class_names");
  if (!std::ranges::is_sorted(classes) || std::ranges::adjacent_find(classes) != classes.end() ||
      classes.size() == 1)
    throw OptionError("class_names",
                      "data.class_names must be at least two labels, each once, in the order of their bytes");
}

}  // namespace

void register_labelled_texts(SourceRegistry& registry) {
  std::vector<Option> options = {
      path_option("path", "The file, or the folder with one subfolder per class."),
      test_path_option(),
      samples_option("form", "table", {.choices = {"table", "lines", "folder"}},
                     "table: CSV, with the names of the columns in line 1. lines: on each line a label, "
                     "a tab and a text. folder: .txt files in one folder for each class."),
      samples_option("text", "text", {}, "Of a table, the name of the column of texts."),
      samples_option("label", "label", {}, "Of a table, the name of the column of labels."),
      samples_option("separator", "comma", {.choices = {"comma", "semicolon", "tab"}},
                     "Of a table, the separator between two cells."),
      samples_option("length", int64_t{128}, {.least = 1, .most = kLongestText},
                     "Tokens of a sample. Longer texts are cut at their end, and shorter ones padded with "
                     "the token 0."),
      samples_option("class_names", std::vector<std::string>{}, {},
                     "The labels, in the order of the classes. Empty: found in the texts, and sorted.")};
  for (Option& option : token_options("words")) options.push_back(std::move(option));
  registry.add({.name = "labelled_texts",
                .summary = "texts that each have a class",
                .unit = "texts",
                .options = std::move(options),
                .paths = {"path", "test_path"},
                .test_paths = {"test_path"},
                .test_by_user = true,
                .class_folders = true,
                .open = open_texts,
                .spec = spec_of_texts,
                .check = check_texts,
                .owns = is_text_file,
                .kept = kTokenizerFile,
                .inputs = {.described = "a table with the column of texts, lines of texts, or a .txt file",
                           .open = text_inputs}});
}

}  // namespace telar
