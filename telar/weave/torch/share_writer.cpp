// A training step without a DataLoader: each process computes with its part of the samples, and weighs its
// loss so that the mean over the processes is the mean over all samples.
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

}  // namespace

void check_share(const TorchWeaving& weaving) {
  const TorchShare& share = *weaving.program.share;
  const Choices& choices = weaving.dialect.choices();
  if (choices.divide_epochs || choices.warmup_epochs > 0)
    weaving.refuse(
        share.backward,
        "its batch does not come from a torch.utils.data.DataLoader, so the processes divide its samples and the learning rate stays; weave without --epochs divide and --warmup");
}

void write_share(TorchWeaving& w) {
  const TorchShare& share = *w.program.share;
  const SharedTensor& first = share.tensors.front();
  const std::string dim = std::to_string(first.dimension);
  const std::string samples = first.text + ".size(" + dim + ")";
  const std::string own = w.names.fresh("own_" + first.name);
  const std::string take = own_part(w, share.before);
  std::vector<std::string> lines;
  for (const SharedTensor& tensor : share.tensors) {
    const std::string name = w.names.fresh("own_" + tensor.name);
    lines.push_back(name + " = " + take + "(" + tensor.text + ", " + samples +
                    (tensor.dimension == 0 ? ")" : ", dim=" + std::to_string(tensor.dimension) + ")"));
    w.edits.explain(
        share.before->line, lines.back(),
        "each process computes with its part of the samples of each step, so the learning rate stays");
    for (const Node* mention : tensor.mentions) w.edits.replace(*mention, name);
  }
  w.edits.before(*share.before, lines);
  for (const Node* size : share.sizes) {
    w.edits.replace(*size, own + ".size(" + dim + ")");
    w.edits.explain(size->line, own + ".size(" + dim + ")",
                    "the hidden state is that of this process's columns");
  }
  const std::string& loss = share.loss_name;
  const std::string weight = loss + " = " + loss + " * (" + own + ".size(" + dim + ") * " +
                             w.dialect.size(share.loss) + " / " + samples + ")";
  w.edits.after(*share.loss, {weight});
  w.edits.explain(
      share.loss->line, weight,
      "the processes may have different numbers of samples; so the mean over them is that of all samples");
  if (!share.is_loss_read) return;
  const Node* backward = statement_of(share.backward);
  const std::string mean = loss + " = " + mean_over_ranks(w, backward, loss);
  w.edits.after(*backward, {mean});
  w.edits.explain(backward->line, mean, "the script's loss is that of all samples");
}

}  // namespace telar::weave
