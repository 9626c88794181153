// DDP averages the gradients during the backward pass; it wraps the model.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "telar/weave/torch/references.h"
#include "telar/weave/torch/wrapped_models.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

class Wrapping {
 public:
  explicit Wrapping(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const Node* call : w_.names.calls()) {
      if (call->list("args").empty()) continue;
      if (w_.names.qualified(call->child("func")) == "torch.nn.DataParallel") data_parallel_.push_back(call);
    }
    for (const Node* call : w_.names.calls()) remember(call);
    wrapped_.reserve(w_.program.models.size());
    for (const TorchModel& model : w_.program.models) wrap(model);
    for (const Wrapped& root : wrapped_) {
      const auto calls = applications(*root.model);
      appliers_.insert(calls.begin(), calls.end());
    }
    traced_.follow(wrapped_);
    for (const Node& node : w_.names.tree().nodes()) {
      if (node.is(Kind::name) || node.is(Kind::attribute) || node.is(Kind::subscript)) use(&node);
    }
    for (const Node* call : w_.names.calls()) check_forward(call);
    for (const Wrapped& root : wrapped_) check_applied(root);
  }

 private:
  /// Wraps a model before its optimizer is created, or before the call of the function that creates the
  /// optimizer.
  void wrap(const TorchModel& model) {
    Wrapped wrapped{&model, model.optimizer, model.place, model.text, false};
    const Node* at = model.optimizer;
    // bare = model.module if hasattr(model, "module") else model
    const auto& values = w_.names.values(wrapped.place);
    const Node* bare =
        values.size() == 1 && traced_.takes_wrapper_away(values.front().node) ? values.front().node : nullptr;
    if (bare != nullptr) {
      wrapped.place = w_.names.place(bare->child("orelse"));
      wrapped.text = w_.text(*bare->child("orelse"));
    }
    for (int steps = 0; steps < 5 && w_.names.is_parameter(wrapped.place); ++steps) {
      const Node* function = function_of(at);
      if (function == nullptr || reaches(w_.names, function, is_backward)) break;
      const auto callers = w_.names.calls_of(function);
      if (callers.size() != 1) break;
      const Node* given = nullptr;
      for (const Value& value : w_.names.values(wrapped.place)) {
        if (is_inside(value.node, callers[0])) given = value.node;
      }
      if (given == nullptr || w_.names.place(given) < 0) break;
      wrapped.place = w_.names.place(given);
      wrapped.text = w_.text(*given);
      at = callers[0];
    }
    wrapped.before = wrapping_statement(w_, wrapped.place, place_for(wrapped, statement_of(at)));
    if (bare != nullptr && bare->begin > wrapped.before->begin) {
      w_.edits.replace(*bare, wrapped.text + ".module");
      w_.edits.explain(bare->line, wrapped.text + ".module", "the model is always wrapped here");
      removed_.push_back(bare);
    }
    write_data_parallel(wrapped);
    w_.dialect.import("from torch.nn.parallel import DistributedDataParallel", wrapped.before);
    w_.dialect.use(wrapped.before);
    const std::string unused = unused_parameters(w_, model);
    const std::string options =
        std::string(forwards_before_backward(model) > 1 ? ", broadcast_buffers=False" : "") +
        (unused.empty() ? "" : ", find_unused_parameters=True");
    const std::string text = wrapped.text + " = DistributedDataParallel(" + wrapped.text + options + ")";
    w_.edits.before(*wrapped.before, {text});
    w_.edits.explain(
        wrapped.before->line, text,
        "starts all processes with rank 0's weights and averages the gradients in every backward pass" +
            (unused.empty() ? "" : "; " + unused));
    wrapped_.push_back(wrapped);
  }

  /// The statement around `statement` that follows every assignment of the model, whichever branch was taken.
  const Node* place_for(const Wrapped& wrapped, const Node* statement) const {
    const Node* function = function_of(statement);
    std::vector<const Node*> assigned;
    for (const Node* mention : w_.names.mentions(wrapped.place)) {
      if (mention->store && function_of(mention) == function) assigned.push_back(mention);
    }
    if (assigned.empty() && w_.names.scope(wrapped.place)->is(Kind::module) && function != nullptr) {
      // A module variable that a function uses.
      for (const Node* mention : w_.names.mentions(wrapped.place)) {
        if (mention->store) assigned.push_back(mention);
      }
      if (assigned.empty())
        w_.refuse(statement, "assign the model to a variable before its optimizer is created");
      if (module_of(assigned.back()) != module_of(statement))
        w_.refuse(statement, "create the model, or its optimizer, in a function of the same file");
      const auto& block = block_of(statement_of(assigned.back()));
      for (size_t i = 0; i + 1 < block.size(); ++i) {
        if (block[i] == statement_of(assigned.back())) return block[i + 1];
      }
      w_.refuse(statement, "create the model and its optimizer in the same function");
    }
    const Node* at = statement;
    while (at->parent != nullptr) {
      const Node* around = at->parent;
      bool all = true;
      for (const Node* mention : assigned)
        all = all && (mention->begin > at->end || is_inside(mention, around));
      const bool body = around->is_function() || around->is(Kind::module);
      const bool in_branch = assigned.empty() && !body;
      if (all && !in_branch && at->role != "handlers") break;
      if (body) break;
      at = statement_of(around);
    }
    return at;
  }

  /// Removes torch.nn.DataParallel: it would split batches among the threads of one process.
  void write_data_parallel(Wrapped& wrapped) {
    for (const Node* call : data_parallel_) {
      const Node* inner = call->list("args")[0];
      const auto origins = w_.names.origins(inner);
      const bool same = std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
        const auto& own = wrapped.model->origins;
        return std::find(own.begin(), own.end(), origin) != own.end();
      });
      if (!same || !done_.insert(call).second) continue;
      const Node* statement = statement_of(call);
      const Node* branch = statement->parent;
      const bool whole = statement->is(Kind::assign) && statement->child("value") == call &&
                         w_.text(*statement->list("targets")[0]) == w_.text(*inner);
      if (branch->is(Kind::if_) && whole && branch->list("orelse").empty()) {
        // if torch.cuda.device_count() > 1: print(…); model = nn.DataParallel(model)
        const auto& body = branch->list("body");
        const bool alone = std::all_of(body.begin(), body.end(), [&](const Node* other) {
          return other == statement || (other->is(Kind::expr) && other->child("value")->is(Kind::call) &&
                                        w_.names.callee(other->child("value")) == "print");
        });
        w_.edits.remove(alone ? *branch : *statement);
        removed_.push_back(alone ? branch : statement);
      } else {
        wrapped.was_data_parallel = !is_one_of_two(call, statement);
        if (whole) {
          w_.edits.remove(*statement);
          removed_.push_back(statement);
        } else {
          w_.edits.replace(call->begin, inner->begin, "");
          w_.edits.replace(inner->end, call->end, "");
        }
      }
      w_.edits.explain(call->line, "nn.DataParallel is removed",
                       "each process has one device; DistributedDataParallel replaces it");
    }
  }

  /// Whether an expression is used only under a condition: `DataParallel(model) if … else model`.
  static bool is_one_of_two(const Node* expression, const Node* statement) {
    for (const Node* at = expression; at != statement; at = at->parent)
      if (at->parent->is(Kind::if_exp) && at->role != "test") return true;
    return false;
  }

  /// How often a training loop applies the model. If more than once before a backward pass, buffers must not
  /// be broadcast between.
  int forwards_before_backward(const TorchModel& model) const {
    int count = 0;
    for (const Node* call : applications(model)) {
      for (const Node* loop : w_.program.training_loops()) count += is_inside(call, loop) ? 1 : 0;
    }
    return count;
  }

  /// Records the origins of what is called, so that applications() finds the calls of a model.
  void remember(const Node* call) {
    const Node* function = call->child("func");
    if (!function->is(Kind::name) && !function->is(Kind::attribute) && !function->is(Kind::subscript)) return;
    if (w_.names.definition(function) != nullptr) return;
    for (const Node* origin : w_.names.origins(function)) applied_[origin].insert(call);
  }

  /// The calls of a model.
  std::set<const Node*> applications(const TorchModel& model) const {
    std::set<const Node*> calls;
    for (const Node* origin : model.origins) {
      const auto applied = applied_.find(origin);
      if (applied != applied_.end()) calls.insert(applied->second.begin(), applied->second.end());
    }
    return calls;
  }

  bool was_removed(const Node* node) const {
    return std::any_of(removed_.begin(), removed_.end(),
                       [&](const Node* gone) { return is_inside(node, gone); });
  }

  void use(const Node* node) {
    const Wrapped* found = node->store ? nullptr : traced_.wrapped(node);
    if (found == nullptr) use_of_unknown(node);
    if (found == nullptr || was_removed(node)) return;
    const Node* parent = node->parent;
    if (parent->is(Kind::attribute) && node->role == "value") {
      if (is_forward_as_value(parent) && !found->was_data_parallel)
        w_.refuse(parent,
                  "gradients are averaged only for what goes through the wrapper; call the model itself");
      if (is_same_on_wrapper(parent->text) || found->was_data_parallel) return;
      if (bypasses_forward(w_, parent)) {
        redirected_.insert(found->model);
        return redirect(node);
      }
      unwrap(node, fmt::format(".{} belongs to the model itself", parent->text));
      return;
    }
    if (parent->is(Kind::call) && node->role == "func" && is_shared_out(parent))
      return unwrap(node, "each process has its own batches here, and the wrapper would wait for the others");
    const bool argument = parent->is(Kind::call) && node->role == "args";
    const bool by_name = parent->is(Kind::keyword) && parent->parent->is(Kind::call);
    if (argument || by_name) {
      const Node* call = by_name ? parent->parent : parent;
      const std::string callee = w_.names.callee(call);
      if (w_.names.called_function(call) != nullptr || w_.names.definition(call->child("func")) != nullptr ||
          callee == "isinstance" || callee == "torch.nn.DataParallel")
        return;
      if (found->was_data_parallel && callee == "torch.save") return;
      unwrap(node, "the function receives the model itself");
    } else if (const Node* statement = statement_of(node);
               parent->is(Kind::dict) && statement->is(Kind::expr)) {
      if (statement->child("value")->is(Kind::call) &&
          w_.names.callee(statement->child("value")) == "torch.save") {
        unwrap(node, "the file contains the model itself");
      }
    }
  }

  /// `trainer.model.state_dict()` where weave does not know what `trainer` is (a callback's argument), but a
  /// class of the program has an attribute `model` that is wrapped.
  void use_of_unknown(const Node* node) {
    if (node->store || !node->is(Kind::attribute) || w_.names.place(node) >= 0 || was_removed(node)) return;
    const Node* object = node->child("value");
    if (!object->is(Kind::name) || object->text == "self" || !w_.names.qualified(object).empty()) return;
    const Wrapped* found = nullptr;
    for (const auto& [place, root] : traced_.roots())
      if (w_.names.scope(place)->is(Kind::class_def) && w_.names.name(place) == "." + std::string(node->text))
        found = root;
    if (found == nullptr || found->was_data_parallel) return;
    static const std::unordered_set<std::string_view> of_modules = {
        "state_dict",    "load_state_dict", "named_parameters", "modules",
        "named_modules", "children",        "buffers"};
    const Node* parent = node->parent;
    const bool attribute =
        parent->is(Kind::attribute) && node->role == "value" && of_modules.contains(parent->text);
    const bool saved =
        parent->is(Kind::call) && node->role == "args" && w_.names.callee(parent) == "torch.save";
    if (!attribute && !saved) return;
    unwrap_if_wrapped(node, fmt::format("{} belongs to the model itself", w_.text(*parent)));
  }

  bool is_shared_out(const Node* call) const {
    return std::any_of(w_.program.loops.begin(), w_.program.loops.end(), [&](const TorchLoop& loop) {
      return is_inside(call, loop.loop) && is_shared_evaluation(w_, loop);
    });
  }

  /// `model.encode(x)` becomes `through_wrapper(model, lambda module: module.encode(x))`.
  void redirect(const Node* node) {
    if (!traced_.is_always_wrapped(node))
      w_.refuse(
          node,
          "it is the trained model in one call and another model in the next; use a separate function for each");
    const Node* call = node->parent;
    while (!call->is(Kind::call)) call = call->parent;
    if (call->inside_fstring) w_.refuse(call, "move the model out of the f-string");
    const std::string name = w_.names.fresh("through_wrapper");
    w_.dialect.function(
        {"def " + name + "(model, compute):",
         "    # DistributedDataParallel averages the gradients of what the forward() within it computes.",
         "    def forward():", "        del model.module.forward", "        return compute(model.module)", "",
         "    model.module.forward = forward", "    return model()"},
        call);
    w_.edits.insert(call->begin, name + "(");
    w_.edits.insert(node->end, ", lambda module: module");
    w_.edits.insert(call->end, ")");
    w_.edits.explain(call->line, name + "(…)",
                     "gradients are averaged only for what goes through the wrapper's forward()");
  }

  void unwrap(const Node* node, const std::string& why) {
    if (!traced_.is_always_wrapped(node)) return unwrap_if_wrapped(node, why);
    if (node->inside_fstring) {
      const std::string text = w_.text(*node);
      if (!text.ends_with(node->text)) w_.refuse(node->parent, "move the model out of the f-string");
    }
    w_.edits.insert(node->end, ".module");
    w_.edits.explain(node->line, w_.text(*node) + ".module", why);
  }

  void unwrap_if_wrapped(const Node* node, const std::string& why) {
    if (node->inside_fstring) w_.refuse(node->parent, "move the model out of the f-string");
    const std::string text = w_.text(*node);
    w_.dialect.import("from torch.nn.parallel import DistributedDataParallel", node);
    const std::string model =
        "(" + text + ".module if isinstance(" + text + ", DistributedDataParallel) else " + text + ")";
    w_.edits.replace(*node, model);
    w_.edits.explain(node->line, model, "it is not always the wrapped model; " + why);
  }

  /// A training step that applies the bare model would not average its gradients, without an error.
  void check_forward(const Node* call) const {
    if (!appliers_.contains(call) || traced_.wrapped(call->child("func")) != nullptr) return;
    const Node* owner = class_of(call);
    if (owner != nullptr && w_.names.derives(owner, {"torch.nn.Module"})) return;
    if (computes_gradients(w_, call)) {
      w_.refuse(
          call,
          "this applies the model through another variable than the one passed to its optimizer; use one variable for both");
    }
  }

  /// A model that is applied only through what weave cannot follow may be the bare model.
  void check_applied(const Wrapped& root) const {
    const auto calls = applications(*root.model);
    const bool seen = std::any_of(calls.begin(), calls.end(), [&](const Node* call) {
      return traced_.wrapped(call->child("func")) != nullptr;
    });
    if (seen || redirected_.contains(root.model)) return;
    w_.refuse(
        root.model->optimizer,
        fmt::format(
            "weave does not see where the training loop applies the model {}; call it by this variable, by a parameter or by an attribute",
            root.text));
  }

  TorchWeaving& w_;
  std::vector<Wrapped> wrapped_;
  WrappedModels traced_{w_.names};
  std::set<const Node*> done_;
  std::vector<const Node*> removed_;
  std::unordered_set<const TorchModel*> redirected_;  // applied by their methods
  std::vector<const Node*> data_parallel_;
  std::unordered_set<const Node*> appliers_;                        // calls of a wrapped model under any name
  std::unordered_map<const Node*, std::set<const Node*>> applied_;  // by origin: the calls of what it created
};

}  // namespace

void write_models(TorchWeaving& weaving) {
  if (weaving.dialect.is_horovod()) return write_horovod(weaving);
  Wrapping(weaving).write();
  write_repeated_backward(weaving);
}

}  // namespace telar::weave
