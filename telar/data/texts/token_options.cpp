#include "telar/data/texts/token_options.h"

#include "telar/data/texts/text_windows.h"
#include "telar/data/texts/words.h"

namespace telar {

std::vector<Option> token_options(const std::string& fallback) {
  constexpr double kMostWords = 90'000;  // a job has them, and at most 100,000 values
  return {
      samples_option("tokens", fallback, {.choices = {"bytes", "words", "tokenizer"}},
                     "bytes: each byte of a text is a token. words: each word, punctuation mark and "
                     "end of a line; the texts are then kept in memory. tokenizer: those of "
                     "`data.tokenizer`."),
      samples_option("most_words", int64_t{10000}, {.least = 2, .most = kMostWords},
                     "With `data.tokens: words`: the most frequent words of the training samples are "
                     "known, so many with the one for all others."),
      samples_option("words", std::vector<std::string>{}, {},
                     "The known words. Decided by the training samples and recorded by a run; not to be "
                     "written by hand."),
      {.name = "tokenizer",
       .fallback = std::string(),
       .help =
           "With `data.tokens: tokenizer`: a file tokenizer.json in the form of Hugging Face. A run keeps "
           "a copy.",
       .on_resume = OnResume::free},
      samples_option("tokenizer_checksum", std::string(), {},
                     "The checksum of that file. Recorded by a run; not to be written by hand."),
      samples_option("tokenizer_tokens", int64_t{0}, {.least = 0, .most = 1 << 30},
                     "The number of its tokens. Recorded by a run; not to be written by hand.")};
}

bool takes_words(const Attributes& options) { return options.text("tokens") == "words"; }

bool takes_tokenizer(const Attributes& options) { return options.text("tokens") == "tokenizer"; }

std::string token_unit(const Attributes& options) {
  return takes_tokenizer(options) ? "tokens" : options.text("tokens");
}

std::optional<int64_t> vocabulary_size(const Attributes& options) {
  const int64_t size = takes_words(options)       ? std::ssize(options.texts("words"))
                       : takes_tokenizer(options) ? options.integer("tokenizer_tokens")
                                                  : kByteTokens;
  return size > 0 ? std::optional(size) : std::nullopt;
}

Tokenizer tokenizer_of(const Attributes& options) {
  Tokenizer tokenizer{options.text("tokenizer")};
  const std::string& kept = options.text("tokenizer_checksum");
  if (const std::string checksum = kept.empty() ? kept : tokenizer.checksum(); checksum != kept)
    throw user_error("{}: is not the tokenizer with which the run was trained (its checksum is {}, not {})",
                     tokenizer.file, checksum, kept);
  return tokenizer;
}

EncodedTexts encoded_as(const Attributes& options, const EachText& texts, Attributes& decided) {
  const Tokenizer tokenizer = tokenizer_of(options);
  EncodedTexts encoded = telar::encoded(tokenizer, texts);
  decided.set("tokenizer_checksum", tokenizer.checksum());
  decided.set("tokenizer_tokens", encoded.vocabulary);
  return encoded;
}

void check_tokens(const Attributes& options) {
  if (takes_tokenizer(options) == options.text("tokenizer").empty())
    throw OptionError("tokenizer",
                      takes_tokenizer(options)
                          ? "data.tokens is tokenizer, so data.tokenizer must name its file tokenizer.json"
                          : "data.tokenizer is given, but data.tokens is not tokenizer");
  const std::vector<std::string>& words = options.texts("words");
  if (words.empty() || (takes_words(options) && words.front() == kUnknownWord)) return;
  throw OptionError(
      "words",
      fmt::format(
          "data.words is decided by the training samples with data.tokens words, and begins with {}; leave it out",
          kUnknownWord));
}

std::vector<std::string> vocabulary_of(const SourceRequest& request, Split part,
                                       const std::function<std::vector<std::string>()>& frequent) {
  const std::vector<std::string>& kept = request.options.texts("words");
  if (!kept.empty()) return kept;
  if (part == Split::test)
    throw user_error(
        "data.tokens is words, but nothing has decided on a vocabulary; texts of words are tested by the run that was trained on such");
  if (!request.training_rows)
    throw user_error(
        "data.tokens is words, and each process has other texts (data.spread), so none knows the words of all; choose bytes, or give all processes all texts");
  return frequent();
}

}  // namespace telar
