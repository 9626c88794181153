// --evaluation shared: each process evaluates every n-th batch, and the loop's sums are added up over the
// processes. The batches are those of the script, so a mean over batches, a count, and a last, smaller batch
// mean the same as with one process.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

constexpr const char* kOtherwise = ", or weave without --evaluation shared";

bool is_comprehension(const Node& node) {
  return node.is(Kind::list_comp) || node.is(Kind::set_comp) || node.is(Kind::dict_comp) ||
         node.is(Kind::generator);
}

bool is_addition(const Node& node) { return node.child("op")->is(Kind::add); }

/// Whether a function may be called for only a part of the batches: it keeps no state between calls.
bool keeps_nothing(const std::string& callee) {
  static const std::unordered_set<std::string_view> builtins = {
      "abs", "bool", "dict",  "enumerate", "float", "int",   "isinstance", "len", "list", "max",
      "min", "pow",  "range", "round",     "sum",   "tuple", "type",       "zip", "str",  "sorted"};
  return builtins.contains(callee) || callee.starts_with("torch.") || callee.starts_with("numpy.") ||
         callee.starts_with("math.");
}

class Evaluation {
 public:
  explicit Evaluation(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    bool any = false;
    for (const TorchLoop& loop : w_.program.loops) {
      const bool all = std::all_of(loop.loader.loaders.begin(), loop.loader.loaders.end(),
                                   [&](size_t loader) { return w_.program.loaders[loader].trains; });
      if (all) continue;  // its samples are already divided
      if (!is_shared_evaluation(w_, loop))
        refuse(loop.loader.expression,
               "this loop sometimes trains and sometimes evaluates; use a separate loop for each");
      share(loop);
      any = true;
    }
    for (const Node& node : w_.names.tree().nodes()) {
      if (!node.is(Kind::comprehension)) continue;
      for (const Node* origin : w_.names.origins(node.child("iter"))) {
        if (w_.program.loader_of(origin) != nullptr)
          refuse(node.child("iter"), "write this as a loop that adds up its results");
      }
    }
    if (!any)
      refuse(w_.names.tree().root()->list("body").front(), "no loop over a DataLoader evaluates a model");
  }

 private:
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    w_.refuse(node, decision + kOtherwise);
  }

  void share(const TorchLoop& loop) {
    for (const size_t loader : loop.loader.loaders) check_order(w_.program.loaders[loader].call);
    check_model(loop);
    check_statements(loop);
    check_way(loop.loop);
    const std::vector<const Node*> sums = totals(loop);
    if (sums.empty()) refuse(loop.loop, "it computes no sum that is used after it");
    const Node* iterable = loop.loop->child("iter");
    const std::string islice = w_.dialect.module_name("itertools", iterable) + ".islice";
    w_.edits.insert(iterable->begin, islice + "(");
    w_.edits.insert(iterable->end,
                    ", " + w_.dialect.rank(iterable) + ", None, " + w_.dialect.size(iterable) + ")");
    std::vector<std::string> text;
    for (const Node* sum : sums) text.push_back(fmt::format("{0} = {1}({0})", sum->text, add_up(loop.loop)));
    w_.edits.after(*loop.loop, text);
    w_.edits.explain(loop.loop->line, islice + "(…)", "each process evaluates every n-th batch");
    for (const std::string& line : text)
      w_.edits.explain(loop.loop->line, line, "the script's result is that of all batches");
  }

  /// All processes must see the same batches in the same order.
  void check_order(const Node* call) const {
    const auto is_no = [](const Node* node) {
      return node == nullptr || node->literal == Literal::null || node->text == "False";
    };
    const bool spread = std::any_of(call->list("keywords").begin(), call->list("keywords").end(),
                                    [](const Node* keyword) { return keyword->text.empty(); });
    if (spread || !is_no(w_.names.argument(call, "shuffle", 2)) ||
        !is_no(w_.names.argument(call, "sampler", 3)) || !is_no(w_.names.argument(call, "batch_sampler", 4)))
      refuse(call, "each process would take different batches; iterate over the samples in their order");
    const Node* dataset = w_.names.argument(call, "dataset", 0);
    for (const Node* origin : dataset == nullptr ? std::vector<const Node*>() : w_.names.origins(dataset)) {
      const Node* made = origin->is(Kind::call) ? w_.names.definition(origin->child("func")) : nullptr;
      if (made != nullptr && made->is(Kind::class_def) &&
          w_.names.derives(made, {"torch.utils.data.IterableDataset"}))
        refuse(call, "each process would read the stream in a different order");
    }
  }

  /// The model must be a trained one, so that the callers of the loop are known to need all processes, and it
  /// must not change during evaluation.
  void check_model(const TorchLoop& loop) const {
    if (!reaches(w_.names, loop.loop, [&](const Node* call) { return w_.calls_model(call); }))
      refuse(loop.loop, "it does not evaluate a model that is trained");
    const Node* function = function_of(loop.loop);
    bool evaluates = false;
    walk(function != nullptr ? *function : *module_of(loop.loop), [&](const Node& node) {
      const Node* called = node.is(Kind::call) && node.end < loop.loop->begin ? node.child("func") : nullptr;
      evaluates = evaluates || (called != nullptr && called->is(Kind::attribute) && called->text == "eval");
      return true;
    });
    if (!evaluates)
      refuse(
          loop.loop,
          "call the model's eval() before it; otherwise, layers would record different batches in each process");
  }

  /// Only sums may leave the loop, and no batch may see what another left.
  void check_statements(const TorchLoop& loop) const {
    walk(*loop.loop, [&](const Node& node) {
      if (&node == loop.loop) return true;
      if (node.is_function() || node.is(Kind::class_def) || node.is(Kind::lambda) || node.is(Kind::break_) ||
          node.is(Kind::return_) || node.is(Kind::yield) || node.is(Kind::raise) || node.is(Kind::try_) ||
          node.is(Kind::delete_) || node.is(Kind::global) || node.is(Kind::nonlocal) || node.is(Kind::while_))
        refuse(&node,
               "this may have a different meaning in a loop whose batches are divided among the processes");
      if (node.is(Kind::expr) && !node.child("value")->is(Kind::constant))
        refuse(&node, "each process would do this for its own batches only");
      if (node.is(Kind::call)) check_call(&node, seen_);
      if (node.store && !node.is(Kind::name) && !node.is(Kind::tuple) && !node.is(Kind::list))
        refuse(&node, "each process would keep this for its own batches only");
      if (node.store && node.is(Kind::name)) check_variable(&node, loop);
      return true;
    });
    seen_.clear();
  }

  /// Called functions must keep no state: functions of torch and similar libraries, methods of their results,
  /// and functions of the script that call only such functions.
  void check_call(const Node* call, std::unordered_set<const Node*>& seen) const {
    const Node* function = call->child("func");
    const std::string callee = w_.names.callee(call);
    const Node* own = w_.names.called_function(call);
    if (own != nullptr) return check_function(own, call, seen);
    if (!callee.empty()) {
      if (!keeps_nothing(callee)) refuse(call, "it is not known whether this keeps state from the batches");
      return;
    }
    const Node* object = function->is(Kind::attribute) ? function->child("value") : function;
    for (const Node* origin : w_.names.origins(object)) {
      if (!origin->is(Kind::call)) continue;
      const std::string& made_by = w_.names.callee(origin);
      const Node* made = w_.names.definition(origin->child("func"));
      if (made != nullptr && made->is(Kind::class_def)) {
        if (!w_.names.derives(made, {"torch.nn.Module"}))
          refuse(call, "it is not known whether this keeps state from the batches");
        if (const Node* forward = w_.names.method(made, "forward")) check_function(forward, call, seen);
      } else if (!made_by.empty() && !keeps_nothing(made_by) && !made_by.starts_with("torchvision.models.")) {
        refuse(call, "it is not known whether this keeps state from the batches");
      }
    }
  }

  void check_function(const Node* function, const Node* call, std::unordered_set<const Node*>& seen) const {
    if (!seen.insert(function).second) return;
    walk(*function, [&](const Node& node) {
      const bool keeps = (node.store && (node.is(Kind::attribute) || node.is(Kind::subscript))) ||
                         node.is(Kind::global) || node.is(Kind::nonlocal) || node.is(Kind::yield) ||
                         (node.is(Kind::expr) && !node.child("value")->is(Kind::constant));
      if (keeps)
        refuse(call, "it calls code that keeps state or acts for each batch (line " +
                         std::to_string(w_.names.tree().line_within(node.line)) + ")");
      if (node.is(Kind::call) && w_.calls_model(&node))
        refuse(
            call,
            "apply the model in the loop itself, so that not all processes need to do this at the same time");
      if (node.is(Kind::call)) check_call(&node, seen);
      return true;
    });
  }

  static bool adds(const Node* store) {
    const Node* statement = store->parent;
    if (statement->is(Kind::aug_assign)) return true;
    if (!statement->is(Kind::assign)) return false;
    const Node* value = statement->child("value");
    return value->is(Kind::bin_op) && is_addition(*value) && value->child("left")->is(Kind::name) &&
           value->child("left")->text == store->text;
  }

  /// A variable that the loop sets must be a sum, or be set by each batch before it is used, and not be used
  /// after the loop.
  void check_variable(const Node* store, const TorchLoop& loop) const {
    const int place = w_.names.place(store);
    if (place < 0 || is_inside(w_.names.scope(place), loop.loop)) return;  // of a comprehension
    const auto& mentions = w_.names.mentions(place);
    const bool is_sum = std::any_of(mentions.begin(), mentions.end(), [&](const Node* one) {
      return one->store && is_inside(one, loop.loop) && adds(one);
    });
    if (is_sum) return check_sum(mentions, loop);
    const auto first = std::find_if(mentions.begin(), mentions.end(),
                                    [&](const Node* one) { return is_inside(one, loop.loop); });
    const Node* statement = statement_of(*first);
    while (statement != loop.loop && statement->parent->is(Kind::with)) statement = statement->parent;
    const bool is_set_first = (*first)->store && (statement == loop.loop || statement->parent == loop.loop);
    const Node* region = loop.loop;
    for (const Node* around = loop_around(region); around != nullptr; around = loop_around(around))
      region = around;
    bool is_set_before = false;
    bool is_set_behind = false;
    for (const Node* one : mentions) {
      if (is_inside(one, loop.loop)) continue;
      const bool behind = one->begin > loop.loop->end;
      const bool runs_behind = behind || is_inside(one, region);  // also the next iteration of the outer loop
      bool& is_set = behind ? is_set_behind : is_set_before;
      if (function_of(one) != function_of(loop.loop) || (runs_behind && !is_set && !one->store))
        refuse(one, "this would come from the last batch of one process");
      is_set = is_set || (runs_behind && one->store);
    }
    const Node* assigned = statement_of(*first);
    bool sets_itself = false;
    if (assigned->is(Kind::assign)) {
      walk(*assigned->child("value"), [&](const Node& node) {
        sets_itself = sets_itself || (node.is(Kind::name) && w_.names.place(&node) == place);
        return true;
      });
    }
    if (!is_set_first || sets_itself) refuse(*first, "a batch may see here what another one left");
  }

  /// A sum must start at zero immediately before the loop, and the loop may only add to it.
  void check_sum(const std::vector<const Node*>& mentions, const TorchLoop& loop) const {
    const Node* started = nullptr;
    for (const Node* one : mentions) {
      if (function_of(one) != function_of(loop.loop))
        refuse(one, "another function sees this sum while it covers only one process");
      if (one->end < loop.loop->begin) started = one;
      if (!is_inside(one, loop.loop)) continue;
      const bool own = one->store
                           ? adds(one) && (!one->parent->is(Kind::aug_assign) || is_addition(*one->parent))
                           : one->parent->is(Kind::bin_op) && one->parent->parent->is(Kind::assign) &&
                                 one->role == "left" && adds(one->parent->parent->list("targets")[0]);
      if (!own) refuse(one, "during the loop, this is the sum of one process");
    }
    const Node* statement = started == nullptr ? nullptr : statement_of(started);
    const bool is_before = statement != nullptr && started->store && statement->is(Kind::assign) &&
                           is_inside(loop.loop, statement->parent) &&
                           loop_around(statement) == loop_around(loop.loop);
    if (!is_before || !starts_at_zero(w_.names.place(started), statement))
      refuse(started == nullptr ? loop.loop : started,
             "set the sum to zero before the loop, in the same block");
  }

  bool starts_at_zero(int place, const Node* statement) const {
    bool zero = false;
    for (const Value& value : w_.names.values(place)) {
      if (!is_inside(value.node, statement) || value.element) continue;
      const bool number = value.node->literal == Literal::number &&
                          value.node->text.find_first_not_of("0.") == std::string::npos;
      const std::string callee = value.node->is(Kind::call) ? w_.names.callee(value.node) : "";
      zero = number || callee == "torch.zeros" || callee == "numpy.zeros";
    }
    return zero;
  }

  /// All processes must reach the loop: no condition on the way to it may depend on what only one process
  /// knows.
  void check_way(const Node* node, int depth = 6) const {
    for (const Node* around = node; !around->parent->is(Kind::module); around = around->parent) {
      const Node* parent = around->parent;
      if (parent->is_function()) return check_callers(parent, depth);
      const bool decides =
          (parent->is(Kind::if_) && around->role != "test" && !is_known(parent->child("test"))) ||
          (parent->is(Kind::while_) && !is_known(parent->child("test")));
      const auto& loops = w_.program.loops;
      const bool of_batches =
          std::any_of(loops.begin(), loops.end(), [&](const TorchLoop& one) { return one.loop == parent; });
      if (decides || of_batches || parent->is(Kind::lambda) || parent->is(Kind::if_exp) ||
          parent->is(Kind::bool_op) || is_comprehension(*parent) || parent->is(Kind::class_def))
        refuse(
            node,
            "it cannot be determined whether all processes reach this together, which they must to add up their results");
    }
  }

  void check_callers(const Node* function, int depth) const {
    const auto& callers = w_.names.calls_of(function);
    size_t mentioned = 0;
    for (const Node& node : w_.names.tree().nodes()) {
      const bool named = (node.is(Kind::name) || node.is(Kind::attribute)) && !node.store;
      const bool called = node.parent != nullptr && node.parent->is(Kind::call) && node.role == "func";
      if (!named || called || node.text != function->text) continue;
      mentioned += w_.names.definition(&node) == function ? 1 : 0;
    }
    if (callers.empty() || mentioned > 0 || depth == 0)
      refuse(function, "where it is called from cannot be determined, and all processes must reach its loop");
    for (const Node* caller : callers) check_way(caller, depth - 1);
  }

  /// Whether all processes know the result of a condition: it uses only epoch counters, constants and
  /// command-line arguments.
  bool is_known(const Node* test) const {
    bool known = true;
    walk(*test, [&](const Node& node) {
      if (node.is(Kind::call)) known = false;
      if (!node.is(Kind::name) || !known) return known;
      bool is_counter = node.text == "__name__";
      for (const Node* loop = loop_around(test); loop != nullptr; loop = loop_around(loop))
        is_counter = is_counter || counter_of(w_.names, loop) == node.text;
      const auto origins = w_.names.origins(&node);
      known =
          is_counter || (!origins.empty() && std::all_of(origins.begin(), origins.end(), [](const Node* one) {
            return one->is(Kind::constant) ||
                   (one->is(Kind::call) && one->child("func")->is(Kind::attribute) &&
                    one->child("func")->text == "parse_args");
          }));
      return known;
    });
    return known;
  }

  /// The sums that are used outside the loop, in source order.
  std::vector<const Node*> totals(const TorchLoop& loop) const {
    std::vector<const Node*> found;
    walk(*loop.loop, [&](const Node& node) {
      if (!node.is(Kind::name) || !node.store || !adds(&node)) return true;
      const auto& mentions = w_.names.mentions(w_.names.place(&node));
      const bool used = std::any_of(mentions.begin(), mentions.end(), [&](const Node* one) {
        return (!one->store || one->parent->is(Kind::aug_assign)) && !is_inside(one, loop.loop);
      });
      const bool known =
          std::any_of(found.begin(), found.end(), [&](const Node* one) { return one->text == node.text; });
      if (used && !known) found.push_back(&node);
      return true;
    });
    return found;
  }

  /// Adds a function that sums values of any numeric type. A process without a batch still has the initial
  /// zero.
  std::string add_up(const Node* at) {
    std::string name = w_.names.fresh("total_over_ranks");
    w_.dialect.use(at);
    const std::string torch = w_.dialect.module_name("torch", at);
    const std::string& module = w_.dialect.module();
    const std::string mine = "value.detach().cpu() if " + torch + ".is_tensor(value) else value";
    std::vector<std::string> text = {"def " + name + "(value):"};
    if (w_.dialect.is_horovod()) {
      // Horovod would derive the name from the type, which is different in a process without a batch.
      text.push_back("    total = sum(" + module + ".allgather_object(" + mine + ", name=\"total\"))");
    } else {
      text.push_back("    parts = [None] * " + module + ".get_world_size()");
      text.push_back("    " + module + ".all_gather_object(parts, " + mine + ")");
      text.emplace_back("    total = sum(parts)");
    }
    text.push_back("    return total.to(value.device) if " + torch + ".is_tensor(value) else total");
    w_.dialect.function(text, at);
    return name;
  }

  TorchWeaving& w_;
  mutable std::unordered_set<const Node*> seen_;  // functions already checked for this loop
};

}  // namespace

bool is_shared_evaluation(const TorchWeaving& w, const TorchLoop& loop) {
  return w.dialect.choices().share_evaluation && !loop.trains &&
         std::none_of(loop.loader.loaders.begin(), loop.loader.loaders.end(),
                      [&](size_t loader) { return w.program.loaders[loader].trains; });
}

void write_evaluation(TorchWeaving& weaving) { Evaluation(weaving).write(); }

}  // namespace telar::weave
