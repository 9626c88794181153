// Training steps without a DataLoader: each process computes with its part of the samples, and weighs its
// loss so that the mean over the processes is the mean over all samples.
#include <map>

#include "telar/weave/torch/drawn_batches.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

/// The function that takes the part of a process. Parts may differ by one sample. It refuses a tensor with
/// another number of rows, which may not be samples.
std::string own_part(TorchWeaving& w, const Node* at) {
  std::string name = w.names.fresh("own_part");
  const std::string size = w.dialect.size(at);
  w.dialect.function(
      {"def " + name + "(tensor, samples, dim=0):",
       "    if tensor.size(dim) != samples or samples < " + size + ":",
       "        raise ValueError(f\"{tensor.size(dim)} of {samples} samples cannot be divided among {" +
           size + "} processes\")",
       "    return tensor.tensor_split(" + size + ", dim)[" + w.dialect.rank(at) + "].contiguous()"},
      at);
  return name;
}

/// The same for a batch, which may have fewer samples than there are processes: those without one compute
/// with the first, but with a weight of zero.
std::string own_rows(TorchWeaving& w, const Node* at) {
  std::string name = w.names.fresh("own_rows");
  const std::string size = w.dialect.size(at);
  w.dialect.function(
      {"def " + name + "(batch, samples, dim=0):", "    if batch.size(dim) != samples:",
       "        raise ValueError(f\"{batch.size(dim)} rows are not those of {samples} samples\")",
       "    own = batch.tensor_split(" + size + ", dim)[" + w.dialect.rank(at) + "]",
       "    return (own if own.size(dim) > 0 else batch.narrow(dim, 0, 1)).contiguous()"},
      at);
  return name;
}

std::string own_weight(TorchWeaving& w, const Node* at) {
  std::string name = w.names.fresh("own_weight");
  const std::string size = w.dialect.size(at);
  w.dialect.function(
      {"def " + name + "(samples):",
       "    own = samples // " + size + " + (samples % " + size + " > " + w.dialect.rank(at) + ")",
       "    return own * " + size + " / samples"},
      at);
  return name;
}

/// The function that joins the parts of a value of the step.
std::string all_rows(TorchWeaving& w, const Node* at) {
  std::string name = w.names.fresh("all_rows");
  const std::string torch = w.dialect.module_name("torch", at);
  const std::string& module = w.dialect.module();
  std::vector<std::string> text = {"def " + name + "(own, samples, dim=0):"};
  if (w.dialect.is_horovod()) {
    text.push_back("    parts = " + module + ".allgather_object(own.detach().cpu())");
  } else {
    text.insert(text.end(), {"    parts = [None] * " + w.dialect.size(at),
                             "    " + module + ".all_gather_object(parts, own.detach().cpu())"});
  }
  text.push_back("    return " + torch + ".cat(parts, dim).narrow(dim, 0, samples).to(own.device)");
  w.dialect.function(text, at);
  return name;
}

class Shares {
 public:
  explicit Shares(TorchWeaving& weaving) : w_(weaving) {}

  void write(const TorchShare& share) {
    for (const Node* draw : share.draws) agree(draw);
    const SharedTensor& first = share.tensors.front();
    const std::string samples = first.text + ".size(" + std::to_string(first.dimension) + ")";
    for (const SharedTensor& tensor : share.tensors) take(share, tensor, samples);
    const std::string own =
        names_.at({first.text, first.place()}) + ".size(" + std::to_string(first.dimension) + ")";
    for (const Node* size : share.sizes) {
      w_.edits.replace(*size, own);
      w_.edits.explain(size->line, own, "the hidden state is that of this process's columns");
    }
    const std::string weight = share.has_batches()
                                   ? own_weight(w_, share.loss) + "(" + samples + ")"
                                   : "(" + own + " * " + w_.dialect.size(share.loss) + " / " + samples + ")";
    const std::string& loss = share.loss_name;
    const char* const why =
        "the processes may have different numbers of samples; so the mean over them is that of all samples";
    if (loss.empty()) {
      const Node* value = share.backward->child("func")->child("value");
      w_.edits.insert(value->begin, "(");
      w_.edits.insert(value->end, " * " + weight + ")");
      w_.edits.explain(value->line, w_.text(*value) + " * " + weight, why);
    } else {
      add_after(share.loss, loss + " = " + loss + " * " + weight, why);
    }
    for (const ReadValue& value : share.read) join(share, value, samples, weight);
    if (!share.is_loss_read) return;
    const Node* backward = statement_of(share.backward);
    add_after(backward, loss + " = " + mean_over_ranks(w_, backward, loss),
              "the script's loss is that of all samples");
  }

 private:
  void add_after(const Node* statement, const std::string& line, const std::string& why) {
    w_.edits.after(*statement, {line});
    w_.edits.explain(statement->line, line, why);
  }

  /// Lets all processes have the first one's random numbers.
  void agree(const Node* draw) {
    if (!w_.agreed.insert(draw).second) return;
    if (is_in_worker(w_.names, draw))
      w_.refuse(
          draw,
          "a worker of a loader draws here, too, and does not know the other processes; use a separate function for each");
    const std::string of_first = of_first_rank(w_, draw);
    const char* const why = "all processes must take the same batch, of which each computes with its part";
    if (DrawnBatches::shuffles(w_.names, draw)) {
      const Node* shuffled = draw->list("args")[0];
      if ((!shuffled->is(Kind::name) && !shuffled->is(Kind::attribute)) || !draw->parent->is(Kind::expr))
        w_.refuse(draw, "shuffle a variable, in a statement of its own");
      const std::string text = w_.text(*shuffled);
      return add_after(draw->parent, text + "[:] = " + of_first + "(" + text + ")", why);
    }
    if (draw->inside_fstring) w_.refuse(draw, "draw outside the f-string");
    w_.edits.insert(draw->begin, of_first + "(");
    w_.edits.insert(draw->end, ")");
    w_.edits.explain(draw->line, of_first + "(…)", why);
  }

  /// Takes the process's part of a tensor, unless another step has done so.
  void take(const TorchShare& share, const SharedTensor& tensor, const std::string& samples) {
    const auto [known, is_new] = names_.try_emplace({tensor.text, tensor.place()});
    if (is_new) {
      known->second = w_.names.fresh("own_" + tensor.name);
      const bool is_batch = share.has_batches();
      const Node* at = tensor.place() == nullptr ? share.before : tensor.place();
      const std::string line =
          known->second + " = " + (is_batch ? own_rows(w_, at) : own_part(w_, at)) + "(" + tensor.text +
          ", " + samples + (tensor.dimension == 0 ? ")" : ", dim=" + std::to_string(tensor.dimension) + ")");
      const char* const why =
          is_batch
              ? "each process computes with its part of the script's batch, so the learning rate stays"
              : "each process computes with its part of the samples of each step, so the learning rate stays";
      if (tensor.assigned == nullptr) {
        w_.edits.before(*at, {line});
      } else if (at == share.loop) {
        w_.edits.before(*at->list("body")[0], {line});
      } else {
        w_.edits.after(*at, {line});
      }
      w_.edits.explain(at->line, line, why);
    }
    for (const Node* mention : tensor.mentions) {
      if (replaced_.insert(mention).second) w_.edits.replace(*mention, known->second);
    }
  }

  /// Gives what else reads a value of the step that of all samples.
  void join(const TorchShare& share, const ReadValue& value, const std::string& samples,
            const std::string& weight) {
    const std::string whole = value.is_renamed ? w_.names.fresh("all_" + value.name) : value.name;
    const Node* after = value.is_renamed ? value.assigned : statement_of(share.backward);
    const bool is_new = joined_.emplace(whole, value.assigned).second;
    const bool is_weighed = value.assigned == share.loss && value.name == share.loss_name;
    const std::string mean =
        mean_over_ranks(w_, value.assigned, value.name + (is_weighed ? "" : " * " + weight));
    const std::string rows = all_rows(w_, value.assigned) + "(" + value.name + ", " + samples +
                             (value.dimension > 0 ? ", dim=" + std::to_string(value.dimension) + ")" : ")");
    if (is_new)
      add_after(after, whole + " = " + (value.dimension < 0 ? mean : rows),
                "the script reads this value of all samples");
    for (const Node* mention : value.mentions) {
      if (value.is_renamed && replaced_.insert(mention).second) w_.edits.replace(*mention, whole);
    }
  }

  TorchWeaving& w_;
  std::map<std::pair<std::string, const Node*>, std::string> names_;  // of the parts, by text and assignment
  std::set<std::pair<std::string, const Node*>> joined_;
  std::set<const Node*> replaced_;
};

}  // namespace

void check_shares(const TorchWeaving& weaving) {
  const TorchShare& share = weaving.program.shares.front();
  const Choices& choices = weaving.dialect.choices();
  if (choices.divide_epochs || choices.warmup_epochs > 0)
    weaving.refuse(
        share.backward,
        "its batch does not come from a torch.utils.data.DataLoader, so the processes divide its samples and the learning rate stays; weave without --epochs divide and --warmup");
}

void write_shares(TorchWeaving& weaving) {
  Shares shares(weaving);
  for (const TorchShare& share : weaving.program.shares) shares.write(share);
}

}  // namespace telar::weave
