#include "telar/bench/workloads.h"

#include <map>

#include "telar/core/error.h"
#include "telar/core/random.h"
#include "telar/core/suggest.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/strategy.h"

namespace telar::bench {

namespace {

Workload mlp(int64_t batch) {
  return {make_model("mlp", {{"hidden", std::vector<int64_t>{256, 256}}}, {784}, 10),
          {.batch = batch, .optimizer = AdamOptions{}}};
}

Workload resnet34(const std::string& stem, int64_t side, int64_t batch, Precision precision) {
  return {make_model("resnet34", {{"stem", stem}}, {3, side, side}, 10),
          {.batch = batch, .optimizer = SgdOptions{.momentum = 0.9}, .precision = precision}};
}

const std::map<std::string, Workload (*)()>& table() {
  static const std::map<std::string, Workload (*)()> workloads{
      {"mlp32", [] { return mlp(32); }},
      {"mlp128", [] { return mlp(128); }},
      {"convnet",
       [] {
         return Workload{make_model("convnet", {}, {1, 28, 28}, 10),
                         {.batch = 64, .optimizer = AdamOptions{}}};
       }},
      {"convnet_b128",
       [] {
         return Workload{make_model("convnet", {}, {1, 28, 28}, 10),
                         {.batch = 128, .optimizer = AdamOptions{}}};
       }},
      {"resnet34_7x7", [] { return resnet34("7x7", 32, 32, Precision::f32); }},
      {"resnet34_7x7_bf16", [] { return resnet34("7x7", 32, 32, Precision::bf16); }},
      {"resnet34_3x3", [] { return resnet34("3x3", 32, 32, Precision::f32); }},
      {"resnet34_3x3_bf16", [] { return resnet34("3x3", 32, 32, Precision::bf16); }},
      {"resnet34_128", [] { return resnet34("7x7", 128, 8, Precision::f32); }},
      {"resnet34_128_bf16", [] { return resnet34("7x7", 128, 8, Precision::bf16); }},
      {"resnet34_224_bf16", [] { return resnet34("7x7", 224, 256, Precision::bf16); }},
      {"resnet34_3x3_b128_bf16", [] { return resnet34("3x3", 32, 128, Precision::bf16); }},
  };
  return workloads;
}

}  // namespace

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const auto& entry : table()) names.push_back(entry.first);
  return names;
}

Workload make_workload(const std::string& name) {
  const auto found = table().find(name);
  if (found == table().end()) {
    throw user_error("unknown workload '{}'; the workloads are {}", name, one_of(workload_names()));
  }
  return found->second();
}

Samples::Samples(const Workload& workload, int64_t count) {
  RandomSequence random(1, 2);
  x.resize(static_cast<size_t>(count * workload.model.sample.elements()));
  for (float& value : x) value = random.normal();
  for (int64_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(workload.classes))));
    ids.push_back(i);
  }
}

std::unique_ptr<Session> make_session(const Workload& workload, int replicas, int threads,
                                      Processes* processes, const std::string& device) {
  Cluster cluster;
  if (processes != nullptr) cluster.processes = processes->size();
  for (int r = 0; r < replicas; ++r) cluster.devices.push_back({device, threads, {}});
  if (replicas > 1 && device == "cpu") {
    for (int r = 0; r < replicas; ++r) {
      for (int t = 0; t < threads; ++t)
        cluster.devices[static_cast<size_t>(r)].cores.push_back(r * threads + t);
    }
  }
  const bool alone = replicas == 1 && processes == nullptr;
  const TrainingStep step = make_training_step(workload.model, workload.options);
  return std::make_unique<Session>(
      alone ? sequential_program(step) : make_strategy(data_parallel_type().name).rewrite(step, cluster),
      cluster, SessionOptions{.seed = 1, .processes = processes});
}

}  // namespace telar::bench
