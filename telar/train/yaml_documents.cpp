#include "telar/train/yaml_documents.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

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

}  // namespace

void require_one_document(const std::string& text, const std::string& source) {
  std::stringstream stream(text);
  YAML::Parser parser(stream);
  DocumentCounter counter(source);
  while (parser.HandleNextDocument(counter)) {
  }
}

}  // namespace telar
