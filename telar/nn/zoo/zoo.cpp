#include "telar/nn/zoo.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

std::vector<ZooEntry> entries() {
  return {mlp_entry(),      convnet_entry(),  lenet5_entry(), alexnet_entry(),   resnet18_entry(),
          resnet34_entry(), resnet50_entry(), lstm_entry(),   gpt_small_entry(), text_classifier_entry()};
}

ZooEntry entry_of(const std::string& name) {
  for (ZooEntry& entry : entries()) {
    if (entry.name == name) return std::move(entry);
  }
  const std::string near = nearest(name, model_names());
  throw user_error("there is no model '{}'{}; there are {}", name,
                   near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                   fmt::join(model_names(), ", "));
}

}  // namespace

Model make_model(const std::string& name, const Attributes& options, const Shape& sample, int64_t classes) {
  const ZooEntry entry = entry_of(name);
  if (classes < 1) throw user_error("model '{}' for {} classes; there must be at least 1", name, classes);
  if (sample.rank() == 0 ||
      std::any_of(sample.begin(), sample.end(), [](int64_t extent) { return extent < 1; })) {
    throw user_error("model '{}' for samples of shape {}; every extent must be at least 1", name,
                     sample.str());
  }
  Model model = entry.make(ZooOptions(name, options, entry.options), sample, classes);
  model.name = name;
  try {
    forward_graph(model, Mode::evaluation, 1);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("model '{}' does not fit samples of shape {}: {}", name,
                                          sample.str(), error.what()));
  }
  return model;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ZooEntry& entry : entries()) names.push_back(entry.name);
  return names;
}

std::vector<std::string> option_names(const std::string& model) { return entry_of(model).options; }

}  // namespace telar
