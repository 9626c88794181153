#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/graph/piece.h"
#include "telar/graph/training_step.h"

namespace telar {

/// Which server holds what: for each server its pieces.
using Placement = std::vector<std::vector<Piece>>;

/// Decides for all variables at once; they come in the model's order. Every row of every variable must be on exactly one server
/// (check_placement).
using Placer = std::function<Placement(const std::vector<ParameterInfo>& parameters, int servers)>;

/// Variable i on server i mod n, in the order of the model: TensorFlow's default. Weights and biases that alternate all fall on the
/// same side when n is even.
Placement place_round_robin(const std::vector<ParameterInfo>& parameters, int servers);

/// Each variable, the largest first, on the server with the fewest bytes so far (Graham's longest processing time rule, 1969: at
/// most 4/3 of the best). TensorFlow's GreedyLoadBalancingStrategy takes them as they come.
Placement place_greedy(const std::vector<ParameterInfo>& parameters, int servers);

/// Variables above a server's fair share of all bytes are cut by rows, so that no server holds more than its share and one row.
Placement place_partitioned(const std::vector<ParameterInfo>& parameters, int servers);

/// A name pattern ("fc.*", "*.weight"; '*' stands for any text) and its server. The first that fits decides; a variable that fits none
/// is placed by `others`. Throws Error (user) for a server that does not exist.
struct PlacementRule {
  std::string pattern;
  int server = 0;
};
Placer place_by_name(std::vector<PlacementRule> rules, Placer others);

/// "greedy", "partitioned" or "round_robin". Throws Error (user) for another name.
Placer placer_of(const std::string& policy);
std::vector<std::string> placement_policies();

/// Throws Error (user) that names a variable of which a row is missing, or on two servers.
void check_placement(const Placement& placement, const std::vector<ParameterInfo>& parameters, int servers);

/// Bytes (f32) of a server's pieces.
int64_t placed_bytes(const std::vector<Piece>& pieces);
/// Bytes of the fullest server over the mean: 1 is perfect balance.
double imbalance(const Placement& placement);

}  // namespace telar
