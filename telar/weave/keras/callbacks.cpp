// Keras: the callbacks of fit(). All processes start from rank 0's state. Metrics are averaged before a
// callback uses them for a decision. Callbacks that write files run on rank 0 only.
#include <algorithm>
#include <array>

#include "telar/weave/keras/writer.h"

namespace telar::weave {

namespace {

std::string last_part(const std::string& callee) { return callee.substr(callee.rfind('.') + 1); }

/// Callbacks that write files and make no decision that the other processes must know.
bool only_writes(const std::string& callee) {
  static constexpr std::array<std::string_view, 8> names = {
      "ModelCheckpoint", "TensorBoard",  "CSVLogger",     "RemoteMonitor",
      "ProgbarLogger",   "TqdmCallback", "WandbCallback", "WandbMetricsLogger"};
  return std::find(names.begin(), names.end(), last_part(callee)) != names.end();
}

class Callbacks {
 public:
  Callbacks(KerasWeaving& weaving, const KerasCall& fit) : w_(weaving), fit_(fit) {}

  /// A callback that is no list becomes one; false if the callbacks are something else.
  bool write_one() {
    const Node* given = given_callbacks();
    if (given == nullptr || !is_one(given)) return false;
    write_first(given);
    w_.edits.insert(given->begin, "[");
    write_callback(given, true);
    w_.edits.insert(given->end, "]");
    return true;
  }

  void write() {
    const Node* given = given_callbacks();
    write_first(given);
    if (given == nullptr || given->literal == Literal::null) return;
    for (const Node* one : elements(given)) write_callback(one);
    write_appended(given);
  }

 private:
  const Node* given_callbacks() const {
    return w_.names.argument(fit_.call, "callbacks", fit_.call->child("func")->text == "fit" ? 5 : 4);
  }

  /// `callbacks=EarlyStopping()`: one callback instead of a list, which Keras accepts, too.
  bool is_one(const Node* given) const {
    const auto origins = w_.names.origins(given);
    return is_inside(given, fit_.call) && !origins.empty() &&
           std::all_of(origins.begin(), origins.end(), [&](const Node* origin) {
             return origin->is(Kind::call) && w_.names.callee(origin).starts_with("keras.callbacks.") &&
                    !w_.names.callee(origin).ends_with("CallbackList");
           });
  }

  /// Horovod's own callbacks, before the script's.
  void write_first(const Node* given) {
    if (!w_.dialect.is_horovod()) return;
    const std::string& hvd = w_.dialect.module();
    std::string first =
        hvd + ".callbacks.BroadcastGlobalVariablesCallback(0), " + hvd + ".callbacks.MetricAverageCallback()";
    w_.edits.explain(
        fit_.call->line, "BroadcastGlobalVariablesCallback, MetricAverageCallback",
        "all processes start with rank 0's state; metrics are averaged over all processes before other callbacks see them");
    if (const int epochs = w_.dialect.choices().warmup_epochs; epochs > 0) first += ", " + warm_up(epochs);
    if (given == nullptr) return w_.edits.add_argument(*fit_.call, "callbacks=[" + first + "]");
    if (given->literal == Literal::null) return w_.edits.replace(*given, "[" + first + "]");
    if (given->is(Kind::list))
      return w_.edits.insert(given->begin + 1, first + (given->list("elts").empty() ? "" : ", "));
    if (!is_inside(given, fit_.call))
      w_.refuse(fit_.call, "pass the callbacks to fit() directly, not through **");
    const bool simple = given->is(Kind::name) || given->is(Kind::attribute) || given->is(Kind::call);
    w_.edits.insert(given->begin, "[" + first + "] + " + (simple ? "" : "("));
    if (!simple) w_.edits.insert(given->end, ")");
  }

  /// The callbacks in a list, wherever the list is written.
  std::vector<const Node*> elements(const Node* given) const {
    std::vector<const Node*> found;
    const auto add = [&](const Node* list) {
      for (const Node* one : list->list("elts")) {
        if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
      }
    };
    if (given->is(Kind::list) || given->is(Kind::tuple)) {
      add(given);
      return found;
    }
    const auto origins = w_.names.origins(given);
    if (origins.empty())
      w_.refuse(given, "these callbacks cannot be determined; create the list in this file");
    for (const Node* origin : origins) {
      if (origin->is(Kind::list) || origin->is(Kind::tuple)) {
        add(origin);
      } else if (origin->is(Kind::bin_op)) {
        for (const char* side : {"left", "right"}) {
          for (const Node* one : elements(origin->child(side))) found.push_back(one);
        }
      } else if (origin->is(Kind::call) && given->is(Kind::call) == false) {
        w_.refuse(given, "the callbacks must be a list that is written in this file");
      } else {
        w_.refuse(given, "these callbacks cannot be determined; write them as a list");
      }
    }
    return found;
  }

  /// The variables that hold a list of callbacks: the one passed to fit() and the one it was created in.
  std::vector<int> places_of(const Node* given) const {
    std::vector<int> found;
    if (given->is(Kind::name) || given->is(Kind::attribute)) found.push_back(w_.names.place(given));
    for (const Node* origin : w_.names.origins(given)) {
      if (!origin->parent->is(Kind::assign)) continue;
      const int place = w_.names.place(origin->parent->list("targets")[0]);
      if (std::find(found.begin(), found.end(), place) == found.end()) found.push_back(place);
    }
    return found;
  }

  /// Rewrites callbacks that are added by callbacks.append(…) or callbacks += […].
  void write_appended(const Node* given) {
    for (const int place : places_of(given)) {
      for (const Node* mention : w_.names.mentions(place)) {
        const Node* method = mention->parent;
        const bool called =
            method->is(Kind::attribute) && method->parent->is(Kind::call) && method->role == "func";
        if (!called || method->parent->list("args").size() != 1) continue;
        const Node* added = method->parent->list("args")[0];
        if (method->text == "append") write_appended_one(method->parent, added);
        if (method->text != "extend") continue;
        for (const Node* one : elements(added)) write_callback(one);
      }
      for (const Value& value : w_.names.values(place)) {
        if (!value.augmented) continue;
        for (const Node* one : elements(value.node)) write_callback(one);
      }
    }
  }

  void write_appended_one(const Node* append, const Node* one) {
    if (!is_writer(one)) return write_callback(one);
    if (!w_.shared.insert(append).second) return;
    if (!append->parent->is(Kind::expr)) w_.refuse(append, "append the callback in its own statement");
    w_.edits.guard(*append->parent, w_.dialect.is_first(append));
    w_.edits.explain(append->line, "only on rank 0: " + w_.text(*one), "one process writes");
  }

  bool is_writer(const Node* one) const {
    const auto origins = w_.names.origins(one);
    return std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
      if (!origin->is(Kind::call)) return false;
      const std::string& callee = w_.names.callee(origin);
      return only_writes(callee) &&
             !(w_.dialect.is_tf_distribute() && last_part(callee) == "ModelCheckpoint");
    });
  }

  /// `in_brackets`: it is put into a list.
  void write_callback(const Node* one, bool in_brackets = false) {
    if (one->is(Kind::starred) || !w_.shared.insert(one).second) return;
    const auto origins = w_.names.origins(one);
    for (const Node* origin : origins) write_made(origin);
    if (origins.empty()) w_.refuse(one, "this callback cannot be determined; create it in this file");
    if (!is_writer(one)) return;
    if (!in_brackets && !one->parent->is(Kind::list)) w_.refuse(one, "write the callbacks as a list");
    w_.edits.insert(one->begin, "*([");
    w_.edits.insert(one->end, "] if " + w_.dialect.is_first(one) + " else [])");
    w_.edits.explain(one->line, "only on rank 0: " + w_.text(*one), "one process writes");
  }

  void write_made(const Node* origin) {
    if (!origin->is(Kind::call)) return;
    const std::string callee = w_.names.callee(origin);
    const std::string name = last_part(callee);
    if (name == "ModelCheckpoint" && w_.dialect.is_tf_distribute()) {
      const Node* path = w_.names.argument(origin, "filepath", 0);
      if (path == nullptr || !is_inside(path, origin))
        w_.refuse(origin, "write its path directly in this call");
      if (w_.shared.insert(path).second) save_on_chief(w_, origin, path);
    }
    if (name == "BackupAndRestore" && !w_.dialect.is_tf_distribute()) {
      w_.refuse(
          origin,
          "after a restart, each process must begin with the same epoch, but this callback stores the epoch separately in each process; use ModelCheckpoint and initial_epoch");
    }
    if (name == "ReduceLROnPlateau" && w_.grows()) {
      const Node* least = w_.names.argument(origin, "min_lr", 7);
      if (least != nullptr && least->text != "0" && least->text != "0.0") scale_keras_rate(w_, least);
    }
    if (name == "LearningRateScheduler" && w_.grows()) write_scheduler(origin);
  }

  /// A function of the epoch returns a learning rate, which is multiplied unless it is computed from the
  /// current rate.
  void write_scheduler(const Node* call) {
    if (w_.dialect.choices().divide_epochs) {
      w_.refuse(call,
                "it depends on the script's epochs, but each process has fewer; weave with --epochs keep");
    }
    if (w_.dialect.choices().warmup_epochs > 0)
      w_.refuse(
          call,
          "a schedule of epochs and a warm-up would both set the learning rate; weave without --warmup");
    const Node* schedule = w_.names.argument(call, "schedule", 0);
    if (schedule == nullptr) w_.refuse(call, "pass the function that it calls");
    const Node* function = schedule;
    if (!schedule->is(Kind::lambda)) {
      function = w_.names.definition(schedule);
      for (const Node* origin : w_.names.origins(schedule)) {
        if (function == nullptr && origin->is(Kind::lambda)) function = origin;
      }
    }
    if (function == nullptr || (!function->is(Kind::lambda) && !function->is_function()))
      w_.refuse(call,
                "the learning rates that this function returns cannot be determined; define it in this file");
    if (!w_.shared.insert(function).second) return;
    const auto& parameters = function->child("args")->list("args");
    const std::string_view rate = parameters.size() > 1 ? parameters[1]->text : "";
    const auto relative = [&](const Node* value) {
      bool found = false;
      walk(*value, [&](const Node& node) {
        found = found || (!rate.empty() && node.is(Kind::name) && node.text == rate);
        return !found;
      });
      return found;
    };
    if (function->is(Kind::lambda)) {
      if (!relative(function->child("body"))) scale_keras_rate(w_, function->child("body"));
      return;
    }
    walk(*function, [&](const Node& node) {
      if (&node != function && node.is_function()) return false;
      const Node* value = node.is(Kind::return_) ? node.child("value") : nullptr;
      if (value == nullptr || relative(value)) return true;
      // The variable may have been computed from the current rate.
      bool from_rate = false;
      if (value->is(Kind::name)) {
        for (const Value& one : w_.names.values(w_.names.place(value)))
          from_rate = from_rate || relative(one.node);
      }
      if (!from_rate) scale_keras_rate(w_, value);
      return true;
    });
  }

  /// Goyal and others, 2017: over the first epochs, the rate grows from the script's rate to the rate of all
  /// processes.
  std::string warm_up(int epochs) const {
    for (const KerasCall& compile : w_.program.compiles) {
      const Node* optimizer = w_.names.argument(compile.call, "optimizer", 0);
      for (const Node* origin :
           optimizer == nullptr ? std::vector<const Node*>() : w_.names.origins(optimizer)) {
        if (!origin->is(Kind::call)) continue;
        const Node* rate = w_.names.argument(origin, "learning_rate", 0);
        if (rate == nullptr) rate = w_.names.argument(origin, "lr", -1);
        for (const Node* made : rate == nullptr ? std::vector<const Node*>() : w_.names.origins(rate)) {
          if (made->is(Kind::call))
            w_.refuse(made,
                      "a schedule and a warm-up would both set the learning rate; weave without --warmup");
        }
      }
    }
    const std::string model = w_.text(*fit_.model);
    const std::string backend = w_.keras_module("backend", fit_.call);
    return w_.dialect.module() + ".callbacks.LearningRateWarmupCallback(initial_lr=float(" + backend +
           ".get_value(" + model + ".optimizer.learning_rate)), warmup_epochs=" + std::to_string(epochs) +
           ", momentum_correction=False)";
  }

  KerasWeaving& w_;
  const KerasCall& fit_;
};

}  // namespace

void write_keras_callbacks(KerasWeaving& weaving, const KerasCall& fit) { Callbacks(weaving, fit).write(); }

bool write_one_keras_callback(KerasWeaving& weaving, const KerasCall& fit) {
  return Callbacks(weaving, fit).write_one();
}

}  // namespace telar::weave
