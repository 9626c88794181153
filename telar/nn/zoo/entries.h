#pragma once

#include "telar/nn/model.h"
#include "telar/nn/zoo/options.h"

namespace telar {

/// A model of the zoo: its name, its options, and how it is made from them for samples of a shape and a number of classes
/// (at least 1). `make` sets sample, input and build; the zoo sets the name. One entry a file of this folder.
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

}  // namespace telar
