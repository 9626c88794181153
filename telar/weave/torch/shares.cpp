// Training steps without a DataLoader: over all samples at once, or over text in columns. Weave must prove
// that the loss is a mean over samples that do not see each other; the processes then divide them.
#include "telar/weave/torch/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "telar/weave/torch/share_inputs.h"
#include "telar/weave/torch/share_uses.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

const Node* steps_loop(const Names& names, const Node* backward) {
  for (const Node* at = backward; at != nullptr; at = function_of(at)) {
    if (const Node* loop = loop_around(at)) return loop;
    const Node* function = function_of(at);
    if (function == nullptr) return nullptr;
    for (const Node* caller : names.calls_of(function))
      if (const Node* loop = loop_around(caller)) return loop;
  }
  return nullptr;
}

/// The outermost loop around a training step, where its random numbers begin to differ between the processes.
const Node* outermost_loop(const Names& names, const Node* loop) {
  const Node* found = loop;
  for (const Node* node : way_out(names, loop)) {
    for (const Node* around = node == loop ? loop : loop_around(node); around != nullptr;
         around = loop_around(around))
      found = around;
  }
  return found;
}

class ShareReader {
 public:
  ShareReader(const Names& names, const TorchProgram& program, const Node* backward, const Node* loop,
              bool is_columns)
      : names_(names),
        program_(program),
        backward_(backward),
        drawn_(names, program, outermost_loop(names, loop)) {
    share_.loop = loop;
    step_.is_columns = is_columns;
  }

  /// Whether the step is one whose samples the processes can divide.
  bool read() {
    const Node* receiver = backward_->child("func")->child("value");
    step_.backward = statement_of(backward_);
    share_.backward = backward_;
    if (!step_.backward->is(Kind::expr)) return false;
    if (receiver->is(Kind::name)) share_.loss_name = receiver->text;
    step_.function = function_of(backward_);
    step_.inner_loop = is_inside(backward_, share_.loop) && function_of(share_.loop) == step_.function
                           ? share_.loop
                           : nullptr;
    step_.scope = step_.inner_loop != nullptr ? step_.inner_loop : step_.function;
    if (step_.scope == nullptr || (receiver->is(Kind::name) && !find_loss())) return false;
    if (share_.loss == nullptr) share_.loss = step_.backward;  // criterion(model(x), y).backward()
    drawn_.know(names_.place(receiver));
    RowWise& rows = rows_.emplace(
        names_, step_.scope, !step_.is_columns, [&](const Node* one) { return inputs_.input_of(one); },
        [&](const Node* call, const RowsOfArguments& given, int part) { return apply(call, given, part); },
        [&](const Node* call, int part) { return is_mean_of_model(call, part); });
    const bool is_mean = rows.is_mean(receiver);
    if (share_.tensors.empty()) return false;
    if (!is_mean) return fail(rows.culprit(), "weave cannot tell that each sample counts by itself here");
    statements_ = rows.statements();
    statements_.insert({step_.backward, share_.loss});
    followed_ = rows.followed();
    for (const Node* name : hidden_) {
      if (!read_hidden(name)) return false;
    }
    inputs_.sort();
    return true;
  }

  const std::set<const Node*>& statements() const { return statements_; }

  /// The share, if what else reads values of the steps can be given those of all samples. `of_steps`: the
  /// statements of all steps. `is_alone`: whether there is no other step.
  std::optional<TorchShare> finish(const std::set<const Node*>& of_steps, bool is_alone) {
    const Node* culprit = nullptr;
    std::string reason;
    const ShareUses uses{statements_, of_steps, followed_, is_alone};
    if (!read_share_uses(names_, step_, *rows_, drawn_, uses, share_, culprit, reason)) {
      fail(culprit, reason);
      return std::nullopt;
    }
    share_.draws.assign(drawn_.draws().begin(), drawn_.draws().end());
    if (share_.before == nullptr) share_.before = first_statement();
    return share_;
  }

  const std::string& why() const { return why_; }

 private:
  bool fail(const Node* at, const std::string& reason) {
    if (why_.empty() && at != nullptr)
      why_ = fmt::format("line {}, {}: {}", names_.tree().line_within(at->line), names_.tree().text(*at),
                         reason);
    return false;
  }

  /// The last assignment of the loss before the backward pass, in the same block.
  bool find_loss() {
    const auto is_loss = [&](const Node* target) {
      return target != nullptr && target->is(Kind::name) && target->text == share_.loss_name;
    };
    for (const Node* other : block_of(step_.backward)) {
      if (other == step_.backward) break;
      const Nodes targets = other->list("targets");
      const Nodes parts =
          targets.size() == 1 ? targets[0]->list("elts") : Nodes{};  // logits, loss = model(x, y)
      const bool assigns = other->is(Kind::assign) && targets.size() == 1 &&
                           (is_loss(targets[0]) || std::any_of(parts.begin(), parts.end(), is_loss));
      if (assigns || (other->is(Kind::aug_assign) && is_loss(other->child("target")))) share_.loss = other;
    }
    return share_.loss != nullptr;
  }

  // --- the model

  bool applies_model(const Node* call) const {
    const Node* function = call->child("func");
    if (names_.definition(function) != nullptr) return false;
    const auto origins = names_.origins(function);
    return std::any_of(program_.models.begin(), program_.models.end(), [&](const TorchModel& model) {
      return std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
        return std::find(model.origins.begin(), model.origins.end(), origin) != model.origins.end();
      });
    });
  }

  /// Of rows that are drawn at random, and of text in columns, the model is taken to treat the samples
  /// alike, as with a loader. Of text in columns, it may also receive hidden states.
  std::optional<Rows> apply(const Node* call, const RowsOfArguments& given, int part) {
    if (!step_.is_columns) {
      const std::optional<Rows> found = apply_layers(names_, call, given, part);
      const bool is_opaque =
          inputs_.are_known_samples() && applies_model(call) && may_return(names_, call, part);
      return found || !is_opaque ? found : std::optional<Rows>(Rows());
    }
    if (!applies_model(call) || !given[0] || !call->list("keywords").empty()) return std::nullopt;
    for (const Node* state : call->list("args").subspan(1)) {
      if (state->is(Kind::tuple)) {
        for (const Node* one : state->list("elts")) hidden_.push_back(detached(one));
      } else {
        hidden_.push_back(detached(state));
      }
    }
    return has_columns_first(call) ? std::optional<Rows>(Rows()) : std::nullopt;
  }

  /// Whether the model itself computes a loss of rows that are drawn at random.
  bool is_mean_of_model(const Node* call, int part) {
    if (step_.is_columns || !applies_model(call) || call->list("args").empty()) return false;
    for (const Node* given : call->list("args"))
      if (!rows_->has_rows(given)) return false;
    if (!inputs_.are_known_samples()) return false;
    const auto origins = names_.origins(call->child("func"));
    return std::all_of(origins.begin(), origins.end(), [&](const Node* origin) {
      const Node* owner = origin->is(Kind::call) ? names_.definition(origin->child("func")) : nullptr;
      return owner != nullptr && owner->is(Kind::class_def) && returns_mean(names_, owner, part);
    });
  }

  /// The variable in `state.detach()`, or in `detach(state)`.
  static const Node* detached(const Node* state) {
    if (!state->is(Kind::call)) return state;
    const Node* function = state->child("func");
    const Nodes given = state->list("args");
    if (function->is(Kind::attribute) && function->text == "detach" && given.empty())
      return function->child("value");
    return function->is(Kind::name) && given.size() == 1 ? given[0] : state;
  }

  bool has_columns_first(const Node* call) {
    const bool wanted = share_.tensors.front().dimension == 0;
    bool fits = true;
    for (const Node* origin : names_.origins(call->child("func"))) {
      const Node* owner = origin->is(Kind::call) ? names_.definition(origin->child("func")) : nullptr;
      walk(owner != nullptr ? *owner : *origin, [&](const Node& node) {
        if (!node.is(Kind::call)) return true;
        const std::string& made = names_.callee(&node);
        const bool has_order = made == "torch.nn.LSTM" || made == "torch.nn.GRU" || made == "torch.nn.RNN" ||
                               made.starts_with("torch.nn.Transformer") ||
                               made == "torch.nn.MultiheadAttention";
        if (!has_order) return true;
        const Node* first = names_.argument(&node, "batch_first", -1);
        fits = fits && (first != nullptr && first->text == "True") == wanted;
        return true;
      });
    }
    return fits;
  }

  // --- hidden states

  /// The statements before the loop that make a hidden state must do so for a number of columns.
  bool read_hidden(const Node* name) {
    const char* const reason =
        "a hidden state must begin before the loop with the number of columns, written as where the text is arranged";
    const int place = name->is(Kind::name) ? names_.place(name) : -1;
    if (place < 0 || names_.is_parameter(place) || step_.inner_loop == nullptr) return fail(name, reason);
    followed_.insert(place);
    const auto& values = names_.values(place);
    // If it begins anew right before the loop, what it is after the loop does not matter.
    const bool is_fresh = std::any_of(values.begin(), values.end(), [&](const Value& value) {
      const Node* statement = statement_of(value.node);
      return statement->parent == step_.inner_loop->parent && statement->begin < step_.inner_loop->begin;
    });
    bool begins = false;
    for (const Value& value : values) {
      const Node* statement = statement_of(value.node);
      if (is_fresh && statement->begin > step_.inner_loop->end) continue;
      statements_.insert(statement);
      const bool sized = take_sizes(value.node);
      if (is_inside(statement, step_.inner_loop) || value.node->literal == Literal::null) continue;
      if (function_of(statement) != step_.function || value.augmented || value.element || !sized)
        return fail(value.node, reason);
      begins = true;
      put_before(statement);
    }
    return begins || fail(name, reason);
  }

  bool take_sizes(const Node* value) {
    bool found = false;
    walk(*value, [&](const Node& node) {
      const bool same =
          node.is(inputs_.size()->kind) && names_.tree().text(node) == names_.tree().text(*inputs_.size());
      if (same && std::find(share_.sizes.begin(), share_.sizes.end(), &node) == share_.sizes.end())
        share_.sizes.push_back(&node);
      found = found || same;
      return !same;
    });
    return found;
  }

  /// Lets the shares be taken before a statement, in a block that contains the loop.
  void put_before(const Node* statement) {
    while (!is_inside(share_.loop, statement->parent)) statement = statement_of(statement->parent);
    if (share_.before == nullptr || statement->begin < share_.before->begin) share_.before = statement;
  }

  const Node* first_statement() const {
    if (step_.inner_loop != nullptr) return step_.inner_loop;
    for (const Node* other : block_of(step_.backward)) {
      const bool has_part = std::any_of(statements_.begin(), statements_.end(), [&](const Node* one) {
        return one == other || is_inside(one, other);
      });
      if (has_part) return other;
    }
    return share_.loss;
  }

  const Names& names_;
  const TorchProgram& program_;
  const Node* backward_;
  DrawnBatches drawn_;
  std::optional<RowWise> rows_;
  ShareStep step_;
  TorchShare share_;
  ShareInputs inputs_{names_, step_, drawn_, share_};
  std::vector<const Node*> hidden_;
  std::set<const Node*> statements_;
  std::set<int> followed_;  // places
  std::string why_;
};

}  // namespace

std::vector<TorchShare> read_shares(const Names& names, const TorchProgram& program,
                                    const std::vector<const Node*>& backwards, const Node*& refused,
                                    std::string& why) {
  std::deque<ShareReader> readers;  // which do not move
  std::set<const Node*> of_steps;
  for (const Node* backward : backwards) {
    const Node* loop = steps_loop(names, backward);
    bool found = false;
    refused = backward;
    for (const bool is_columns : {true, false}) {
      if (loop == nullptr || found) break;
      ShareReader& reader = readers.emplace_back(names, program, backward, loop, is_columns);
      found = reader.read();
      if (found) continue;
      if (why.empty()) why = reader.why();
      readers.pop_back();
    }
    if (!found) return {};
    of_steps.insert(readers.back().statements().begin(), readers.back().statements().end());
  }
  std::vector<TorchShare> shares;
  for (size_t i = 0; i < readers.size(); ++i) {
    refused = backwards[i];
    const std::optional<TorchShare> share = readers[i].finish(of_steps, readers.size() == 1);
    why = readers[i].why();
    if (!share) return {};
    shares.push_back(*share);
  }
  refused = nullptr;
  return shares;
}

}  // namespace telar::weave
