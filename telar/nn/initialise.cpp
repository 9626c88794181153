#include "telar/nn/initialise.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/core/random.h"

namespace telar {

void initialise(const ParameterInfo& parameter, uint64_t seed, std::span<float> values) {
  if (static_cast<int64_t>(values.size()) != parameter.shape.elements()) {
    throw run_error("parameter '{}' is {}, but {} values were to be initialised", parameter.name,
                    parameter.shape.str(), values.size());
  }
  const std::string name = "initialise/" + parameter.name;
  RandomSequence random(seed, stream_of(name.data(), name.size()));
  const auto a = static_cast<float>(parameter.initializer.a);
  const auto b = static_cast<float>(parameter.initializer.b);
  switch (parameter.initializer.kind) {
    case Initializer::Kind::constant: std::fill(values.begin(), values.end(), a); break;
    case Initializer::Kind::uniform:
      for (float& value : values) value = a + (b - a) * random.uniform();
      break;
    case Initializer::Kind::normal:
      for (float& value : values) value = a + b * random.normal();
      break;
    case Initializer::Kind::given: parameter.initializer.give(values); break;
  }
}

}  // namespace telar
