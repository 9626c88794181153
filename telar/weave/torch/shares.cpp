// Training steps without a DataLoader: over all samples at once, or over text in columns. Weave must prove
// that the loss is a mean over samples that do not see each other; the processes then divide them.
#include "telar/weave/torch/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include "telar/weave/torch/drawn_batches.h"
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
        is_columns_(is_columns),
        drawn_(names, program, outermost_loop(names, loop)) {
    share_.loop = loop;
  }

  /// Whether the step is one whose samples the processes can divide.
  bool read() {
    const Node* receiver = backward_->child("func")->child("value");
    statement_ = statement_of(backward_);
    share_.backward = backward_;
    if (!statement_->is(Kind::expr)) return false;
    if (receiver->is(Kind::name)) share_.loss_name = receiver->text;
    function_ = function_of(backward_);
    inner_loop_ =
        is_inside(backward_, share_.loop) && function_of(share_.loop) == function_ ? share_.loop : nullptr;
    scope_ = inner_loop_ != nullptr ? inner_loop_ : function_;
    if (scope_ == nullptr || (receiver->is(Kind::name) && !find_loss())) return false;
    if (share_.loss == nullptr) share_.loss = statement_;  // criterion(model(x), y).backward()
    drawn_.know(names_.place(receiver));
    RowWise& rows = rows_.emplace(
        names_, scope_, !is_columns_, [&](const Node* one) { return input_of(one); },
        [&](const Node* call, const RowsOfArguments& given, int part) { return apply(call, given, part); },
        [&](const Node* call, int part) { return is_mean_of_model(call, part); });
    const bool is_mean = rows.is_mean(receiver);
    if (share_.tensors.empty()) return false;
    if (!is_mean) return fail(rows.culprit(), "weave cannot tell that each sample counts by itself here");
    statements_ = rows.statements();
    statements_.insert({statement_, share_.loss});
    followed_ = rows.followed();
    for (const Node* name : hidden_) {
      if (!read_hidden(name)) return false;
    }
    sort_tensors();
    return true;
  }

  const std::set<const Node*>& statements() const { return statements_; }

  /// The share, if what else reads values of the steps can be given those of all samples. `of_steps`: the
  /// statements of all steps. `is_alone`: whether there is no other step.
  std::optional<TorchShare> finish(const std::set<const Node*>& of_steps, bool is_alone) {
    of_steps_ = &of_steps;
    is_alone_ = is_alone;
    if (!check_uses() || !check_conditions()) return std::nullopt;
    share_.is_loss_read = is_loss_read();
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
    for (const Node* other : block_of(statement_)) {
      if (other == statement_) break;
      const Nodes targets = other->list("targets");
      const Nodes parts =
          targets.size() == 1 ? targets[0]->list("elts") : Nodes{};  // logits, loss = model(x, y)
      const bool assigns = other->is(Kind::assign) && targets.size() == 1 &&
                           (is_loss(targets[0]) || std::any_of(parts.begin(), parts.end(), is_loss));
      if (assigns || (other->is(Kind::aug_assign) && is_loss(other->child("target")))) share_.loss = other;
    }
    return share_.loss != nullptr;
  }

  // --- inputs of the step

  std::optional<Rows> input_of(const Node* expression) {
    if (is_columns_) {
      const bool found = (expression->is(Kind::subscript) && is_rows_of_columns(expression)) ||
                         (expression->is(Kind::call) && is_rows_by_function(expression));
      return found ? std::optional<Rows>(Rows()) : std::nullopt;
    }
    if (expression->is(Kind::name)) return tensor_in(expression, expression);
    if (expression->is(Kind::subscript)) return taken(expression);
    return expression->is(Kind::call) ? converted(expression) : std::nullopt;
  }

  /// `torch.from_numpy(x)` of such a variable.
  std::optional<Rows> converted(const Node* call) {
    static constexpr std::array<std::string_view, 7> kMakers = {
        "torch.from_numpy", "torch.tensor",      "torch.as_tensor",        "torch.Tensor",
        "torch.LongTensor", "torch.FloatTensor", "torch.autograd.Variable"};
    const Nodes given = call->list("args");
    const bool makes = std::find(kMakers.begin(), kMakers.end(), names_.callee(call)) != kMakers.end();
    return makes && given.size() == 1 && given[0]->is(Kind::name) ? tensor_in(given[0], call) : std::nullopt;
  }

  /// The samples of a variable, or of the tensor `made` of one: it keeps its value in the steps, or it is a
  /// batch that they take.
  std::optional<Rows> tensor_in(const Node* name, const Node* made) {
    const int place = names_.place(name);
    if (place < 0 || names_.definition(name) != nullptr || is_setting(names_, name) ||
        columns_of(names_, name))
      return std::nullopt;
    SharedTensor tensor{std::string(names_.tree().text(*made)), std::string(name->text), 0, {made}};
    std::vector<Value> values = names_.values(place);
    if (!stays(name)) {
      bool is_certain = false;
      values = values_before(names_, scope_, name, is_certain);
      const bool of_loop =
          values.size() == 1 && values[0].element && statement_of(values[0].node) == inner_loop_;
      if (values.size() != 1 || values[0].augmented || (!is_certain && !of_loop)) return std::nullopt;
      tensor.assigned = statement_of(values[0].node);
      tensor.are_random_rows = are_random_rows(values[0]);
    }
    const bool agree = std::all_of(values.begin(), values.end(),
                                   [&](const Value& value) { return drawn_.agree(value.node); });
    if (!agree) return std::nullopt;
    tensor.dimension = is_state(name, values) ? 1 : 0;
    add(std::move(tensor));
    return Rows{is_state(name, values) ? 1 : 0, is_state(name, values) ? 3 : 0};
  }

  /// `x[indices]`, `x[i:i + n]`: rows that the step takes where it uses them.
  std::optional<Rows> taken(const Node* subscript) {
    const Node* slice = subscript->child("slice");
    const Node* first = slice->is(Kind::tuple) ? slice->list("elts")[0] : slice;
    const Node* of = subscript->child("value");
    const Node* statement = statement_of(subscript);
    const bool is_of_step = statement->parent == statement_->parent && statement->role == statement_->role;
    if (names_.tree().text(*first) == ":" || !of->is(Kind::name) || !is_of_step || columns_of(names_, of) ||
        !drawn_.agree(subscript))
      return std::nullopt;
    SharedTensor tensor{std::string(names_.tree().text(*subscript)), std::string(of->text), 0, {subscript}};
    tensor.used = statement;
    tensor.are_random_rows = drawn_.are_random_rows(subscript);
    add(std::move(tensor));
    return Rows();
  }

  bool are_random_rows(const Value& value) {
    return value.element ? value.node->is(Kind::call) && drawn_.are_random_rows(value.node, value.part)
                         : drawn_.are_random_rows(value.node, value.part);
  }

  /// Whether a variable holds the first state of recurrent layers, zeros of [layers, samples, size].
  bool is_state(const Node* name, const std::vector<Value>& values) const {
    const auto& mentions = names_.mentions(names_.place(name));
    const bool is_filled = std::any_of(mentions.begin(), mentions.end(), [](const Node* mention) {
      return mention->parent->is(Kind::subscript) && mention->parent->store && mention->role == "value";
    });
    return !is_filled && !values.empty() &&
           std::all_of(values.begin(), values.end(), [&](const Value& value) {
             const Node* made = value.node;
             while (made->is(Kind::call) && made->child("func")->is(Kind::attribute) &&
                    names_.callee(made).empty())
               made = made->child("func")->child("value");  // torch.zeros(…).to(device)
             const bool zeros = made->is(Kind::call) && names_.callee(made) == "torch.zeros";
             return value.part < 0 && zeros && made->list("args").size() == 3;
           });
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

  void add(SharedTensor tensor) {
    const auto known = std::find_if(
        share_.tensors.begin(), share_.tensors.end(),
        [&](const SharedTensor& one) { return one.text == tensor.text && one.place() == tensor.place(); });
    if (known == share_.tensors.end()) {
      for (const SharedTensor& one : share_.tensors)
        if (one.name == tensor.name) tensor.name += "_";
      share_.tensors.push_back(std::move(tensor));
    } else if (std::find(known->mentions.begin(), known->mentions.end(), tensor.mentions[0]) ==
               known->mentions.end()) {
      known->mentions.push_back(tensor.mentions[0]);
    }
  }

  /// The tensors whose part is taken before the loop come first.
  void sort_tensors() {
    std::stable_sort(share_.tensors.begin(), share_.tensors.end(),
                     [](const SharedTensor& a, const SharedTensor& b) {
                       return (a.place() == nullptr ? 0 : a.place()->begin) <
                              (b.place() == nullptr ? 0 : b.place()->begin);
                     });
    // A state has its samples along another axis than the tensor that tells their number.
    const auto of_samples =
        std::find_if(share_.tensors.begin(), share_.tensors.end(), [&](const SharedTensor& one) {
          return one.dimension == 0 && one.place() == share_.tensors.front().place();
        });
    if (of_samples != share_.tensors.end()) std::rotate(share_.tensors.begin(), of_samples, of_samples + 1);
  }

  /// `text[i:i + n]` of a tensor [rows, columns], or `text[:, i:i + n]` of [columns, rows].
  bool is_rows_of_columns(const Node* subscript) {
    const Node* name = subscript->child("value");
    if (!name->is(Kind::name) || !stays(name)) return false;
    const std::optional<Columns> columns = columns_of(names_, name);
    if (!columns || !takes_rows(names_, subscript->child("slice"), columns->dimension)) return false;
    use_columns(name, *columns);
    return true;
  }

  void use_columns(const Node* name, const Columns& columns) {
    size_ = columns.size;
    add({std::string(name->text), std::string(name->text), columns.dimension, {name}});
  }

  /// `get_batch(text, i)`: a function that returns such rows of its argument.
  bool is_rows_by_function(const Node* call) {
    const Node* own = names_.called_function(call);
    if (own == nullptr || names_.derives(class_of(own) != nullptr ? class_of(own) : own, {"torch.nn.Module"}))
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

  /// Of rows that are drawn at random, and of text in columns, the model is taken to treat the samples
  /// alike, as with a loader. Of text in columns, it may also receive hidden states.
  std::optional<Rows> apply(const Node* call, const RowsOfArguments& given, int part) {
    if (!is_columns_) {
      const std::optional<Rows> found = apply_layers(names_, call, given, part);
      const bool is_opaque = are_known_samples() && applies_model(call) && may_return(names_, call, part);
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
    if (is_columns_ || !applies_model(call) || call->list("args").empty()) return false;
    for (const Node* given : call->list("args"))
      if (!rows_->has_rows(given)) return false;
    if (!are_known_samples()) return false;
    const auto origins = names_.origins(call->child("func"));
    return std::all_of(origins.begin(), origins.end(), [&](const Node* origin) {
      const Node* owner = origin->is(Kind::call) ? names_.definition(origin->child("func")) : nullptr;
      return owner != nullptr && owner->is(Kind::class_def) && returns_mean(names_, owner, part);
    });
  }

  /// Whether the rows of all tensors are known to be samples.
  bool are_known_samples() const {
    const auto& all = share_.tensors;
    return std::any_of(all.begin(), all.end(), [](const SharedTensor& one) { return one.are_random_rows; }) &&
           std::all_of(all.begin(), all.end(), [](const SharedTensor& one) {
             return one.are_random_rows || one.dimension == 1;  // a first state
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

  bool is_of_step(const Node* statement) const { return of_steps_->contains(statement); }

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

  /// Values of the step cover the samples of one process. What else reads them receives those of all.
  bool check_uses() {
    for (const int place : followed_) {
      for (const Node* mention : names_.mentions(place)) {
        if (mention->store || is_of_step(statement_of(mention))) continue;
        const Node* assigned = assignment_before(mention);
        // After the backward pass, the loss is that of all processes.
        const bool is_whole_loss =
            is_loss(mention) && (mention->begin > statement_->end || assigned == nullptr);
        if (is_whole_loss || is_row_count(mention)) continue;
        if (assigned != nullptr && !statements_.contains(assigned)) continue;  // or another step's
        if (!read_whole(mention, assigned))
          return fail(
              mention,
              "it covers the samples of one process; compute what is shown anew, under torch.no_grad()");
      }
    }
    return true;
  }

  /// Notes that a mention reads a value of the step, of all samples.
  bool read_whole(const Node* mention, const Node* assigned) {
    const bool is_mean = rows_->means().contains(names_.place(mention));
    if (is_columns_ || assigned == nullptr || function_of(mention) != function_) return false;
    // A name in an f-string cannot be replaced; after the backward pass, the variable itself can be.
    if (mention->inside_fstring && (mention->begin < statement_->end || !is_alone_)) return false;
    int dimension = -1;
    for (const Value& value : names_.values(names_.place(mention))) {
      if (statement_of(value.node) != assigned || is_mean) continue;
      const std::optional<Rows> found = rows_->rows_of(value, mention->text);
      if (!found) return false;
      dimension = found->axis;
    }
    if (!is_mean && dimension < 0) return false;
    // Where the value is joined, all processes must come by.
    if (assigned->parent != statement_->parent || assigned->role != statement_->role) return false;
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
    return is_columns_ && share_.tensors.front().dimension == 1 && mention->parent->is(Kind::call) &&
           names_.qualified(mention->parent->child("func")) == "len";
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
    check(statement_);
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
    for (const Node* mention : names_.mentions(names_.place(backward_->child("func")->child("value")))) {
      const bool is_given = std::any_of(share_.read.begin(), share_.read.end(), [&](const ReadValue& one) {
        return std::find(one.mentions.begin(), one.mentions.end(), mention) != one.mentions.end();
      });
      if (!mention->store && !is_given && !is_of_step(statement_of(mention))) return true;
    }
    return false;
  }

  const Names& names_;
  const TorchProgram& program_;
  const Node* backward_;
  const bool is_columns_;
  DrawnBatches drawn_;
  std::optional<RowWise> rows_;
  const std::set<const Node*>* of_steps_ = nullptr;
  bool is_alone_ = true;
  const Node* statement_ = nullptr;
  const Node* function_ = nullptr;
  const Node* inner_loop_ = nullptr;
  const Node* scope_ = nullptr;
  const Node* size_ = nullptr;
  TorchShare share_;
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
