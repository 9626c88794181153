#include "telar/train/cluster_description.h"

#include <nlohmann/json.hpp>

#include "telar/core/error.h"
#include "telar/data/source.h"
#include "telar/device/device.h"
#include "telar/runtime/stored_pieces.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/sample_file.h"

namespace telar {

namespace {

/// The variables of a parameter server as an arena of its device: the same offsets, in bytes.
ArenaLayout arena_of(const ServerProgram& program, const StoreLayout& layout) {
  ArenaLayout arena;
  for (size_t p = 0; p < program.pieces.size(); ++p) {
    const Piece& piece = program.pieces[p];
    const auto bytes = static_cast<size_t>(piece.floats()) * sizeof(float);
    arena.entries.push_back({piece.name(),
                             layout.offsets[p] * sizeof(float),
                             {piece.piece_shape(), bytes, "canonical", nullptr}});
  }
  arena.bytes = layout.floats * sizeof(float);
  return arena;
}

class JobStoreUpdate final : public StoreUpdate {
 public:
  JobStoreUpdate(const ServerProgram& program, const StoreLayout& layout)
      : slots_(state_slots(program.update)),
        device_(make_cpu_device(1, {})),
        updater_(device_->compile_update(program.update, arena_of(program, layout))) {}

  const std::vector<std::string>& slots() const override { return slots_; }

  bool apply(const Memory& memory, size_t begin, size_t end, const float* gradient,
             const StoreScalars& scalars) const override {
    device_->enter();  // on the thread that serves the worker
    UpdateBindings bindings{reinterpret_cast<std::byte*>(memory.parameters),
                            reinterpret_cast<const std::byte*>(gradient),
                            {},
                            begin * sizeof(float)};
    for (float* state : memory.states) bindings.states.push_back(reinterpret_cast<std::byte*>(state));
    return updater_->apply(bindings, {scalars.learning_rate, scalars.samples, scalars.step}, 0,
                           begin * sizeof(float), end * sizeof(float));
  }

 private:
  std::vector<std::string> slots_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Updater> updater_;
};

/// A conversion of the library would accept fractions, and cut numbers that are too large.
int server_of(const nlohmann::json& json) {
  constexpr int64_t kMostServers = 1 << 20;
  const bool number = json.is_number_integer();
  if (!number || json.get<int64_t>() < -1 || json.get<int64_t>() > kMostServers)
    throw user_error("the job description is for server {}, which cannot be", json.dump());
  return static_cast<int>(json.get<int64_t>());
}

std::unique_ptr<StoreUpdate> make_update(const std::string& text, const StoreLayout& layout) {
  const ClusterDescription description = cluster_description_from_json(text, "the coordinator");
  const Program program = job_program(description.job, description.spec);
  const auto server = static_cast<size_t>(description.server);
  if (!program.servers || server >= program.servers->servers.size()) {
    throw user_error("the coordinator's job has no parameter server {}", description.server);
  }
  const ServerProgram& own = program.servers->servers[server];
  if (stored_layout(own.pieces) != layout) {
    throw user_error(
        "the coordinator's variables do not match its job; do all processes have the same version?");
  }
  return std::make_unique<JobStoreUpdate>(own, layout);
}

}  // namespace

std::string to_json(const ClusterDescription& description) {
  nlohmann::json json{{"job", job_text(description.job)},
                      {"samples", to_json(description.spec)},
                      {"server", description.server}};
  if (description.data) json["data"] = to_json(*description.data);
  return json.dump();
}

ClusterDescription cluster_description_from_json(const std::string& text, const std::string& source) {
  try {
    const auto json = nlohmann::json::parse(text);
    ClusterDescription description{
        .job = parse_job(json.at("job").get<std::string>(), "the job of " + source),
        .spec = sample_spec_from_json(json.at("samples").get<std::string>(), "the samples of " + source),
        .server = server_of(json.at("server"))};
    if (json.contains("data"))
      description.data = data_decision_from_json(json.at("data").get<std::string>(), source);
    return description;
  } catch (const nlohmann::json::exception& mistake) {
    throw user_error("{} sent a job description that cannot be parsed: {}", source, mistake.what());
  }
}

std::string server_description(const Job& job, const SampleSpec& spec, int server) {
  const StrategyJob defaults;
  Job own;
  own.model = job.model;
  own.loss = job.loss;
  own.optimizer = job.optimizer;
  // Workers send the learning rate with each gradient. So a run may be resumed with another one.
  own.optimizer.learning_rate = 1;
  own.schedule.warmup_rate = 0;
  own.data.source =
      source_names([](const SourceType& type) { return type.generated; }).front();  // opens no data
  own.strategy = job.strategy;
  own.strategy.devices = defaults.devices;
  own.strategy.threads = defaults.threads;
  own.strategy.gpu_exchange = defaults.gpu_exchange;
  own.strategy.server_addresses = defaults.server_addresses;
  own.strategy.snapshot_seconds = defaults.snapshot_seconds;
  own.strategy.shared_memory = defaults.shared_memory;
  return to_json(ClusterDescription{.job = own, .spec = spec, .server = server});
}

StoreUpdateFactory job_store_updates() { return make_update; }

}  // namespace telar
