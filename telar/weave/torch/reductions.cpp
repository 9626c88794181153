// The functions that a woven script calls to join what its processes have computed.
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

std::string tensorflow_sum(TorchWeaving& w, const Node* at, const std::string& name) {
  const std::string tf = w.tensorflow(at);
  const std::string& hvd = w.dialect.module();
  w.dialect.function({"def " + name + "(value):",
                      "    total = " + tf + ".convert_to_tensor(value, " + tf +
                          ".float64 if isinstance(value, float) else None)",
                      "    total = " + hvd + ".allreduce(total, op=" + hvd + ".Sum)",
                      "    return total if " + tf + ".is_tensor(value) else total.numpy().item()"},
                     at);
  return name;
}

}  // namespace

std::string sum_over_ranks(TorchWeaving& w, const Node* at) {
  std::string name = w.names.fresh("sum_over_ranks");
  if (w.tensorflow) return tensorflow_sum(w, at, name);
  const std::string torch = w.dialect.module_name("torch", at);
  const std::string& module = w.dialect.module();
  std::vector<std::string> text = {
      "def " + name + "(value):",
      "    total = value.detach().clone() if " + torch + ".is_tensor(value) else " + torch + ".tensor(",
      "        value, dtype=" + torch + ".float64 if isinstance(value, float) else None)",
  };
  if (w.dialect.is_horovod()) {
    text.push_back("    total = " + module + ".allreduce(total, op=" + module + ".Sum)");
  } else {
    if (w.gpu) text.push_back("    total = total.cuda() if " + torch + ".cuda.is_available() else total");
    text.push_back("    " + module + ".all_reduce(total)");
  }
  text.push_back("    return total.to(value) if " + torch + ".is_tensor(value) else total.item()");
  w.dialect.function(text, at);
  return name;
}

std::string mean_over_ranks(TorchWeaving& w, const Node* at, const std::string& value) {
  return sum_over_ranks(w, at) + "(" + value + ") / " + w.dialect.size(at);
}

std::string average_gradients(TorchWeaving& w, const Node* at) {
  std::string name = w.names.fresh("average_gradients");
  const std::string& module = w.dialect.module();
  w.dialect.use(at);
  if (w.dialect.is_horovod()) {
    w.dialect.function(
        {"def " + name + "(optimizer):",
         "    parameters = [one for group in optimizer.param_groups for one in group[\"params\"]]",
         "    gradients = [one.grad for one in parameters if one.grad is not None]",
         "    " + module + ".grouped_allreduce_(gradients)"},
        at);
  } else {
    w.dialect.function(
        {"def " + name + "(optimizer):", "    for group in optimizer.param_groups:",
         "        for parameter in group[\"params\"]:", "            if parameter.grad is not None:",
         "                " + module + ".all_reduce(parameter.grad)",
         "                parameter.grad /= " + module + ".get_world_size()"},
        at);
  }
  return name;
}

std::string of_first_rank(TorchWeaving& w, const Node* at) {
  std::string name = w.names.fresh("of_first_rank");
  const std::string torch = w.dialect.module_name("torch", at);
  const std::string& module = w.dialect.module();
  const std::string moved = ".to(value) if " + torch + ".is_tensor(value) else ";
  w.dialect.use(at);
  if (w.dialect.is_horovod()) {
    w.dialect.function({"def " + name + "(value):", "    first = " + module + ".broadcast_object(value)",
                        "    return first" + moved + "first"},
                       at);
  } else {
    w.dialect.function(
        {"def " + name + "(value):", "    first = [value]", "    " + module + ".broadcast_object_list(first)",
         "    return first[0]" + moved + "first[0]"},
        at);
  }
  return name;
}

std::string gather_over_ranks(TorchWeaving& w, const Node* at) {
  std::string name = w.names.fresh("gather_over_ranks");
  const std::string& module = w.dialect.module();
  if (w.dialect.is_horovod()) {
    w.dialect.function(
        {"def " + name + "(values):",
         "    return [value for part in " + module + ".allgather_object(list(values)) for value in part]"},
        at);
  } else {
    w.dialect.function({"def " + name + "(values):", "    parts = [None] * " + module + ".get_world_size()",
                        "    " + module + ".all_gather_object(parts, list(values))",
                        "    return [value for part in parts for value in part]"},
                       at);
  }
  return name;
}

}  // namespace telar::weave
