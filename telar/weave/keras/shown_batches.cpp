// tf.distribute: what a loop does with its batch outside the step, as to print a loss now and then. There,
// the batch has one part for each replica, and the script gets the first one: a batch of the script's size.
#include <algorithm>
#include <unordered_set>

#include "telar/weave/keras/writer.h"
#include "telar/weave/torch/program.h"

namespace telar::weave {

namespace {

constexpr const char* kOnePart =
    "under tf.distribute, the loop sees one replica's part of the batch outside the step, but this would keep it for all; compute it in the step, and return a loss or update a keras.metrics object there";

class ShownBatches {
 public:
  ShownBatches(KerasWeaving& weaving, const KerasLoop& loop, const Node* step)
      : w_(weaving), loop_(loop), step_(step) {}

  void write() {
    walk(*loop_.loop->child("target"), [&](const Node& node) {
      const bool counts = loop_.index != nullptr && is_inside(&node, loop_.index);
      if (node.is(Kind::name) && !counts) batch_.insert(w_.names.place(&node));
      return true;
    });
    find_derived();
    check_step();
    walk(*loop_.loop, [&](const Node& node) {
      if (node.is_function()) return false;
      check(node);
      return true;
    });
    for (const int place : batch_) write_mentions(place);
    for (const int place : derived_) check_afterwards(place);
  }

 private:
  /// Whether an expression depends on the batch, other than through the step.
  bool uses(const Node* expression) const {
    bool found = false;
    walk(*expression, [&](const Node& node) {
      if (found || &node == step_) return false;
      if (!node.is(Kind::name) && !node.is(Kind::attribute)) return true;
      const int place = w_.names.place(&node);
      found = place >= 0 && (batch_.contains(place) || derived_.contains(place));
      return !found;
    });
    return found;
  }

  void find_derived() {
    const auto bind = [&](const Node& target) {
      walk(target, [&](const Node& node) {
        if (!node.store || (!node.is(Kind::name) && !node.is(Kind::attribute))) return true;
        const int place = w_.names.place(&node);
        if (batch_.contains(place))
          w_.refuse(&node,
                    "under tf.distribute, the batch has one part for each replica; change it in the step");
        if (place >= 0) derived_.insert(place);
        return true;
      });
    };
    size_t known = 0;
    do {
      known = derived_.size();
      walk(*loop_.loop, [&](const Node& node) {
        if (node.is_function()) return false;
        if (node.is(Kind::assign) && uses(node.child("value"))) {
          for (const Node* target : node.list("targets")) bind(*target);
        }
        const bool assigns = node.is(Kind::ann_assign) || node.is(Kind::named_expr);
        if (assigns && node.child("value") != nullptr && uses(node.child("value")))
          bind(*node.child("target"));
        if (node.is(Kind::for_) && &node != loop_.loop && uses(node.child("iter")))
          bind(*node.child("target"));
        return true;
      });
    } while (derived_.size() > known);
  }

  /// The step must receive the parts of all replicas.
  void check_step() const {
    walk(*step_, [&](const Node& node) {
      if (node.is(Kind::name) && derived_.contains(w_.names.place(&node)))
        w_.refuse(
            &node,
            "under tf.distribute, the loop sees one replica's part of the batch, but the step needs those of all; pass the batch itself, and compute this in the step");
      return true;
    });
  }

  void check(const Node& node) const {
    switch (node.kind) {
      case Kind::aug_assign:
        if (uses(node.child("value"))) w_.refuse(&node, kOnePart);
        return;
      case Kind::assign: return check_assignment(node);
      case Kind::return_:
      case Kind::yield:
        if (node.child("value") != nullptr && uses(node.child("value"))) w_.refuse(&node, kOnePart);
        return;
      case Kind::if_:
      case Kind::while_:
        if (uses(node.child("test")))
          w_.refuse(
              node.child("test"),
              "under tf.distribute, the loop sees one replica's part of the batch outside the step, so this would be one replica's decision; decide by what the step returns");
        return;
      case Kind::call: return check_call(&node);
      default: return;
    }
  }

  void check_assignment(const Node& node) const {
    if (!uses(node.child("value"))) return;
    for (const Node* target : node.list("targets")) {
      bool keeps = false;
      walk(*target, [&](const Node& one) {
        keeps = keeps || one.is(Kind::attribute) || one.is(Kind::subscript);
        if (!one.is(Kind::name) || !one.store) return true;
        walk(*node.child("value"), [&](const Node& used) {  // total = total + …
          keeps = keeps || (used.is(Kind::name) && w_.names.place(&used) == w_.names.place(&one));
          return !keeps;
        });
        return true;
      });
      if (keeps) w_.refuse(&node, kOnePart);
    }
  }

  /// Lists and metrics keep what they are given.
  void check_call(const Node* call) const {
    if (call == step_) return;
    static const std::unordered_set<std::string_view> keeping = {"append", "extend", "insert", "add",
                                                                 "update", "put",    "write"};
    const auto& given = call->list("args");
    const auto& named = call->list("keywords");
    const bool used =
        std::any_of(given.begin(), given.end(), [&](const Node* one) { return uses(one); }) ||
        std::any_of(named.begin(), named.end(), [&](const Node* one) { return uses(one->child("value")); });
    if (!used) return;
    const auto feeds = [&](const Node* one) { return fed_metric(w_, one) != nullptr; };
    const Node* function = call->child("func");
    const bool keeps = function->is(Kind::attribute) && keeping.contains(function->text) &&
                       w_.names.qualified(function).empty();
    const Node* own = w_.names.called_function(call);
    if (keeps || feeds(call) || (own != nullptr && (reaches(w_.names, own, feeds) || changes_others(own))))
      w_.refuse(call, kOnePart);
  }

  /// Whether a function of the script changes what it did not make itself.
  static bool changes_others(const Node* function) {
    bool found = false;
    walk(*function, [&](const Node& node) {
      found = found || node.is(Kind::global) || node.is(Kind::nonlocal) ||
              (node.store && node.is(Kind::attribute));
      return !found;
    });
    return found;
  }

  /// The last assignment of a variable before a mention, in the order of the text; null if there is none.
  const Node* assigned_before(int place, const Node* mention) const {
    const Node* last = nullptr;
    for (const Node* one : w_.names.mentions(place)) {
      if (one->store && one->begin < mention->begin) last = one;
    }
    return last;
  }

  void write_mentions(int place) {
    const Node* target = loop_.loop->child("target");
    for (const Node* mention : w_.names.mentions(place)) {
      if (mention->store || is_inside(mention, step_)) continue;
      const Node* assigned = assigned_before(place, mention);
      const bool ours =
          is_inside(mention, loop_.loop) || (assigned != nullptr && is_inside(assigned, target));
      if (!ours) continue;
      if (function_of(mention) != function_of(loop_.loop))
        w_.refuse(mention,
                  "under tf.distribute, this has one part for each replica; pass it to the function");
      if (mention->inside_fstring) w_.refuse(mention, "move the batch out of the f-string");
      const std::string name = first_part(mention);
      w_.edits.insert(mention->begin, name + "(");
      w_.edits.insert(mention->end, ")");
      w_.edits.explain(mention->line, name + "(" + w_.text(*mention) + ")",
                       "outside the step, the script sees a batch of its size: the first replica's part");
    }
  }

  std::string first_part(const Node* at) {
    std::string name = w_.names.fresh("first_part");
    w_.dialect.use(at);
    w_.dialect.function({"def " + name + "(batch):",
                         "    # The first replica's part of a batch, which has the size of the script's.",
                         "    return " + w_.tensorflow(at) + ".nest.map_structure(lambda part: " +
                             w_.dialect.module() + ".experimental_local_results(part)[0], batch)"},
                        at);
    return name;
  }

  /// What is computed from a part may be printed after the loop, but not decide anything.
  void check_afterwards(int place) const {
    for (const Node* mention : w_.names.mentions(place)) {
      if (mention->store || is_inside(mention, loop_.loop)) continue;
      const Node* assigned = assigned_before(place, mention);
      if (assigned == nullptr || !is_inside(assigned, loop_.loop)) continue;
      const Node* statement = statement_of(mention);
      const bool prints = statement->is(Kind::expr) && statement->child("value")->is(Kind::call) &&
                          w_.names.qualified(statement->child("value")->child("func")) == "print";
      if (!prints) w_.refuse(mention, kOnePart);
    }
  }

  KerasWeaving& w_;
  const KerasLoop& loop_;
  const Node* step_;
  std::set<int> batch_;    // variables that hold the batch
  std::set<int> derived_;  // and those that the loop computes from it
};

}  // namespace

void write_shown_batches(KerasWeaving& weaving, const KerasLoop& loop, const Node* step) {
  ShownBatches(weaving, loop, step).write();
}

}  // namespace telar::weave
