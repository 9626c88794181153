// Training steps without a DataLoader: over all samples at once, or over text in columns. Weave must prove
// that the loss is a mean over samples that do not see each other; the processes then divide them.
#include "telar/weave/torch/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "telar/weave/torch/row_wise.h"
#include "telar/weave/torch/text_columns.h"
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

class ShareReader {
 public:
  ShareReader(const Names& names, const TorchProgram& program, const Node* backward)
      : names_(names), program_(program), backward_(backward) {}

  std::optional<TorchShare> read() {
    const Node* receiver = backward_->child("func")->child("value");
    statement_ = statement_of(backward_);
    share_.backward = backward_;
    share_.loop = steps_loop(names_, backward_);
    if (share_.loop == nullptr || !receiver->is(Kind::name) || !statement_->is(Kind::expr))
      return std::nullopt;
    share_.loss_name = receiver->text;
    function_ = function_of(backward_);
    inner_loop_ = is_inside(backward_, share_.loop) ? share_.loop : nullptr;
    scope_ = inner_loop_ != nullptr ? inner_loop_ : function_;
    if (scope_ == nullptr || !find_loss()) return std::nullopt;
    RowWise rows(
        names_, scope_, [&](const Node* one) { return is_input(one); },
        [&](const Node* call) { return inputs_of(call); });
    const bool is_mean = rows.is_mean(receiver);
    if (share_.tensors.empty()) return std::nullopt;
    if (!is_mean) {
      fail(rows.culprit(), "weave cannot tell that each sample counts by itself here");
      return std::nullopt;
    }
    statements_ = rows.statements();
    followed_ = rows.followed();
    for (const Node* name : hidden_) {
      if (!read_hidden(name)) return std::nullopt;
    }
    if (!check_uses()) return std::nullopt;
    share_.is_loss_read = is_loss_read();
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
    for (const Node* other : block_of(statement_)) {
      if (other == statement_) break;
      if (other->is(Kind::assign) && other->list("targets").size() == 1 &&
          other->list("targets")[0]->is(Kind::name) && other->list("targets")[0]->text == share_.loss_name)
        share_.loss = other;
    }
    return share_.loss != nullptr;
  }

  // --- inputs of the step

  bool is_input(const Node* expression) {
    if (expression->is(Kind::name)) return is_whole_tensor(expression);
    if (expression->is(Kind::subscript)) return is_rows_of_columns(expression);
    return expression->is(Kind::call) && (is_converted(expression) || is_rows_by_function(expression));
  }

  /// `torch.from_numpy(x)` of such a variable.
  bool is_converted(const Node* call) {
    static constexpr std::array<std::string_view, 5> kMakers = {
        "torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.Tensor", "torch.autograd.Variable"};
    const Nodes given = call->list("args");
    const bool makes = std::find(kMakers.begin(), kMakers.end(), names_.callee(call)) != kMakers.end();
    if (is_columns_ || !makes || given.size() != 1 || !given[0]->is(Kind::name)) return false;
    if (names_.place(given[0]) < 0 || is_setting(names_, given[0]) || !stays(given[0]) ||
        columns_of(names_, given[0]))
      return false;
    add(call, given[0]->text, 0);
    return true;
  }

  /// A variable that the steps do not change.
  bool is_whole_tensor(const Node* name) {
    const int place = names_.place(name);
    if (is_columns_ || place < 0 || names_.definition(name) != nullptr || is_setting(names_, name))
      return false;
    if (!stays(name) || columns_of(names_, name)) return false;
    add(name, name->text, 0);
    return true;
  }

  /// Whether the value of a variable stays the same in the steps.
  bool stays(const Node* name) const {
    const auto& mentions = names_.mentions(names_.place(name));
    return std::none_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
      const Node* function = function_of(mention);
      const bool once = function == nullptr || function == function_of(share_.loop);
      // A function may run at any time.
      if (once && !is_inside(mention, share_.loop) && !is_inside(mention, scope_)) return false;
      const Node* parent = mention->parent;
      const bool changes =
          parent->is(Kind::attribute) && mention->role == "value" &&
          (parent->text.ends_with("_") || parent->text == "append" || parent->text == "grad");
      return mention->store || changes || (parent->is(Kind::subscript) && parent->store);
    });
  }

  void add(const Node* mention, std::string_view variable, int dimension) {
    const std::string text(names_.tree().text(*mention));
    std::string name(variable);
    for (const SharedTensor& one : share_.tensors)
      if (one.name == name && one.text != text) name += "_";
    const auto known = std::find_if(share_.tensors.begin(), share_.tensors.end(),
                                    [&](const SharedTensor& one) { return one.text == text; });
    if (known == share_.tensors.end()) {
      share_.tensors.push_back({text, name, dimension, {mention}});
    } else if (std::find(known->mentions.begin(), known->mentions.end(), mention) == known->mentions.end()) {
      known->mentions.push_back(mention);
    }
  }

  /// Whether the step uses tensors as a whole.
  bool is_whole() const { return !is_columns_ && !share_.tensors.empty(); }

  /// `text[i:i + n]` of a tensor [rows, columns], or `text[:, i:i + n]` of [columns, rows].
  bool is_rows_of_columns(const Node* subscript) {
    const Node* name = subscript->child("value");
    if (!name->is(Kind::name) || !stays(name) || is_whole()) return false;
    const std::optional<Columns> columns = columns_of(names_, name);
    if (!columns || !takes_rows(names_, subscript->child("slice"), columns->dimension)) return false;
    use_columns(name, *columns);
    return true;
  }

  void use_columns(const Node* name, const Columns& columns) {
    is_columns_ = true;
    size_ = columns.size;
    add(name, name->text, columns.dimension);
  }

  /// `get_batch(text, i)`: a function that returns such rows of its argument.
  bool is_rows_by_function(const Node* call) {
    const Node* own = names_.called_function(call);
    if (is_whole() || own == nullptr ||
        names_.derives(class_of(own) != nullptr ? class_of(own) : own, {"torch.nn.Module"}))
      return false;
    const Nodes parameters = own->child("args")->list("args");
    for (size_t i = 0; i < call->list("args").size() && i < parameters.size(); ++i) {
      const Node* given = call->list("args")[i];
      if (!given->is(Kind::name) || !stays(given)) continue;
      const std::optional<Columns> columns = columns_of(names_, given);
      if (!columns || class_of(own) != nullptr ||
          !returns_rows(names_, own, parameters[i]->text, columns->dimension))
        continue;
      use_columns(given, *columns);
      return true;
    }
    return false;
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

  /// Of text in columns, the model may also receive hidden states. It treats columns by themselves, as it
  /// does the samples of a batch.
  size_t inputs_of(const Node* call) {
    const Nodes given = call->list("args");
    if (!applies_model(call)) return 0;
    if (!is_columns_) return treats_rows_alone(names_, call) ? given.size() : 0;
    for (const Node* state : given.subspan(1)) {
      if (state->is(Kind::tuple)) {
        for (const Node* one : state->list("elts")) hidden_.push_back(detached(one));
      } else {
        hidden_.push_back(detached(state));
      }
    }
    return has_columns_first(call) ? 1 : 0;
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
    if (place < 0 || names_.is_parameter(place) || inner_loop_ == nullptr) return fail(name, reason);
    followed_.insert(place);
    const auto& values = names_.values(place);
    // If it begins anew right before the loop, what it is after the loop does not matter.
    const bool is_fresh = std::any_of(values.begin(), values.end(), [&](const Value& value) {
      const Node* statement = statement_of(value.node);
      return statement->parent == inner_loop_->parent && statement->begin < inner_loop_->begin;
    });
    bool begins = false;
    for (const Value& value : values) {
      const Node* statement = statement_of(value.node);
      if (is_fresh && statement->begin > inner_loop_->end) continue;
      statements_.insert(statement);
      const bool sized = take_sizes(value.node);
      if (is_inside(statement, inner_loop_) || value.node->literal == Literal::null) continue;
      if (function_of(statement) != function_ || value.augmented || value.element || !sized)
        return fail(value.node, reason);
      begins = true;
      put_before(statement);
    }
    return begins || fail(name, reason);
  }

  bool take_sizes(const Node* value) {
    bool found = false;
    walk(*value, [&](const Node& node) {
      const bool same = node.is(size_->kind) && names_.tree().text(node) == names_.tree().text(*size_);
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
    if (inner_loop_ != nullptr) return inner_loop_;
    for (const Node* other : block_of(statement_)) {
      const bool has_part = std::any_of(statements_.begin(), statements_.end(), [&](const Node* one) {
        return one == other || is_inside(one, other);
      });
      if (has_part) return other;
    }
    return share_.loss;
  }

  // --- what else reads values of the step

  bool is_of_step(const Node* statement) const {
    return statement == statement_ || statement == share_.loss || statements_.contains(statement);
  }

  /// The assignment whose value a mention reads, as far as the order of the text tells; null: one of the
  /// loop's last round, or none.
  const Node* assignment_before(const Node* mention) const {
    const Node* found = nullptr;
    for (const Node* other : names_.mentions(names_.place(mention))) {
      if (!other->store || function_of(other) != function_of(mention) || other->begin >= mention->begin)
        continue;
      found = statement_of(other);
    }
    const bool wraps = inner_loop_ != nullptr && is_inside(mention, inner_loop_) &&
                       (found == nullptr || !is_inside(found, inner_loop_));
    return wraps ? nullptr : found;
  }

  /// Values of the step cover the samples of one process, so nothing else may read them.
  bool check_uses() {
    for (const int place : followed_) {
      for (const Node* mention : names_.mentions(place)) {
        if (mention->store || is_of_step(statement_of(mention))) continue;
        if (is_loss(mention) ? is_after_backward(mention) : is_row_count(mention)) continue;
        const Node* assigned = assignment_before(mention);
        if (assigned != nullptr && !is_of_step(assigned)) continue;
        return fail(
            mention,
            is_loss(mention)
                ? "read the loss after the backward pass, where it is that of all processes"
                : "it covers the samples of one process; compute what is shown anew, under torch.no_grad()");
      }
    }
    return true;
  }

  bool is_loss(const Node* mention) const { return mention->text == share_.loss_name; }
  bool is_after_backward(const Node* mention) const {
    return mention->begin > statement_->end || mention->begin < share_.loss->begin;
  }
  /// `len(data)` of rows of text
  bool is_row_count(const Node* mention) const {
    return is_columns_ && share_.tensors.front().dimension == 1 && mention->parent->is(Kind::call) &&
           names_.qualified(mention->parent->child("func")) == "len";
  }

  bool is_loss_read() const {
    for (const Node* mention : names_.mentions(names_.place(share_.loss->list("targets")[0]))) {
      if (!mention->store && !is_of_step(statement_of(mention))) return true;
    }
    return false;
  }

  const Names& names_;
  const TorchProgram& program_;
  const Node* backward_;
  const Node* statement_ = nullptr;
  const Node* function_ = nullptr;
  const Node* inner_loop_ = nullptr;
  const Node* scope_ = nullptr;
  const Node* size_ = nullptr;
  bool is_columns_ = false;
  TorchShare share_;
  std::vector<const Node*> hidden_;
  std::set<const Node*> statements_;
  std::set<int> followed_;  // places
  std::string why_;
};

}  // namespace

std::optional<TorchShare> read_share(const Names& names, const TorchProgram& program, const Node* backward,
                                     std::string& why) {
  ShareReader reader(names, program, backward);
  std::optional<TorchShare> share = reader.read();
  why = reader.why();
  return share;
}

}  // namespace telar::weave
