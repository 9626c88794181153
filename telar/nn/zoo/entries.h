#pragma once

#include "telar/nn/model.h"
#include "telar/nn/zoo/options.h"

namespace telar {

/// A model of the zoo: its name, its options, and a function that makes it from these for a sample shape and
/// a number of classes (at least 1). `make` sets sample, input and build; the zoo sets the name. Each file of
/// this folder defines one entry.
struct ZooEntry {
  std::string name;
  std::vector<std::string> options;
  std::function<Model(const ZooOptions& options, const Shape& sample, int64_t classes)> make;
};

ZooEntry mlp_entry();
ZooEntry convnet_entry();
ZooEntry lenet5_entry();
ZooEntry alexnet_entry();
ZooEntry resnet18_entry();
ZooEntry resnet34_entry();
ZooEntry resnet50_entry();
ZooEntry lstm_entry();
ZooEntry gpt_small_entry();
ZooEntry text_classifier_entry();

}  // namespace telar
