// Random numbers: alike in all processes where they decide which samples a process gets, different in
// training.
#include <algorithm>
#include <array>

#include "telar/weave/keras/writer.h"
#include "telar/weave/python/set_orders.h"
#include "telar/weave/torch/program.h"
#include "telar/weave/write/own_generators.h"

namespace telar::weave {

namespace {

/// Whether a function of Keras draws the order of files or windows, without a seed of its own.
bool draws_order(const KerasWeaving& w, const Node* call, const std::string& callee) {
  const Node* shuffle = w.names.argument(call, "shuffle", -1);
  const Node* seed = w.names.argument(call, "seed", -1);
  const bool by_default = callee.ends_with("_from_directory");
  const bool shuffles = shuffle == nullptr ? by_default : shuffle->text != "False";
  return shuffles && (seed == nullptr || seed->literal == Literal::null);
}

bool is_loop(const Node* node) { return node->is(Kind::for_) || node->is(Kind::while_); }

/// The outermost loop around a node in its function, or its statement.
const Node* outside_of_loops(const Node* node) {
  const Node* found = statement_of(node);
  for (const Node* around = found->parent; around != nullptr && !around->is_function();
       around = around->parent)
    if (is_loop(around)) found = around;
  return found;
}

constexpr int kMostCallers = 4;  // that are followed, one calling the other

/// Whether a node runs again and again: in a loop, or in a function that is called in one.
bool repeats(const Names& names, const Node* node, int depth = 0) {
  if (is_loop(outside_of_loops(node))) return true;
  const Node* function = function_of(node);
  if (function == nullptr || depth == kMostCallers) return false;
  const auto& calls = names.calls_of(function);
  return std::any_of(calls.begin(), calls.end(),
                     [&](const Node* call) { return repeats(names, call, depth + 1); });
}

/// Before the training as a whole: outside of the loops around a node, also of those that call its function.
void add_beginnings(const Names& names, const Node* node, std::set<const Node*>& places, int depth = 0) {
  const Node* place = outside_of_loops(node);
  const Node* function = function_of(place);
  bool climbs = false;
  if (function != nullptr && depth < kMostCallers)
    for (const Node* call : names.calls_of(function))
      if (repeats(names, call)) {
        add_beginnings(names, call, places, depth + 1);
        climbs = true;
      }
  if (!climbs) places.insert(place);
}

/// Whether a function of the script draws from TensorFlow's generator, as a step or a layer does.
bool draws_in_functions(const KerasWeaving& w) {
  static constexpr std::array<std::string_view, 7> kDraws = {
      "tensorflow.random.normal",      "tensorflow.random.uniform",   "tensorflow.random.truncated_normal",
      "tensorflow.random.categorical", "keras.backend.random_normal", "keras.backend.random_uniform",
      "tensorflow.random.gamma"};
  return std::any_of(w.names.calls().begin(), w.names.calls().end(), [&](const Node* call) {
    return function_of(call) != nullptr &&
           std::find(kDraws.begin(), kDraws.end(), w.names.callee(call)) != kDraws.end();
  });
}

/// Before which statements the training begins.
std::set<const Node*> beginnings(const KerasWeaving& w) {
  std::set<const Node*> places;
  for (const KerasCall& fit : w.program.fits) add_beginnings(w.names, fit.call, places);
  for (const KerasLoop& loop : w.program.loops)
    if (loop.trains && w.program.fits.empty()) add_beginnings(w.names, loop.loop, places);
  return places;
}

/// Whether a call belongs to a training loop of the script's own, or to a function that one calls.
bool is_in_step(const KerasWeaving& w, const Node* call) {
  return std::any_of(w.program.loops.begin(), w.program.loops.end(), [&](const KerasLoop& loop) {
    if (!loop.trains) return false;
    const auto is_it = [&](const Node* one) { return one == call; };
    const auto& body = loop.loop->list("body");
    return std::any_of(body.begin(), body.end(),
                       [&](const Node* statement) { return reaches(w.names, statement, is_it); });
  });
}

/// Whether a call is in a function that yields samples or batches.
bool is_in_generator(const Node* call) {
  const Node* function = function_of(call);
  bool yields = false;
  if (function != nullptr)
    walk(*function, [&](const Node& node) {
      yields = yields || node.is(Kind::yield);
      return !yields;
    });
  return yields;
}

/// A constant seed, to which the number of the process is added.
std::string seed_of(const KerasWeaving& w, const Node* seeded) {
  const Node* seed = seeded == nullptr ? nullptr : w.names.argument(seeded, "seed", 0);
  return seed != nullptr && seed->is(Kind::constant) ? w.text(*seed) + " + " : std::string();
}

/// The calls that draw before training, or for the data.
std::vector<const Node*> before_training(const KerasWeaving& w, std::vector<const Node*> draws) {
  std::erase_if(draws, [&](const Node* call) { return is_in_step(w, call); });
  return draws;
}

/// The same for a generator of Python, from which the steps of a loop draw, if it has been seeded by `seeds`.
/// `seed`: what follows the module.
void part_generator(KerasWeaving& w, const std::string& module, const std::string& seed,
                    const std::vector<const Node*>& draws, const std::vector<const Node*>& seeds) {
  const auto drawn =
      std::find_if(draws.begin(), draws.end(), [&](const Node* call) { return is_in_step(w, call); });
  if (!w.dialect.is_horovod() || drawn == draws.end() || seeds.empty()) return;
  if (w.streams_alike ||
      std::any_of(draws.begin(), draws.end(), [](const Node* call) { return is_in_generator(call); }))
    w.refuse(
        *drawn,
        "the data come from a generator of Python, which must draw alike in all processes, but what a step draws must differ; draw it with tf.random");
  for (const Node* place : beginnings(w)) {
    const std::string text = w.dialect.module_name(module, place) + seed + "(" +
                             seed_of(w, seeds.empty() ? nullptr : seeds[0]) + w.dialect.rank(place) + ")";
    w.edits.before(*place, {text});
    w.edits.explain(place->line, text, "what is drawn in training must differ between the processes");
  }
}

/// With a seed, all processes would draw the same noise in each step. `seeded`: the call that seeds
/// TensorFlow's generator, or null.
void part_seeds(KerasWeaving& w, const Node* seeded) {
  if (!w.dialect.is_horovod() || w.streams_alike || !draws_in_functions(w)) return;
  if (seeded == nullptr && !w.draws_alike) return;
  for (const Node* place : beginnings(w)) {
    const std::string text =
        w.tensorflow(place) + ".random.set_seed(" + seed_of(w, seeded) + w.dialect.rank(place) + ")";
    w.edits.before(*place, {text});
    w.edits.explain(place->line, text, "what is drawn in training must differ between the processes");
  }
}

}  // namespace

void write_keras_seeds(KerasWeaving& w) {
  const Node* tensorflow_seed = nullptr;
  std::vector<const Node*> numpy_seeds;
  std::vector<const Node*> python_seeds;
  std::vector<const Node*> drawn_numpy;
  std::vector<const Node*> drawn_python;
  for (const Node* call : w.names.calls()) {
    const std::string& callee = w.names.callee(call);
    const bool all = callee == "keras.utils.set_random_seed";
    if (all || callee == "tensorflow.random.set_seed" || callee.ends_with(".set_random_seed"))
      tensorflow_seed = call;
    if (all || callee == "numpy.random.seed") numpy_seeds.push_back(call);
    if (all || callee == "random.seed") python_seeds.push_back(call);
    if (callee.starts_with("numpy.random.") && callee != "numpy.random.seed" &&
        callee != "numpy.random.default_rng" && callee != "numpy.random.RandomState")
      drawn_numpy.push_back(call);
    if (callee == "sklearn.model_selection.train_test_split" &&
        w.names.keyword(call, "random_state") == nullptr)
      drawn_numpy.push_back(call);
    if (batch_argument(callee) != nullptr && draws_order(w, call, callee)) drawn_numpy.push_back(call);
    if (callee.starts_with("random.") && callee != "random.seed" && callee != "random.Random")
      drawn_python.push_back(call);
  }
  const auto agree = [&](const std::string& line, int at) {
    w.dialect.at_start({line});
    w.edits.explain(at, line,
                    "random numbers that decide which samples a process gets must agree in all processes");
  };
  const Node* script = w.dialect.script();
  if (w.draws_alike && tensorflow_seed == nullptr) agree(w.tensorflow(script) + ".random.set_seed(0)", 0);
  const std::vector<const Node*> early_numpy = before_training(w, drawn_numpy);
  const std::vector<const Node*> early_python = before_training(w, drawn_python);
  if (!w.dialect.are_seeded(early_numpy, numpy_seeds)) {
    agree(w.dialect.module_name("numpy", script) + ".random.seed(0)", early_numpy.back()->line);
    numpy_seeds.push_back(early_numpy.back());
  }
  if (!w.dialect.are_seeded(early_python, python_seeds)) {
    agree(w.dialect.module_name("random", script) + ".seed(0)", early_python.back()->line);
    python_seeds.push_back(early_python.back());
  }
  seed_own_generators(w.names, w.edits, [&](const Node* call) { return is_in_step(w, call); });
  part_seeds(w, tensorflow_seed);
  part_generator(w, "numpy", ".random.seed", drawn_numpy, numpy_seeds);
  part_generator(w, "random", ".seed", drawn_python, python_seeds);
}

void write_keras_sets(KerasWeaving& w) {
  for (const SetOrder& one : read_set_orders(w.names)) {
    if (one.set->inside_fstring) continue;
    w.edits.insert(one.set->begin, "sorted(");
    w.edits.insert(one.set->end, ")");
    w.edits.explain(one.set->line, "sorted(" + w.text(*one.set) + ")",
                    "the order of a set differs between processes");
  }
}

}  // namespace telar::weave
