#include "telar/data/texts/token_options.h"

#include "telar/data/texts/words.h"

namespace telar {

std::vector<Option> token_options(const std::string& fallback) {
  constexpr double kMostWords = 90'000;  // a job has them, and at most 100,000 values
  return {samples_option("tokens", fallback, {.choices = {"bytes", "words"}},
                         "bytes: each byte of a text is a token. words: each word, punctuation mark and "
                         "end of a line; the texts are then kept in memory."),
          samples_option("most_words", int64_t{10000}, {.least = 2, .most = kMostWords},
                         "With `data.tokens: words`: the most frequent words of the training samples are "
                         "known, so many with the one for all others."),
          samples_option("words", std::vector<std::string>{}, {},
                         "The known words. Decided by the training samples and recorded by a run; not to be "
                         "written by hand.")};
}

bool takes_words(const Attributes& options) { return options.text("tokens") == "words"; }

void check_words(const Attributes& options) {
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
