#include "telar/train/figures_json.h"

#include <nlohmann/json.hpp>

namespace telar {

void add_figures(nlohmann::ordered_json& json, const std::string& prefix, const Figures& figures,
                 const std::vector<double>& values, Lists lists) {
  figures.for_each(values, [&](const Figure& figure, std::span<const double> numbers) {
    if (figure.shape.rank() > 0 && lists == Lists::left_out) return;
    nlohmann::ordered_json& value = json[prefix + figure.name];
    switch (figure.shape.rank()) {
      case 0: value = numbers[0]; break;
      case 1: value = std::vector<double>(numbers.begin(), numbers.end()); break;
      default: value = rows_of(figure, numbers);
    }
  });
}

}  // namespace telar
