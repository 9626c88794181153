#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace telar {

/// How the values that a worker pushes to a server travel: which of them, how exact, and as which bytes.
/// What is not pushed is kept and added to the next push, so that nothing is lost but time (Seide et al.,
/// 1-Bit Stochastic Gradient Descent, 2014). Without state; thread-safe.
class Payload {
 public:
  virtual ~Payload() = default;

  /// Divides `values`, the gradient of a variable, into what is pushed now, in `values`, and the rest, in
  /// `rest`, of equal size. Their sum is what `values` was. `share`: the part of the values
  /// that a payload pushes which chooses. `trained`: false
  /// for a running statistic, whose values are needed in every push.
  virtual void choose(std::span<float> values, std::span<float> rest, double share, bool trained) const = 0;

  /// The bytes of values that choose() has left; empty if they would not be fewer than those of the floats,
  /// which are then sent instead.
  virtual std::vector<std::byte> encode(std::span<const float> values) const = 0;
  /// The same values, bit by bit (−0 may be 0). Throws Error (user) for bytes that are not those of as many
  /// values.
  virtual void decode(std::span<const std::byte> bytes, std::span<float> values) const = 0;
};

/// A payload as it describes itself.
struct PayloadType {
  std::string name;
  std::string help;  ///< what is pushed, as a sentence
  std::shared_ptr<const Payload> payload;
  bool chooses = false;  ///< it pushes a share of the values
};

/// Where the files of payloads/ add their payloads.
class PayloadRegistry {
 public:
  void add(PayloadType type) { types_.push_back(std::move(type)); }
  const std::vector<PayloadType>& types() const { return types_; }

 private:
  std::vector<PayloadType> types_;
};

/// All payloads, by name. On the wire a payload is its position here, from 1; 0 are plain floats.
const std::vector<PayloadType>& payload_types();
/// The number of the payload with this name; 0 for the empty name. Throws Error (run) for an unknown one.
uint16_t payload_number(const std::string& name);
/// `number`: from 1.
inline const Payload& numbered_payload(uint16_t number) { return *payload_types()[number - 1U].payload; }

}  // namespace telar
