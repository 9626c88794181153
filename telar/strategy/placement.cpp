#include "telar/strategy/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "telar/core/option.h"
#include "telar/core/pattern.h"
#include "telar/core/suggest.h"

namespace telar {

namespace {

int64_t bytes_of(const ParameterInfo& parameter) { return TensorType{DType::f32, parameter.shape}.bytes(); }

/// Sorts the pieces of each server into the order of the parameters, whatever the order in which they were
/// placed.
Placement in_order(Placement placement, const std::vector<ParameterInfo>& parameters) {
  std::map<std::string, size_t> place;
  for (const ParameterInfo& parameter : parameters) place.emplace(parameter.name, place.size());
  for (auto& pieces : placement) {
    std::stable_sort(pieces.begin(), pieces.end(), [&](const Piece& a, const Piece& b) {
      return std::pair(place[a.variable], a.begin) < std::pair(place[b.variable], b.begin);
    });
  }
  return placement;
}

std::vector<size_t> largest_first(const std::vector<ParameterInfo>& parameters) {
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes_of(parameters[a]) > bytes_of(parameters[b]); });
  return order;
}

size_t emptiest(const std::vector<int64_t>& bytes) {
  return static_cast<size_t>(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
}

}  // namespace

Placement place_round_robin(const std::vector<ParameterInfo>& parameters, int servers) {
  Placement placement(static_cast<size_t>(servers));
  for (size_t i = 0; i < parameters.size(); ++i) {
    placement[i % placement.size()].push_back(Piece::all_of(parameters[i]));
  }
  return placement;
}

Placement place_greedy(const std::vector<ParameterInfo>& parameters, int servers) {
  Placement placement(static_cast<size_t>(servers));
  std::vector<int64_t> bytes(placement.size());
  for (const size_t i : largest_first(parameters)) {
    const size_t server = emptiest(bytes);
    placement[server].push_back(Piece::all_of(parameters[i]));
    bytes[server] += bytes_of(parameters[i]);
  }
  return in_order(std::move(placement), parameters);
}

Placement place_partitioned(const std::vector<ParameterInfo>& parameters, int servers) {
  int64_t total = 0;
  for (const ParameterInfo& parameter : parameters) total += bytes_of(parameter);
  const int64_t share = (total + servers - 1) / servers;
  Placement placement(static_cast<size_t>(servers));
  std::vector<int64_t> bytes(placement.size());
  for (const size_t i : largest_first(parameters)) {
    // A piece that fits completely goes to the emptiest server. Otherwise that server is filled up to its
    // share, and the rest goes to the server that is then the emptiest.
    Piece rest = Piece::all_of(parameters[i]);
    const int64_t row_bytes = rest.shape.elements_per_item() * static_cast<int64_t>(sizeof(float));
    const int64_t rows = rest.end;
    while (rest.begin < rows) {
      const size_t server = emptiest(bytes);
      const int64_t room = std::max(share - bytes[server], row_bytes);
      rest.end = std::min(rows, rest.begin + std::max<int64_t>(1, (room + row_bytes - 1) / row_bytes));
      placement[server].push_back(rest);
      bytes[server] += (rest.end - rest.begin) * row_bytes;
      rest.begin = rest.end;
    }
  }
  return in_order(std::move(placement), parameters);
}

std::vector<PlacementRule> placement_rules(const std::vector<std::string>& place, int servers) {
  std::vector<PlacementRule> rules;
  for (const std::string& text : place) {
    const size_t equals = text.rfind('=');
    int server = -1;
    const char* end = text.data() + text.size();
    const char* number = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto [stop, code] = std::from_chars(number, end, server);
    if (equals == 0 || code != std::errc() || stop != end || server < 0 || server >= servers) {
      throw OptionError(
          "place",
          fmt::format("strategy.place has '{}'; it must be PATTERN=SERVER, with a server from 0 to {}", text,
                      servers - 1));
    }
    rules.push_back({text.substr(0, equals), server});
  }
  return rules;
}

Placer place_by_name(std::vector<PlacementRule> rules, Placer others) {
  return [rules = std::move(rules), others = std::move(others)](const std::vector<ParameterInfo>& parameters,
                                                                int servers) {
    for (const PlacementRule& rule : rules) {
      if (rule.server >= 0 && rule.server < servers) continue;
      throw user_error("the placement puts '{}' on server {}; the servers are 0 to {}", rule.pattern,
                       rule.server, servers - 1);
    }
    Placement named(static_cast<size_t>(servers));
    std::vector<ParameterInfo> rest;
    for (const ParameterInfo& parameter : parameters) {
      const auto rule = std::find_if(rules.begin(), rules.end(), [&](const PlacementRule& candidate) {
        return matches_pattern(candidate.pattern, parameter.name);
      });
      if (rule == rules.end()) {
        rest.push_back(parameter);
      } else {
        named[static_cast<size_t>(rule->server)].push_back(Piece::all_of(parameter));
      }
    }
    Placement placement = others(rest, servers);
    for (size_t s = 0; s < placement.size(); ++s)
      placement[s].insert(placement[s].end(), named[s].begin(), named[s].end());
    return in_order(std::move(placement), parameters);
  };
}

std::vector<std::string> placement_policies() { return {"greedy", "partitioned", "round_robin"}; }

Placer placer_of(const std::string& policy) {
  if (policy == "greedy") return place_greedy;
  if (policy == "partitioned") return place_partitioned;
  if (policy == "round_robin") return place_round_robin;
  throw user_error("unknown placement '{}'; there are {}", policy, one_of(placement_policies()));
}

void check_placement(const Placement& placement, const std::vector<ParameterInfo>& parameters, int servers) {
  if (static_cast<int>(placement.size()) != servers) {
    throw user_error("the placement is for {} servers; there are {}", placement.size(), servers);
  }
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> rows;
  for (const auto& pieces : placement) {
    for (const Piece& piece : pieces) rows[piece.variable].emplace_back(piece.begin, piece.end);
  }
  for (const ParameterInfo& parameter : parameters) {
    auto& ranges = rows[parameter.name];
    std::sort(ranges.begin(), ranges.end());
    int64_t next = 0;
    for (const auto& [begin, end] : ranges) {
      if (begin != next || end <= begin) {
        throw user_error("the placement has rows {} to {} of '{}' {}", std::min(begin, next),
                         std::max(begin, next), parameter.name,
                         begin > next ? "on no server" : "on two servers");
      }
      next = end;
    }
    const int64_t all = parameter.shape[0];
    if (next != all) {
      throw user_error("the placement has rows {} to {} of '{}' on no server", next, all, parameter.name);
    }
    rows.erase(parameter.name);
  }
  if (!rows.empty())
    throw user_error("the placement names '{}', which is not in the model", rows.begin()->first);
}

int64_t placed_bytes(const std::vector<Piece>& pieces) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.floats() * static_cast<int64_t>(sizeof(float));
  return bytes;
}

double imbalance(const Placement& placement) {
  int64_t most = 0;
  int64_t total = 0;
  for (const auto& pieces : placement) {
    most = std::max(most, placed_bytes(pieces));
    total += placed_bytes(pieces);
  }
  return total == 0
             ? 1
             : static_cast<double>(most) * static_cast<double>(placement.size()) / static_cast<double>(total);
}

}  // namespace telar
