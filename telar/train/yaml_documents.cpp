#include "telar/train/yaml_documents.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "telar/core/error.h"

namespace telar {

namespace {

/// Counts where documents begin; ignores all other events.
class DocumentCounter final : public YAML::EventHandler {
 public:
  explicit DocumentCounter(const std::string& source) : source_(source) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    throw user_error(
        "{}:{}: the job ends before this line, but more text follows; a job must be one document", source_,
        mark.line + 1);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

 private:
  const std::string& source_;
  int documents_ = 0;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool tab_indents(const std::string& line) {
  return line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string::npos;
}

}  // namespace

void require_one_document(const std::string& text, const std::string& source) {
  std::stringstream stream(text);
  YAML::Parser parser(stream);
  DocumentCounter counter(source);
  while (parser.HandleNextDocument(counter)) {
  }
}

std::string yaml_hint(const std::string& text, int line) {
  const std::vector<std::string> lines = lines_of(text);
  const auto tab = std::find_if(lines.begin(), lines.end(), tab_indents);
  if (tab != lines.end()) {
    return fmt::format("; line {} is indented with a tab, but YAML takes only spaces there",
                       tab - lines.begin() + 1);
  }
  if (line < 0 || static_cast<size_t>(line) >= lines.size()) return "";
  const std::string& wrong = lines[static_cast<size_t>(line)];
  const size_t end = wrong.find_last_not_of(" \r");
  const size_t first = wrong.find(": ");
  if (first == std::string::npos || end == std::string::npos) return "";
  if (wrong[end] == ':' && first < end) return "; a value must not end with a colon: cuda:0, not cuda:";
  if (wrong.find(": ", first + 1) != std::string::npos) return "; a value that contains ': ' needs quotes";
  return "";
}

}  // namespace telar
