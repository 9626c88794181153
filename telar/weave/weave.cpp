#include "telar/weave/weave.h"

#include <algorithm>
#include <array>

#include "telar/core/error.h"
#include "telar/weave/describe.h"
#include "telar/weave/diff.h"
#include "telar/weave/keras_writer.h"
#include "telar/weave/program.h"
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

enum class Framework { pytorch, keras };

/// The person's choices; without a target Horovod for Keras, DDP for PyTorch.
Choices choices_of(const Request& request, Framework framework) {
  Choices choices;
  choices.keep_global_batch = request.keep_global_batch;
  choices.divide_epochs = request.divide_epochs;
  choices.warmup_epochs = request.warmup_epochs;
  const bool keras = framework == Framework::keras;
  if (request.target.empty()) {
    choices.target = keras ? Target::horovod : Target::ddp;
  } else if (request.target == "ddp") {
    choices.target = Target::ddp;
  } else if (request.target == "horovod") {
    choices.target = Target::horovod;
  } else if (request.target == "tf-distribute") {
    choices.target = Target::tf_distribute;
  } else {
    throw user_error("there is no target '{}'; the targets are ddp, horovod and tf-distribute",
                     request.target);
  }
  if (keras && choices.target == Target::ddp)
    throw user_error("{} trains with Keras, and ddp is for PyTorch; give --target horovod or tf-distribute",
                     request.file);
  if (!keras && choices.target == Target::tf_distribute)
    throw user_error("{} trains with PyTorch, and tf-distribute is for Keras; give --target ddp or horovod",
                     request.file);
  if (choices.divide_epochs && (choices.keep_global_batch || choices.target != Target::horovod || !keras))
    throw user_error(
        "--epochs divide is for Keras scripts with --target horovod and --global-batch grow: there each "
        "process sees all samples");
  if (choices.warmup_epochs > 0 && (choices.keep_global_batch || choices.target != Target::horovod || !keras))
    throw user_error("--warmup is for Keras scripts with --target horovod and --global-batch grow");
  return choices;
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

void write(const Names& names, Framework framework, const Request& request, const SourceText& source,
           Reply& reply) {
  Edits edits(names.tree());
  const Choices choices = choices_of(request, framework);
  reply.target = choices.target == Target::ddp       ? "ddp"
                 : choices.target == Target::horovod ? "horovod"
                                                     : "tf-distribute";
  if (framework == Framework::pytorch) {
    write_torch(names, read_torch(names), choices, edits);
  } else {
    write_keras(names, read_keras(names), choices, edits);
  }
  const std::string woven = edits.apply();
  try {
    check_syntax(request.file, woven);
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
  const bool torch = trains_with_torch(names);
  if (!torch && !trains_with_keras(names)) {
    return refused(1, "no training",
                   "this is no training script: it has neither an optimizer of torch.optim with a backward "
                   "pass nor a Keras "
                   "model that is compiled and fitted, nor gradients of a tf.GradientTape that are applied");
  }
  const Framework framework = torch ? Framework::pytorch : Framework::keras;
  try {
    if (request.describe) {
      reply.kind = Reply::Kind::described;
      reply.json = describe(
          names, torch ? program_of(names, read_torch(names)) : program_of(names, read_keras(names)));
      return reply;
    }
    write(names, framework, request, source, reply);
  } catch (const Refusal& refusal) {
    return refused(refusal.line, refusal.construct, refusal.decision);
  }
  return reply;
}

}  // namespace telar::weave
