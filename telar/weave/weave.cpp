#include "telar/weave/weave.h"

#include <algorithm>
#include <array>

#include "telar/core/error.h"
#include "telar/weave/describe.h"
#include "telar/weave/diff.h"
#include "telar/weave/python.h"
#include "telar/weave/torch_writer.h"

namespace telar::weave {

namespace {

/// Modules whose presence says that a script is parallel already.
const Node* parallel_already(const Names& names, std::string& by) {
  static constexpr std::array<std::string_view, 12> modules = {"horovod",
                                                               "torch.distributed",
                                                               "torch.nn.parallel.DistributedDataParallel",
                                                               "accelerate",
                                                               "deepspeed",
                                                               "pytorch_lightning",
                                                               "lightning",
                                                               "ray",
                                                               "fairscale",
                                                               "torch.multiprocessing",
                                                               "torch_xla",
                                                               "colossalai"};
  const auto matches = [&](const std::string& name) {
    for (const std::string_view module : modules) {
      if (name == module || name.starts_with(std::string(module) + ".")) return true;
    }
    return name.starts_with("tensorflow.distribute");
  };
  for (const auto& [module, statement] : names.imports()) {
    if (matches(module)) {
      by = module;
      return statement;
    }
  }
  for (const Node& node : names.tree().nodes()) {
    if (!node.is(Kind::attribute)) continue;
    const std::string name = names.qualified(&node);
    if (matches(name)) {
      by = name;
      return &node;
    }
  }
  return nullptr;
}

Choices choices_of(const Request& request) {
  Choices choices;
  choices.keep_global_batch = request.keep_global_batch;
  if (request.target == "ddp") return choices;
  if (request.target == "horovod") {
    choices.target = Target::horovod;
    return choices;
  }
  throw user_error("there is no target '{}'; the targets are ddp and horovod", request.target);
}

std::string first_line(const std::string& text) {
  const size_t end = text.find_first_of("\r\n");
  return end == std::string::npos ? text : text.substr(0, end) + " …";
}

std::string explained(const std::string& file, Edits& edits) {
  std::vector<Explanation> all = edits.explanations();
  std::stable_sort(all.begin(), all.end(),
                   [](const Explanation& a, const Explanation& b) { return a.line < b.line; });
  std::string text;
  for (const Explanation& one : all)
    text += fmt::format("{}:{}: {}: {}\n", file, one.line, one.what, one.why);
  return text;
}

bool trains_with_keras(const Names& names) {
  bool keras = false;
  for (const auto& [module, statement] : names.imports()) {
    keras = keras || module == "keras" || module.starts_with("keras.") || module == "tensorflow" ||
            module.starts_with("tensorflow.");
  }
  if (!keras) return false;
  for (const Node* call : names.calls()) {
    const Node* function = call->child("func");
    if (!function->is(Kind::attribute)) continue;
    if (function->text == "fit" || function->text == "fit_generator" || function->text == "train_on_batch" ||
        function->text == "apply_gradients" || function->text == "minimize") {
      return true;
    }
  }
  return false;
}

void write(const Names& names, const Request& request, const SourceText& source, Reply& reply) {
  Edits edits(names.tree());
  write_torch(names, read_torch(names), choices_of(request), edits);
  const std::string woven = edits.apply();
  try {
    parse(request.file, woven);
  } catch (const Error& error) {
    throw run_error("weave wrote a program that does not parse, which is a mistake of weave's own: {}",
                    error.what());
  }
  reply.bytes = encode(request.file, {woven, source.encoding, source.mark});
  reply.diff = unified_diff(request.file, request.bytes, reply.bytes);
  if (request.colour) reply.diff = coloured(reply.diff);
  reply.explanation = explained(request.file, edits);
}

}  // namespace

Reply weave(const Request& request) {
  Reply reply;
  choices_of(request);
  const SourceText source = decode(request.file, request.bytes);
  const Tree tree = parse(request.file, source.text);
  const Names names(tree);
  const auto refused = [&](int line, const std::string& construct, const std::string& decision) {
    reply.kind = Reply::Kind::refused;
    reply.message = fmt::format("{}:{}: {}: {}", request.file, line, first_line(construct), decision);
    return reply;
  };
  std::string by;
  if (const Node* parallel = parallel_already(names, by); parallel != nullptr) {
    reply.kind = Reply::Kind::already_parallel;
    reply.bytes = request.bytes;
    reply.message = fmt::format("{}:{}: the script is parallel already ({}): left as it is", request.file,
                                parallel->line, by);
    return reply;
  }
  if (!trains_with_torch(names)) {
    if (trains_with_keras(names)) {
      return refused(1, "a Keras or TensorFlow script", "these are not woven yet; PyTorch scripts are");
    }
    return refused(1, "no training",
                   "this is no training script: it has no optimizer of torch.optim with a backward pass");
  }
  try {
    if (request.describe) {
      reply.kind = Reply::Kind::described;
      reply.json = describe(names, read_torch(names));
      return reply;
    }
    write(names, request, source, reply);
  } catch (const Refusal& refusal) {
    return refused(refusal.line, refusal.construct, refusal.decision);
  }
  return reply;
}

}  // namespace telar::weave
