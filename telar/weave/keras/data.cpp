// Where a tf.data pipeline is divided among the processes: as late as possible, so splits and filters see all
// samples; but before shuffle, batch and repeat, so each process performs these on its own share. If what is
// divided there would also be used for other things (a vocabulary, validation), the batches are divided where
// training receives them.
#include <algorithm>

#include "telar/weave/keras/pipelines.h"

namespace telar::weave {

namespace {

std::string sharing_function(KerasWeaving& w, const Node* at) {
  std::string name = w.names.fresh("shard");
  const std::string tf = w.tensorflow(at);
  const std::string& hvd = w.dialect.module();
  w.dialect.function(
      {"def " + name + "(dataset):",
       "    # The same number of elements for each process; the remainder is left out.",
       "    samples = int(dataset.cardinality())", "    if samples == " + tf + ".data.UNKNOWN_CARDINALITY:",
       "        samples = int(dataset.reduce(" + tf + ".constant(0, " + tf +
           ".int64), lambda count, *sample: count + 1))",
       "    if samples != " + tf + ".data.INFINITE_CARDINALITY:",
       "        dataset = dataset.take(samples // " + hvd + ".size() * " + hvd + ".size())",
       "    return dataset.shard(" + hvd + ".size(), " + hvd + ".rank())"},
      at);
  return name;
}

/// Multiplies or divides the size of batches: an argument of `call`, or its default.
class BatchSizes {
 public:
  explicit BatchSizes(KerasWeaving& weaving) : w_(weaving) {}

  /// Whether sizes change at all.
  bool change() const { return multiply() || divide(); }

  void write(const PipelineSource& source) {
    if (!change()) return;
    for (const Node* call : source.batches) write_batch(call);
    for (const Node* call : source.makers) write_maker(call);
  }

 private:
  bool multiply() const { return w_.dialect.is_tf_distribute() && w_.grows(); }
  bool divide() const { return !w_.dialect.is_tf_distribute() && !w_.grows(); }

  void write_batch(const Node* call) {
    const Node* size = w_.names.argument(call, "batch_size", 0);
    if (size == nullptr || !is_inside(size, call))
      w_.refuse(call, "pass the size to batch() directly, so that it can be changed");
    if (!w_.shared.insert(size).second) return;
    const bool by_hand = multiply() && w_.program.fits.empty();
    if (by_hand && w_.names.argument(call, "drop_remainder", 1) == nullptr) {
      w_.edits.add_argument(*call, "drop_remainder=True");
      w_.edits.explain(call->line, "drop_remainder=True",
                       "some replicas would get no part of a smaller last batch");
    }
    replace(call, size);
  }

  void write_maker(const Node* call) {
    if (!w_.shared.insert(call).second) return;
    const BatchArgument* known = batch_argument(w_.names.callee(call));
    const Node* size = w_.names.argument(call, "batch_size", known == nullptr ? -1 : known->position);
    if (size == nullptr) {
      w_.edits.add_argument(*call, "batch_size=" + std::string(known->standard) +
                                       (multiply() ? " * " : " // ") + w_.dialect.size(call));
      return explain(call);
    }
    if (size->literal == Literal::null) return;  // single samples
    if (!is_inside(size, call))
      w_.refuse(call, "pass batch_size to this call directly, so that it can be changed");
    if (w_.shared.insert(size).second) replace(call, size);
  }

  void replace(const Node* call, const Node* size) {
    w_.edits.replace(*size, multiply() ? times(w_.names.tree(), *size, w_.dialect.size(size))
                                       : divided(w_.names.tree(), *size, w_.dialect.size(size)));
    explain(call);
  }

  void explain(const Node* call) {
    w_.edits.explain(
        call->line, multiply() ? "batch × number of replicas" : "the batch is divided among the processes",
        multiply() ? "each replica takes the script's batch" : "together they take the script's batch");
  }

  KerasWeaving& w_;
};

bool shuffles(const KerasWeaving& w, const Node* expression) {
  return follow_every_way(w, expression).shuffles;
}

/// The datasets of a program that are not trained on: of validation, evaluation, a preprocessing layer.
std::vector<const Node*> other_datasets(const KerasWeaving& w) {
  std::vector<const Node*> found;
  for (const KerasCall& fit : w.program.fits)
    found.push_back(w.names.argument(fit.call, "validation_data", 7));
  for (const KerasCall& evaluation : w.program.evaluations)
    found.push_back(w.names.argument(evaluation.call, "x", 0));
  for (const Node* call : w.names.calls()) {
    const Node* function = call->child("func");
    if (function->is(Kind::attribute) && function->text == "adapt" && !call->list("args").empty())
      found.push_back(call->list("args")[0]);
  }
  for (const KerasLoop& loop : w.program.loops) {
    // A loop over a few batches only looks at them.
    const bool looks = loop.dataset->is(Kind::call) && loop.dataset->child("func")->is(Kind::attribute) &&
                       loop.dataset->child("func")->text == "take";
    if (w.program.fits.empty() && !loop.trains && !looks) found.push_back(loop.dataset);
  }
  std::erase_if(found, [&](const Node* one) { return one == nullptr || !is_dataset(w.names, one); });
  return found;
}

/// Whether a dataset that is not trained on is made from `whole`.
bool is_used_otherwise(KerasWeaving& w, const Node* whole) {
  for (const Node* other : other_datasets(w)) {
    std::vector<const Node*> met;
    try {
      follow_pipeline(w, other, &met);
    } catch (const Refusal&) {
      // What was met until then decides: behind it, other datasets are possible.
    }
    if (std::find(met.begin(), met.end(), whole) != met.end()) return true;
  }
  return false;
}

/// tf.distribute: if take() or skip() count the batches that `made` makes, they keep their size, and larger
/// ones are made of them where training receives them. Returns the calls that do so.
std::string join_batches(KerasWeaving& w, const Node* expression, const Node* made) {
  const BatchArgument* maker = batch_argument(w.names.callee(made));
  const Node* size = w.names.argument(made, "batch_size", maker == nullptr ? 0 : maker->position);
  const bool pads =
      made->child("func")->text == "padded_batch" || made->child("func")->text == "ragged_batch";
  const bool visible = size == nullptr ? maker != nullptr : w.names.means_the_same(size, expression);
  if (pads || !visible || expression->inside_fstring)
    w.refuse(
        expression,
        "its batches are counted by take() or skip() before weave can make them larger; take or skip samples before batch()");
  if (shuffles(w, expression)) w.draws_alike = true;
  const Node* drops = w.names.argument(made, "drop_remainder", maker == nullptr ? 1 : -1);
  const std::string text = size == nullptr ? std::string(maker->standard) + " * " + w.dialect.size(expression)
                                           : times(w.names.tree(), *size, w.dialect.size(expression));
  const std::string rest = w.program.fits.empty() ? ", drop_remainder=True"
                           : drops != nullptr     ? ", drop_remainder=" + w.text(*drops)
                                                  : "";
  w.dialect.use(expression);
  w.edits.explain(expression->line, "batches × number of replicas, made of the script's batches",
                  "each replica takes the script's batch, and take() and skip() count as before");
  return ".unbatch().batch(" + text + rest + ")";
}

/// In a loop of the script's own, sums over a process's batches must not be divided by the number of all.
void check_not_counted(const KerasWeaving& w, const Node* expression) {
  const int place = w.names.place(expression);
  for (const Node* call : w.names.calls()) {
    const auto& given = call->list("args");
    const bool counts = w.names.qualified(call->child("func")) == "len" && !given.empty() && place >= 0 &&
                        w.names.place(given[0]) == place;
    if (counts)
      w.refuse(
          call,
          "this counts the batches of all processes, but the loop sees those of one; count them in the loop");
  }
}

/// Divides the elements of a dataset where it is used for training.
void share_there(KerasWeaving& w, const Node* expression) {
  if (expression->inside_fstring) w.refuse(expression, "move the dataset out of the f-string");
  if (!w.shared.insert(expression).second) return;
  if (w.program.fits.empty()) check_not_counted(w, expression);
  w.dialect.use(expression);
  w.edits.insert(expression->begin, sharing_function(w, expression) + "(");
  w.edits.insert(expression->end, ")");
  w.edits.explain(expression->line,
                  "the batches are divided among the processes where training receives them",
                  "before, the dataset is also used for other things, which must see all samples");
  w.draws_alike = true;
}

}  // namespace

bool is_drawn(const KerasWeaving& w, const Node* expression, int depth) {
  bool found = false;
  walk(*expression, [&](const Node& node) {
    found = found || (node.is(Kind::call) && w.names.callee(&node).starts_with("tensorflow.random."));
    if (found || depth == 0 || !node.is(Kind::name) || node.store) return !found;
    for (const Value& value : w.names.values(w.names.place(&node))) {
      if (!value.node->is_function() && !value.node->is(Kind::class_def))
        found = found || is_drawn(w, value.node, depth - 1);
    }
    return !found;
  });
  return found;
}

std::string share_dataset(KerasWeaving& w, const Node* expression) {
  if (w.dialect.is_tf_distribute() && w.grows()) {
    if (const MadeBatches made = batches_of(w, expression); made.call != nullptr && made.are_counted)
      return join_batches(w, expression, made.call);
  }
  PipelineSource source;
  bool is_ambiguous = false;
  try {
    source = follow_pipeline(w, expression);
  } catch (const Refusal&) {
    // A loop of the script's own under tf.distribute leaves out incomplete batches, which only training may.
    if (w.dialect.is_tf_distribute() && w.program.fits.empty()) throw;
    source = follow_every_way(w, expression);
    is_ambiguous = true;
  }
  BatchSizes sizes(w);
  if (sizes.change() && w.dialect.is_tf_distribute() && source.batches.empty() && source.makers.empty())
    source = follow_every_way(w, expression);
  const bool sees_batches = !source.batches.empty() || !source.makers.empty();
  const bool must_see = w.dialect.is_tf_distribute() || is_ambiguous;
  if (sizes.change() && must_see && !sees_batches)
    w.refuse(
        expression,
        "weave does not see where the batches of this dataset are made, so it cannot change their size; call batch() in this program");
  if (!w.dialect.is_tf_distribute() && sizes.change() && !sees_batches &&
      batches_of(w, expression).call != nullptr)
    w.refuse(
        expression,
        "--global-batch keep makes its batches smaller, but what follows batch() may count them; do that before batch(), or weave with --global-batch grow");
  sizes.write(source);
  const Node* whole = source.expression;
  if (w.dialect.is_tf_distribute()) {
    if (source.batches.empty() && w.program.fits.empty())
      w.refuse(expression,
               "call batch() where weave can find it, so that all replicas get the same number of samples");
    if (is_ambiguous || shuffles(w, whole) || shuffles(w, expression) || is_drawn(w, whole))
      w.draws_alike = true;
    if (w.grows()) w.shared.insert(whole);  // its batches are larger, so there are fewer
    return "";
  }
  if (!w.shares_samples() || w.shared.contains(whole)) return "";
  if (is_ambiguous || source.is_argument || is_used_otherwise(w, whole)) {
    share_there(w, expression);
    return "";
  }
  w.shared.insert(whole);
  const std::string why = "each process takes its share of the samples";
  w.dialect.use(whole);
  w.edits.insert(whole->begin, sharing_function(w, whole) + "(");
  w.edits.insert(whole->end, ")");
  w.edits.explain(whole->line, "the dataset is divided among the processes", why);
  if (shuffles(w, whole) || is_drawn(w, whole)) w.draws_alike = true;
  return "";
}

namespace {

/// Whether the size of a dataset's batches is changed.
bool has_changed_batches(const KerasWeaving& w, const Node* dataset) {
  const PipelineSource source = follow_every_way(w, dataset);
  return std::any_of(
             source.batches.begin(), source.batches.end(),
             [&](const Node* call) { return w.shared.contains(w.names.argument(call, "batch_size", 0)); }) ||
         std::any_of(source.makers.begin(), source.makers.end(),
                     [&](const Node* call) { return w.shared.contains(call); });
}

}  // namespace

bool counts_shared(const KerasWeaving& w, const Node* expression) {
  bool found = false;
  const auto look = [&](const auto& self, const Node* within, int depth) -> void {
    walk(*within, [&](const Node& node) {
      if (found) return false;
      const Node* counted = nullptr;
      if (node.is(Kind::call) && w.names.qualified(node.child("func")) == "len" && !node.list("args").empty())
        counted = node.list("args")[0];
      if (node.is(Kind::call) && node.child("func")->is(Kind::attribute) &&
          node.child("func")->text == "cardinality")
        counted = node.child("func")->child("value");
      if (node.is(Kind::call) && w.names.callee(&node).ends_with("experimental.cardinality") &&
          !node.list("args").empty())
        counted = node.list("args")[0];
      if (counted != nullptr && is_dataset(w.names, counted) && w.dialect.is_tf_distribute()) {
        found = found || has_changed_batches(w, counted);
        return false;
      }
      if (counted != nullptr && is_dataset(w.names, counted)) {
        std::vector<const Node*> met;
        try {
          follow_pipeline(w, counted, &met);
        } catch (const Refusal&) {
          return false;  // it is divided only where training receives it
        }
        for (const Node* one : met) found = found || w.shared.contains(one);
        return false;
      }
      if (node.is(Kind::name) && !node.store && depth > 0) {
        for (const Value& value : w.names.values(w.names.place(&node))) {
          if (!value.node->is(Kind::class_def) && !value.node->is_function())
            self(self, value.node, depth - 1);
        }
      }
      return true;
    });
  };
  look(look, expression, 4);
  return found;
}

}  // namespace telar::weave
