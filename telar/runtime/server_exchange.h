#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/store/store.h"
#include "telar/comm/store/store_round.h"
#include "telar/device/device.h"
#include "telar/graph/program.h"

namespace telar {

/// A worker's access to its parameter servers.
struct StoreAccess {
  std::vector<Store*> servers;  ///< in the order of the program's servers
  /// Called before each push of a program with rounds, with the number of the piece of work. None: other
  /// parts of it are to be pushed together with what this worker has computed so far. A round without
  /// members: the update is made without this worker.
  std::function<std::optional<StoreRound>(int64_t work)> next_round;
};

/// The worker's side of the parameter servers: converts variables between the device's layouts and the
/// canonical pieces on the servers.
class ServerExchange {
 public:
  /// All references must outlive this object. Throws Error (run) if a server holds other pieces than the
  /// program expects.
  ServerExchange(const StoreProgram& program, const std::vector<Store*>& servers,
                 const std::vector<ParameterInfo>& parameters, const ArenaLayout& arena,
                 const Device& device);

  /// What of the gradients is pushed, and how.
  struct Form {
    uint16_t payload = 0;  ///< payload_number()
    double share = 1;
  };

  /// Settings that all transfers of one exchange share.
  struct Terms {
    bool push = false;
    bool pull = false;
    float learning_rate = 0;
    float samples = 0;
    int64_t work = 0;  ///< StoreExchange::work
    std::optional<StoreRound> round;
    Form form = {};
    bool keeps_if_late = false;  ///< if the round was not applied, the parameters stay as they are
  };

  /// Pushes gradient sums (an arena in the device's layout), or sums of batches' means, then of 1 sample.
  /// `batches`: of which these are; running statistics are divided by their number.
  StoreReport push_gradients(const std::byte* gradients, int64_t batches, const Terms& terms,
                             std::byte* parameters);
  /// Pushes samples × (parameters as last pulled − parameters). `samples`: without those of what was kept.
  StoreReport push_differences(float samples, const Terms& terms, std::byte* parameters);
  /// Keeps gradient sums, or samples × (parameters as last pulled − parameters), of a part of a round: the
  /// next push has them, too. The second one also takes the parameters as last pulled.
  void keep_gradients(const std::byte* gradients);
  void keep_differences(float samples, std::byte* parameters);
  /// Drops what was kept.
  void drop_kept() { kept_.clear(); }
  /// Pulls the servers' parameters.
  StoreReport pull(std::byte* parameters);

 private:
  struct Part {
    size_t server;
    size_t offset;  ///< floats in the server's arena
    size_t begin;   ///< floats in the variable
    size_t floats;
  };
  struct Variable {
    const ArenaLayout::Entry* entry;
    bool trainable;
    std::vector<Part> parts;
  };
  /// Fills the outgoing part of a piece from the canonical values of its variable.
  using Fill = std::function<void(const Variable&, const Part&, std::span<const float> values,
                                  std::span<float> outgoing)>;

  static Fill differences(const std::vector<Store*>& servers, float samples);
  /// Fills the outgoing parts of all variables, and calls prepared(variable) after each.
  void prepare(const std::byte* arena, const Fill& fill,
               const std::function<void(const Variable&)>& prepared);
  void keep(const std::byte* arena, const Fill& fill);
  /// Adds what was kept of this part.
  void add_kept(const Part& part, std::span<float> outgoing) const;
  StoreReport exchange(const std::byte* arena, const Fill& fill, const Terms& terms, std::byte* parameters);
  void send(const std::byte* arena, const Fill& fill, const Terms& terms);
  void take(std::byte* parameters);

  const std::vector<Store*>& servers_;
  const Device& device_;
  std::vector<Variable> variables_;  ///< in the order of the arena
  std::vector<float> canonical_;     ///< of the largest variable
  /// For each server's arena, what pushes have left over, for one sample; empty as long as nothing is.
  std::vector<std::vector<float>> rest_;
  std::vector<std::vector<float>> kept_;  ///< for each server's arena; empty: nothing
};

}  // namespace telar
