#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/graph/piece.h"
#include "telar/graph/training_step.h"

namespace telar {

/// The pieces of each server.
using Placement = std::vector<std::vector<Piece>>;

/// Places all variables at once; they are given in the model's order. Every row of every variable must be on
/// exactly one server (check_placement).
using Placer = std::function<Placement(const std::vector<ParameterInfo>& parameters, int servers)>;

/// Variable i on server i mod n, in the order of the model: TensorFlow's default. When n is even, weights and
/// biases that alternate end up on different servers.
Placement place_round_robin(const std::vector<ParameterInfo>& parameters, int servers);

/// Each variable, the largest first, on the server with the fewest bytes so far (Graham's longest processing
/// time rule, 1969: at most 4/3 of the best). TensorFlow's GreedyLoadBalancingStrategy takes variables in the
/// given order.
Placement place_greedy(const std::vector<ParameterInfo>& parameters, int servers);

/// Splits variables that exceed a server's fair share of all bytes by rows, so that no server has more than
/// its share plus one row.
Placement place_partitioned(const std::vector<ParameterInfo>& parameters, int servers);

/// A name pattern ("fc.*", "*.weight"; '*' matches any text) and its server. The first pattern that matches
/// decides; `others` places variables that match none. Throws Error (user) for a server that does not exist.
struct PlacementRule {
  std::string pattern;
  int server = 0;
};
/// Parses "PATTERN=SERVER". Throws OptionError.
std::vector<PlacementRule> placement_rules(const std::vector<std::string>& place, int servers);
Placer place_by_name(std::vector<PlacementRule> rules, Placer others);

/// "greedy", "partitioned" or "round_robin". Throws Error (user) for another name.
Placer placer_of(const std::string& policy);
std::vector<std::string> placement_policies();

/// Throws Error (user), naming the variable, when a row of it is missing or is on two servers.
void check_placement(const Placement& placement, const std::vector<ParameterInfo>& parameters, int servers);

/// Bytes (f32) of a server's pieces.
int64_t placed_bytes(const std::vector<Piece>& pieces);
/// Bytes of the fullest server divided by the mean: 1 is perfect balance.
double imbalance(const Placement& placement);

}  // namespace telar
