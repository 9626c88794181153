// Numbers that a training loop computes from a batch, and that outlive it: the loss of the last batch, which
// a script prints, compares or passes to a schedule after the epoch, and numbers that control the next steps.
// Each process has those of its own batch; all take their mean, so that decisions agree.
#include <algorithm>
#include <set>

#include "telar/weave/torch/values.h"

namespace telar::weave {

namespace {

class LastValues {
 public:
  LastValues(TorchWeaving& weaving, const TorchLoop& loop)
      : w_(weaving), loop_(loop), batch_(weaving.names, loop, false) {}

  void write() {
    read();
    for (const std::string_view text : controlling()) write_control(text);
    std::vector<std::string> text;
    for (const std::string_view number : numbers_) {
      if (!is_read_after(w_.names, loop_.loop, number)) continue;
      const std::string name(number);
      text.push_back(name + " = " + mean_over_ranks(w_, loop_.loop, name));
      w_.edits.explain(loop_.loop->line, text.back(),
                       "each process has the value of its own last batch; what follows must agree");
    }
    if (!text.empty()) w_.edits.after(*loop_.loop, text);
  }

 private:
  /// Finds the numbers that the loop assigns. Those that it adds up are no last values.
  void read() {
    walk(*loop_.loop, [&](const Node& node) {
      if (node.is(Kind::aug_assign)) added_.insert(w_.names.tree().text(*node.child("target")));
      if (node.is(Kind::assign) && adds_to(node))
        added_.insert(w_.names.tree().text(*node.list("targets")[0]));
      return true;
    });
    walk(*loop_.loop, [&](const Node& node) {
      if (node.is_function() || node.is(Kind::lambda)) return false;
      if (!node.is(Kind::assign) || !batch_.are_in(*node.child("value"))) return true;
      const Node* value = node.child("value");
      if (!is_number_of_batch(w_.names, *value) && !is_mean_so_far(*value)) return true;
      for (const Node* target : node.list("targets")) {
        if (target->is(Kind::name) || target->is(Kind::attribute))
          numbers_.insert(w_.names.tree().text(*target));
      }
      return true;
    });
    for (const std::string_view text : losses_of(w_.names, loop_)) numbers_.insert(text);
    for (const std::string_view text : added_) numbers_.erase(text);
  }

  /// `total = total + …`
  bool adds_to(const Node& assignment) const {
    const Node* value = assignment.child("value");
    return value->is(Kind::bin_op) && value->child("op")->is(Kind::add) &&
           w_.names.tree().text(*value->child("left")) ==
               w_.names.tree().text(*assignment.list("targets")[0]);
  }

  /// `total / (i + 1)`, for a sum of the loop.
  bool is_mean_so_far(const Node& value) const {
    bool found = false;
    walk(value, [&](const Node& node) {
      found = found || (node.is(Kind::bin_op) && node.child("op")->is(Kind::div) &&
                        added_.contains(w_.names.tree().text(*node.child("left"))));
      return !found;
    });
    return found;
  }

  /// The numbers of one batch that decide about the steps of the next ones.
  std::vector<std::string_view> controlling() const {
    std::vector<std::string_view> found;
    const auto sources = sources_of_steps(w_.names, loop_);
    const auto losses = losses_of(w_.names, loop_);
    std::set<std::string_view> all = numbers_;
    all.insert(added_.begin(), added_.end());
    for (const std::string_view text : all) {
      const bool is_loss = std::find(losses.begin(), losses.end(), text) != losses.end();
      if (!is_loss && sources.contains(text) && is_carried(text)) found.push_back(text);
    }
    return found;
  }

  /// Whether a batch reads the number that an earlier batch has assigned.
  bool is_carried(std::string_view text) const {
    bool computed = false;
    const Node* first = nullptr;  // the first statement that assigns it
    for (const Node* mention : stores(text)) {
      const Node* statement = statement_of(mention);
      const Node* value = statement->child("value");
      computed = computed || (value != nullptr && is_number_of_batch(w_.names, *value));
      if (first == nullptr) first = statement;
    }
    if (first == nullptr || !computed) return false;
    const auto all = mentions_around(w_.names, loop_.loop, text);
    return std::any_of(all.begin(), all.end(), [&](const Node* mention) {
      return is_inside(mention, loop_.loop) && !mention->store && mention->begin < first->end;
    });
  }

  std::vector<const Node*> stores(std::string_view text) const {
    auto found = mentions_around(w_.names, loop_.loop, text);
    std::erase_if(found,
                  [&](const Node* mention) { return !mention->store || !is_inside(mention, loop_.loop); });
    return found;
  }

  void write_control(std::string_view text) {
    // Before it is limited: k = min(max(k, 0), 1).
    const Node* last = nullptr;
    for (const Node* mention : stores(text)) {
      const Node* statement = statement_of(mention);
      const Node* value = statement->child("value");
      if (value != nullptr && is_number_of_batch(w_.names, *value)) last = statement;
    }
    for (const Node* around = last->parent; around != loop_.loop; around = around->parent) {
      if (around->is(Kind::if_) && batch_.are_in(*around->child("test")))
        w_.refuse(
            last,
            "the next steps depend on this number, which each process computes from its own batch and under its own condition; compute it without the condition");
    }
    const std::string name(text);
    w_.edits.after(*last, {name + " = " + mean_over_ranks(w_, last, name)});
    w_.edits.explain(last->line, name + " = " + mean_over_ranks(w_, last, name),
                     "the next steps depend on it, so it must be the same in all processes");
    numbers_.erase(text);
  }

  TorchWeaving& w_;
  const TorchLoop& loop_;
  BatchValues batch_;
  std::set<std::string_view> numbers_;  // assigned from a batch
  std::set<std::string_view> added_;    // augmented
};

}  // namespace

void write_last_values(TorchWeaving& weaving) {
  for (const TorchLoop& loop : weaving.program.loops) {
    if (loop.trains) LastValues(weaving, loop).write();
  }
}

}  // namespace telar::weave
