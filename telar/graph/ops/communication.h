#pragma once

#include <string>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

/// Operations that a strategy inserts. The runtime, not the device, executes them
/// (HostOperations::communicate and ::exchange). Each names the group of workers that takes part; all of its
/// members execute the same operations in the same order.

/// Starts the sum of the gradients of bucket `bucket` of the worker over its group; does not wait.
void reduce_bucket(GraphBuilder& builder, int64_t bucket);

/// The values of all members, concatenated: x f32 [K] gives [members, K]; row r is that of rank r.
ValueId all_gather(GraphBuilder& builder, ValueId x, int64_t members, const std::string& group);

/// A group whose members share a batch, seen by one of them.
struct SampleGroup {
  std::string name;
  int64_t rank = 0;
  int64_t members = 1;
  /// The own samples for which the graph is made, if values may have several rows for each; 0: they have one.
  int64_t samples = 0;
};

/// What the members of a group exchange while they compute a batch together. Member r has n_r of the batch's
/// N = Σ n_r samples (the attribute "rows", see Graph::with_batch); the samples of all are in rank order. A
/// sample may have several rows of a value (the attribute "each"), as the tokens of a text in a product; n
/// and N are then those numbers of rows. Whole values have all features. Split values have the features
/// [bounds[r], bounds[r + 1]) of axis 1.
///
/// The loss of the group is the sum of its members' losses. So the gradient of a gather is a sum, and that of
/// a sum a gather.

/// x [n, …] f32 or i32 gives [N, …]: the samples of all members.
ValueId all_gather_samples(GraphBuilder& builder, ValueId x, const SampleGroup& group);

/// x [N, …] f32 gives [n, …]: this member's samples of the sum of all members' x, added in rank order.
ValueId reduce_scatter_samples(GraphBuilder& builder, ValueId x, const SampleGroup& group);

/// x [n, F, …] f32, own samples, gives [N, F of this member, …]: own features (an all-to-all). Its gradient
/// is features_to_samples.
ValueId samples_to_features(GraphBuilder& builder, ValueId x, const SampleGroup& group,
                            const std::vector<int64_t>& bounds);

/// x [N, F of this member, …] f32, own features, gives [n, F, …]: own samples (an all-to-all). Its gradient
/// is samples_to_features.
ValueId features_to_samples(GraphBuilder& builder, ValueId x, const SampleGroup& group,
                            const std::vector<int64_t>& bounds);

/// The whole parameters, f32 [R, …], made of the pieces of the members of a group, f32 [R of this member, …];
/// in one exchange. Of a parameter with R rows (axis 0), member r keeps the rows of part r of equal_parts(R,
/// members). `extents`: R of each. The gradient (`reduce_scatter_gradients`) gives the pieces of the sums of
/// all members' gradients, added in rank order.
std::vector<ValueId> all_gather_parameters(GraphBuilder& builder, std::vector<ValueId> pieces,
                                           const std::vector<int64_t>& extents, const std::string& group,
                                           int64_t members);

}  // namespace telar
