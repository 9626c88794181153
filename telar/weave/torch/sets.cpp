// The order of a set: a vocabulary that is numbered in it must be the same in all processes.
#include "telar/weave/python/set_orders.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

void write_sets(TorchWeaving& w) {
  for (const auto& [set, list] : read_set_orders(w.names)) {
    if (set->inside_fstring || is_in_worker(w.names, set)) continue;
    const Node* whole = list == nullptr ? set : list;
    const std::string of_first = of_first_rank(w, set);
    w.edits.insert(whole->begin, of_first + (list != nullptr ? "(" : "(list("));
    w.edits.insert(whole->end, list != nullptr ? ")" : "))");
    w.edits.explain(set->line, of_first + "(…)", "the order of a set differs between processes");
    w.agreed.insert(whole->parent->is(Kind::call) && list == nullptr ? whole->parent : whole);
  }
}

}  // namespace telar::weave
