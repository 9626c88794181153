// Divides the training samples: each process draws its share through a DistributedSampler.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

constexpr const char* kWhyDivided = "each process takes its share of the samples";

bool is_true(const Node* node) {
  return node != nullptr && node->literal == Literal::boolean && node->text == "True";
}
bool is_false(const Node* node) {
  return node == nullptr || (node->literal == Literal::boolean && node->text == "False");
}

/// Whether an expression can be written twice without computing anything again.
bool is_plain(const Node* node) {
  if (node->is(Kind::name)) return true;
  if (node->is(Kind::attribute)) return is_plain(node->child("value"));
  if (node->is(Kind::subscript)) {
    const Node* key = node->child("slice");
    return is_plain(node->child("value")) && (key->is(Kind::constant) || key->is(Kind::name));
  }
  return false;
}

class Loaders {
 public:
  explicit Loaders(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const TorchLoader& loader : w_.program.loaders) {
      if (loader.trains && !w_.dialect.choices().divide_epochs) write(loader.call);
    }
  }

 private:
  /// The dataset as an expression that can be written twice; a call is assigned to a variable first.
  std::string dataset_of(const Node* call) {
    const Node* dataset = w_.names.argument(call, "dataset", 0);
    if (dataset == nullptr) w_.refuse(call, "pass the dataset as its first argument");
    if (is_plain(dataset)) return w_.text(*dataset);
    const Node* statement = statement_of(call);
    if (!is_inside(dataset, call) ||
        (!statement->is(Kind::assign) && !statement->is(Kind::return_) && !statement->is(Kind::expr))) {
      w_.refuse(call, "assign its dataset to a variable first");
    }
    for (const Node* around = call->parent; around != statement; around = around->parent) {
      if (around->is(Kind::lambda) || around->is(Kind::list_comp) || around->is(Kind::dict_comp)) {
        w_.refuse(call, "assign its dataset to a variable first");
      }
    }
    std::string name = w_.names.fresh("train_dataset");
    w_.edits.before(*statement, {name + " = " + w_.text(*dataset)});
    w_.edits.replace(*dataset, name);
    return name;
  }

  /// For an IterableDataset, each process takes every n-th sample.
  bool write_stream(const Node* call) {
    const Node* dataset = w_.names.argument(call, "dataset", 0);
    const Node* own = nullptr;
    bool other = false;
    for (const Node* origin : dataset == nullptr ? std::vector<const Node*>() : w_.names.origins(dataset)) {
      const Node* made = origin->is(Kind::call) ? w_.names.definition(origin->child("func")) : nullptr;
      const bool iterable = made != nullptr && made->is(Kind::class_def) &&
                            w_.names.derives(made, {"torch.utils.data.IterableDataset"});
      if (iterable) own = made;
      other = other || !iterable;
    }
    if (own == nullptr) return false;
    if (other)
      w_.refuse(call, "it sometimes reads a dataset and sometimes a stream; use a separate loader for each");
    if (!is_inside(dataset, call)) w_.refuse(call, "pass the dataset directly");
    check_order(own);
    const std::string name = w_.names.fresh("EveryNth");
    const std::string torch = w_.dialect.module_name("torch", call);
    std::vector<std::string> text = {
        "class " + name + "(" + torch + ".utils.data.IterableDataset):",
        "    # The same number of samples for each process; the remainder is left out.",
        "",
        "    def __init__(self, whole):",
        "        self.whole, self.rank, self.size = whole, " + w_.dialect.rank(call) + ", " +
            w_.dialect.size(call),
        "",
        "    def __iter__(self):",
        "        for samples in zip(*[iter(self.whole)] * self.size):",
        "            yield samples[self.rank]"};
    if (w_.names.method(own, "__len__") != nullptr)
      text.insert(text.end(), {"", "    def __len__(self):", "        return len(self.whole) // self.size"});
    w_.dialect.function(text, call);
    w_.edits.insert(dataset->begin, name + "(");
    w_.edits.insert(dataset->end, ")");
    w_.edits.explain(call->line, name + "(…)", kWhyDivided);
    return true;
  }

  /// All processes must read the stream in the same order.
  void check_order(const Node* own) const {
    for (const Node* call : w_.names.calls()) {
      if (!is_inside(call, own)) continue;
      const std::string& callee = w_.names.callee(call);
      const bool draws = callee.starts_with("random.") || callee.starts_with("numpy.random.") ||
                         callee.starts_with("torch.rand") || callee.starts_with("torch.normal");
      const bool seeded = (callee == "random.Random" || callee == "numpy.random.RandomState" ||
                           callee == "numpy.random.default_rng") &&
                          !call->list("args").empty();
      if (draws && !seeded && w_.names.keyword(call, "generator") == nullptr)
        w_.refuse(
            call,
            "each process would read the stream in a different order; draw from a separate generator with a seed, as in random.Random(0)");
    }
  }

  std::string sampler(const Node* call, const std::string& of, const std::string& options) {
    const bool horovod = w_.dialect.is_horovod();
    w_.dialect.import("from torch.utils.data.distributed import DistributedSampler", call);
    w_.dialect.use(call);
    const std::string group =
        horovod ? ", num_replicas=" + w_.dialect.size(call) + ", rank=" + w_.dialect.rank(call)
                : std::string();
    return "DistributedSampler(" + of + group + options + (options.empty() ? own_seed(call) : "") + ")";
  }

  /// Samplers with the same seed would pair the samples of two loaders in the same way in every epoch. A
  /// loader that is created for each loop has another order each time.
  std::string own_seed(const Node* call) const {
    for (const TorchLoop& loop : w_.program.loops) {
      if (loop.trains && loop.loader.expression->is(Kind::call)) {
        for (const size_t loader : loop.loader.loaders) {
          if (w_.program.loaders[loader].call == call) return ", seed=" + next_order(w_, call);
        }
      }
      for (size_t i = 0; i < loop.others.size(); ++i) {
        for (const size_t loader : loop.others[i].loaders) {
          const Node* given = w_.names.argument(w_.program.loaders[loader].call, "sampler", 3);
          const auto origins = given == nullptr ? std::vector<const Node*>() : w_.names.origins(given);
          const bool of_sampler = std::find(origins.begin(), origins.end(), call) != origins.end();
          if (w_.program.loaders[loader].call == call || of_sampler) return fmt::format(", seed={}", i + 1);
        }
      }
    }
    return {};
  }

  void write(const Node* call) {
    if (w_.names.argument(call, "batch_sampler", -1) != nullptr) {
      w_.refuse(call, "weave does not know how to divide a batch_sampler; use batch_size and sampler");
    }
    write_batch(call);
    if (write_stream(call)) return;
    const Node* given = w_.names.argument(call, "sampler", 3);
    if (given != nullptr && given->literal != Literal::null) return write_sampler(call, given);
    const Node* shuffle = w_.names.argument(call, "shuffle", 2);
    const Node* keyword = w_.names.keyword(call, "shuffle");
    const Node* spread = nullptr;
    for (const Node* one : call->list("keywords")) {
      if (one->text.empty()) spread = one->child("value");
    }
    const bool own = shuffle != nullptr && is_inside(shuffle, call);
    const std::string dataset = dataset_of(call);
    if (spread != nullptr && !own) {
      if (!spread->is(Kind::name)) w_.refuse(call, "assign these keyword arguments to a variable");
      const std::string table = w_.text(*spread);
      w_.edits.replace(*spread, "{**" + table + ", \"shuffle\": False}");
      w_.edits.add_argument(
          *call, "sampler=" + sampler(call, dataset, ", shuffle=" + table + ".get(\"shuffle\", False)"));
    } else {
      const std::string options = is_true(shuffle)    ? ""
                                  : is_false(shuffle) ? ", shuffle=False"
                                                      : ", shuffle=" + w_.text(*shuffle);
      const std::string text = "sampler=" + sampler(call, dataset, options);
      if (own && keyword != nullptr && is_inside(keyword, call)) {
        w_.edits.replace(*keyword, text);
      } else {
        if (own) w_.edits.replace(*shuffle, "False");
        if (!own && shuffle != nullptr) w_.refuse(call, "pass `shuffle` directly");
        w_.edits.add_argument(*call, text);
      }
    }
    w_.edits.explain(call->line, "DistributedSampler", kWhyDivided);
  }

  void write_sampler(const Node* call, const Node* given) {
    const auto origins = w_.names.origins(given);
    const Node* made = origins.size() == 1 && origins[0]->is(Kind::call) ? origins[0] : nullptr;
    const std::string callee = made == nullptr ? "" : w_.names.callee(made);
    if (callee == "torch.utils.data.RandomSampler" || callee == "torch.utils.data.SequentialSampler") {
      if (made->list("args").size() + made->list("keywords").size() != 1) {
        w_.refuse(made,
                  "drawing with replacement or a given number of samples cannot be divided automatically");
      }
      const std::string options = callee.ends_with("RandomSampler") ? "" : ", shuffle=False";
      w_.edits.replace(*made, sampler(made, w_.text(*w_.names.argument(made, "data_source", 0)), options));
    } else if (callee == "torch.utils.data.SubsetRandomSampler") {
      const Node* indices = w_.names.argument(made, "indices", 0);
      if (!is_plain(indices)) w_.refuse(made, "assign the indices to a variable first");
      if (function_of(made) != function_of(call) || module_of(made) != module_of(call))
        w_.refuse(made, "create the sampler where its loader is created");
      const Node* dataset = w_.names.argument(call, "dataset", 0);
      w_.dialect.import("from torch.utils.data import Subset", call);
      w_.edits.replace(*dataset, "Subset(" + w_.text(*dataset) + ", " + w_.text(*indices) + ")");
      w_.edits.replace(*made, sampler(made, w_.text(*indices), ""));
    } else if (callee == "torch.utils.data.WeightedRandomSampler") {
      const Node* count = w_.names.argument(made, "num_samples", 1);
      if (count == nullptr) w_.refuse(made, "pass the number of samples that it draws");
      if (w_.names.argument(made, "generator", 3) != nullptr) {
        w_.refuse(made, "remove its generator: each process needs its own");
      }
      w_.edits.replace(*count, divided(w_.names.tree(), *count, w_.dialect.size(made)));
      const std::string torch = w_.dialect.module_name("torch", made);
      w_.edits.add_argument(*made,
                            "generator=" + torch + ".Generator().manual_seed(" + w_.dialect.rank(made) + ")");
    } else {
      w_.refuse(
          call,
          "weave does not know how to divide this sampler; it knows RandomSampler, SequentialSampler, SubsetRandomSampler and WeightedRandomSampler");
    }
    w_.edits.explain(made->line, callee.substr(callee.rfind('.') + 1) + " is divided among the processes",
                     kWhyDivided);
  }

  void write_batch(const Node* call) {
    if (!w_.dialect.choices().keep_global_batch) return;
    const Node* batch = w_.names.argument(call, "batch_size", 1);
    if (batch == nullptr || !is_inside(batch, call)) {
      w_.refuse(call, "pass batch_size directly, so that it can be divided among the processes");
    }
    w_.edits.replace(*batch, divided(w_.names.tree(), *batch, w_.dialect.size(call)));
    w_.edits.explain(call->line, "the batch is divided among the processes",
                     "together they take the script's batch");
  }

  TorchWeaving& w_;
};

}  // namespace

void write_loaders(TorchWeaving& weaving) { Loaders(weaving).write(); }

}  // namespace telar::weave
