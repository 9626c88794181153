#include "telar/train/job_draft.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/source.h"
#include "telar/train/job_value.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

/// A key of the job, with a comment if there is one.
std::string line(const std::string& key, const std::string& value, const std::string& comment = "") {
  constexpr size_t kCommentColumn = 36;
  std::string text = key + ": " + value;
  if (!comment.empty())
    text += std::string(std::max(text.size() + 2, kCommentColumn) - text.size(), ' ') + "# " + comment;
  return text + "\n";
}

std::string text_of_option(const SourceType& type, const DraftOption& drafted) {
  const auto option = std::ranges::find(type.options, drafted.name, &Option::name);
  return line("  " + drafted.name, option_text(drafted.value, option->rule), drafted.comment);
}

std::string data_text(const SourceType& type, const SourceDraft& draft) {
  std::string text = "data:\n" + line("  source", type.name);
  for (const DraftOption& option : draft.options) text += text_of_option(type, option);
  if (draft.classes) text += line("  split", "stratified", "each part has the same share of each class");
  text += line("  validation", "0.1");
  if (!draft.tests_elsewhere) text += line("  test", "0.2");
  for (const std::string& hint : draft.hints) text += "  # " + hint + "\n";
  return text;
}

std::string training_text(const SourceDraft& draft) {
  constexpr int64_t kMany = 10'000;
  const bool many = draft.samples > kMany;
  std::string text;
  if (draft.unequal) text += line("loss", "{balanced: true}", "some classes are rare; each counts the same");
  return text + "optimizer: adam\nschedule: cosine\ntraining:\n" + line("  epochs", many ? "20" : "50") +
         line("  batch", many ? "128" : "32") + line("  metrics", draft.classes ? "[f1]" : "[mae, r2]") +
         line("  early_stopping", "{patience: 10}", "epochs without a lower validation loss");
}

}  // namespace

JobDraft draft_job(const fs::path& data, const std::string& label) {
  if (!fs::exists(data)) throw user_error("{}: there is no such file or folder", data.string());
  std::vector<std::string> others;
  for (const SourceType& type : source_types()) {
    if (!type.draft) continue;
    std::optional<SourceDraft> draft = type.draft(data.string(), label);
    others.push_back(type.summary);
    if (!draft) continue;
    std::string text =
        fmt::format("# Written by telar init: {} in {}.\n", draft->described, value_text(data.string()));
    for (const std::string& problem : draft->problems) text += "# To check: " + problem + ".\n";
    text += data_text(type, *draft) + line("model", draft->model) + training_text(*draft);
    return {std::move(text), std::move(draft->problems)};
  }
  throw user_error("{} is not {}", data.string(), one_of(others));
}

}  // namespace telar
