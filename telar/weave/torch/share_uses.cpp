// What else reads the values of a training step without a DataLoader, and what decides about its steps.
#include "telar/weave/torch/share_uses.h"

#include <algorithm>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

class UseReader {
 public:
  UseReader(const Names& names, const ShareStep& step, RowWise& rows, DrawnBatches& drawn,
            const ShareUses& uses, TorchShare& share)
      : names_(names), step_(step), rows_(rows), drawn_(drawn), uses_(uses), share_(share) {}

  /// Values of the step cover the samples of one process. What else reads them receives those of all.
  bool check_uses() {
    for (const int place : uses_.followed) {
      for (const Node* mention : names_.mentions(place)) {
        if (mention->store || is_of_step(statement_of(mention))) continue;
        const Node* assigned = assignment_before(mention);
        // After the backward pass, the loss is that of all processes.
        const bool is_whole_loss =
            is_loss(mention) && (mention->begin > step_.backward->end || assigned == nullptr);
        if (is_whole_loss || is_row_count(mention)) continue;
        if (assigned != nullptr && !uses_.statements.contains(assigned)) continue;  // or another step's
        if (!read_whole(mention, assigned))
          return fail(
              mention,
              "it covers the samples of one process; compute what is shown anew, under torch.no_grad()");
      }
    }
    return true;
  }

  /// Whether a step is made, and when the loop ends, must be decided alike by all processes.
  bool check_conditions() {
    bool holds = true;
    const auto check = [&](const Node* node) {
      for (const Node* around = node->parent; holds && around != nullptr && around != share_.loop;
           around = around->parent) {
        if (around->is_function()) break;
        if (!around->is(Kind::if_) && !around->is(Kind::while_)) continue;
        if (!drawn_.agree(around->child("test")))
          holds = fail(around->child("test"), "the processes may not agree about it");
      }
    };
    check(step_.backward);
    const Node* test = share_.loop->child(share_.loop->is(Kind::while_) ? "test" : "iter");
    if (!drawn_.agree(test) && share_.loop->is(Kind::while_))
      return fail(test, "the processes may not agree about it");
    walk(*share_.loop, [&](const Node& node) {
      if (node.is_function() || node.is(Kind::lambda)) return false;
      if (node.is(Kind::break_) || node.is(Kind::continue_) || node.is(Kind::return_)) check(&node);
      return holds;
    });
    return holds;
  }

  bool is_loss_read() const {
    if (share_.loss_name.empty()) return false;
    for (const Node* mention :
         names_.mentions(names_.place(share_.backward->child("func")->child("value")))) {
      const bool is_given = std::any_of(share_.read.begin(), share_.read.end(), [&](const ReadValue& one) {
        return std::find(one.mentions.begin(), one.mentions.end(), mention) != one.mentions.end();
      });
      if (!mention->store && !is_given && !is_of_step(statement_of(mention))) return true;
    }
    return false;
  }

  const Node* culprit() const { return culprit_; }
  const std::string& reason() const { return reason_; }

 private:
  bool fail(const Node* at, const std::string& reason) {
    culprit_ = at;
    reason_ = reason;
    return false;
  }

  bool is_of_step(const Node* statement) const { return uses_.of_steps.contains(statement); }

  /// The assignment whose value a mention reads, as far as the order of the text tells; null: one of the
  /// loop's last round, or none.
  const Node* assignment_before(const Node* mention) const {
    const Node* found = nullptr;
    for (const Node* other : names_.mentions(names_.place(mention))) {
      if (!other->store || function_of(other) != function_of(mention) || other->begin >= mention->begin)
        continue;
      found = statement_of(other);
    }
    const bool wraps = step_.inner_loop != nullptr && is_inside(mention, step_.inner_loop) &&
                       (found == nullptr || !is_inside(found, step_.inner_loop));
    return wraps ? nullptr : found;
  }

  /// Notes that a mention reads a value of the step, of all samples.
  bool read_whole(const Node* mention, const Node* assigned) {
    const bool is_mean = rows_.means().contains(names_.place(mention));
    if (step_.is_columns || assigned == nullptr || function_of(mention) != step_.function) return false;
    // A name in an f-string cannot be replaced; after the backward pass, the variable itself can be.
    if (mention->inside_fstring && (mention->begin < step_.backward->end || !uses_.is_alone)) return false;
    int dimension = -1;
    for (const Value& value : names_.values(names_.place(mention))) {
      if (statement_of(value.node) != assigned || is_mean) continue;
      const std::optional<Rows> found = rows_.rows_of(value, mention->text);
      if (!found) return false;
      dimension = found->axis;
    }
    if (!is_mean && dimension < 0) return false;
    // Where the value is joined, all processes must come by.
    if (assigned->parent != step_.backward->parent || assigned->role != step_.backward->role) return false;
    const auto known = std::find_if(share_.read.begin(), share_.read.end(), [&](const ReadValue& one) {
      return one.assigned == assigned && one.name == mention->text &&
             one.is_renamed != mention->inside_fstring;
    });
    if (known != share_.read.end()) {
      known->mentions.push_back(mention);
    } else {
      share_.read.push_back(
          {std::string(mention->text), assigned, dimension, !mention->inside_fstring, {mention}});
    }
    return true;
  }

  bool is_loss(const Node* mention) const { return mention->text == share_.loss_name; }
  /// `len(data)` of rows of text
  bool is_row_count(const Node* mention) const {
    return step_.is_columns && share_.tensors.front().dimension == 1 && mention->parent->is(Kind::call) &&
           names_.qualified(mention->parent->child("func")) == "len";
  }

  const Names& names_;
  const ShareStep& step_;
  RowWise& rows_;
  DrawnBatches& drawn_;
  const ShareUses& uses_;
  TorchShare& share_;
  const Node* culprit_ = nullptr;
  std::string reason_;
};

}  // namespace

bool read_share_uses(const Names& names, const ShareStep& step, RowWise& rows, DrawnBatches& drawn,
                     const ShareUses& uses, TorchShare& share, const Node*& culprit, std::string& reason) {
  UseReader reader(names, step, rows, drawn, uses, share);
  const bool holds = reader.check_uses() && reader.check_conditions();
  if (holds) share.is_loss_read = reader.is_loss_read();
  culprit = reader.culprit();
  reason = reader.reason();
  return holds;
}

}  // namespace telar::weave
