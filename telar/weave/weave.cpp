#include "telar/weave/weave.h"

#include <algorithm>
#include <array>

#include "telar/core/error.h"
#include "telar/weave/describe.h"
#include "telar/weave/keras/writer.h"
#include "telar/weave/memory.h"
#include "telar/weave/program.h"
#include "telar/weave/project.h"
#include "telar/weave/python/parser.h"
#include "telar/weave/python/placement.h"
#include "telar/weave/torch/writer.h"
#include "telar/weave/write/diff.h"

namespace telar::weave {

namespace {

/// Imports and names which show that a script is already parallel.
const Node* parallel_already(const Names& names, std::string& by) {
  // torch.multiprocessing alone is not parallel training: scripts choose how loaders start workers with it.
  static constexpr std::array<std::string_view, 17> modules = {"horovod",
                                                               "torch.distributed",
                                                               "torch.nn.parallel.DistributedDataParallel",
                                                               "accelerate",
                                                               "deepspeed",
                                                               "pytorch_lightning",
                                                               "lightning",
                                                               "ray",
                                                               "fairscale",
                                                               "torch.multiprocessing.spawn",
                                                               "torch.multiprocessing.start_processes",
                                                               "torch.multiprocessing.Process",
                                                               "torch.multiprocessing.Pool",
                                                               "torch.multiprocessing.get_context",
                                                               "torch_xla",
                                                               "colossalai",
                                                               "telar"};
  const auto matches = [&](const std::string& name) {
    for (const std::string_view module : modules) {
      if (name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.'))
        return true;
    }
    return name.starts_with("tensorflow.distribute") ||
           name.starts_with("tensorflow.compat.v1.distribute.") ||
           name.starts_with("tensorflow.experimental.dtensor");
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

/// Options that are for processes which divide the samples.
void check_telar(const Request& request) {
  const std::string option = request.divide_epochs       ? "--epochs divide"
                             : request.warmup_epochs > 0 ? "--warmup"
                             : request.share_evaluation  ? "--evaluation shared"
                             : request.only_training     ? "--only-training"
                                                         : "";
  if (!option.empty())
    throw user_error(
        "{} is for targets whose processes divide the samples; with --target telar, each step is that of the script's batch",
        option);
}

/// The user's choices. Without a target: Horovod for Keras, DDP for PyTorch.
Choices choices_of(const Request& request, Framework framework) {
  Choices choices;
  choices.keep_global_batch = request.keep_global_batch;
  choices.divide_epochs = request.divide_epochs;
  choices.warmup_epochs = request.warmup_epochs;
  choices.share_evaluation = request.share_evaluation;
  choices.only_training = request.only_training;
  choices.telar_options = request.telar_options;
  const bool keras = framework == Framework::keras;
  if (request.target.empty()) {
    choices.target = keras ? Target::horovod : Target::ddp;
  } else if (request.target == "ddp") {
    choices.target = Target::ddp;
  } else if (request.target == "horovod") {
    choices.target = Target::horovod;
  } else if (request.target == "tf-distribute") {
    choices.target = Target::tf_distribute;
  } else if (request.target == "telar") {
    choices.target = Target::telar;
    check_telar(request);
  } else {
    throw user_error("there is no target '{}'; the targets are ddp, horovod, tf-distribute and telar",
                     request.target);
  }
  if (keras && choices.target == Target::ddp)
    throw user_error("{} trains with Keras, but ddp is for PyTorch; use --target horovod or tf-distribute",
                     request.file);
  if (!keras && choices.target == Target::tf_distribute)
    throw user_error("{} trains with PyTorch, but tf-distribute is for Keras; use --target ddp or horovod",
                     request.file);
  if (keras && choices.share_evaluation)
    throw user_error("--evaluation shared is for PyTorch's loops, but {} trains with Keras", request.file);
  if (keras && choices.only_training)
    throw user_error(
        "--only-training leaves numbers of PyTorch's loops as they are, but {} trains with Keras, which joins its own",
        request.file);
  const bool strategy = choices.target == Target::tf_distribute;
  if (choices.divide_epochs && (choices.keep_global_batch || strategy))
    throw user_error(
        "--epochs divide is for --target {} with --global-batch grow: there, each process can see all samples in its own order{}",
        keras ? "horovod" : "ddp or horovod",
        strategy ? "; a TensorFlow strategy distributes the batches of one program" : "");
  if (choices.warmup_epochs > 0 && (choices.keep_global_batch || strategy))
    throw user_error("--warmup is for --target {} with --global-batch grow, where the learning rate grows{}",
                     keras ? "horovod" : "ddp or horovod", strategy ? "; Keras has no warm-up callback" : "");
  return choices;
}

std::string first_line(const std::string& text) {
  const size_t end = text.find_first_of("\r\n");
  return end == std::string::npos ? text : text.substr(0, end) + " …";
}

std::string explained(const Tree& tree, std::vector<Explanation> all) {
  for (Explanation& one : all) one.line = one.line == 0 ? tree.main().first_line : one.line;
  std::stable_sort(all.begin(), all.end(),
                   [](const Explanation& a, const Explanation& b) { return a.line < b.line; });
  std::string text;
  for (const Explanation& one : all)
    text += fmt::format("{}: {}: {}\n", tree.place(one.line), one.what, one.why);
  return text;
}

/// The woven text must be a valid program.
void check_program(const std::string& file, const Edited& edited) {
  if (is_program(edited.outline)) return;
  try {
    check_syntax(file, edited.text);
  } catch (const Error& error) {
    throw run_error("weave wrote a program that does not parse, which is a bug in weave: {}", error.what());
  }
}

void write(const Names& names, Framework framework, const Request& request,
           const std::vector<ProjectFile>& files, Reply& reply) {
  Edits edits(names.tree());
  const Choices choices = choices_of(request, framework);
  reply.target = choices.target == Target::ddp       ? "ddp"
                 : choices.target == Target::horovod ? "horovod"
                 : choices.target == Target::telar   ? "telar"
                                                     : "tf-distribute";
  if (choices.target == Target::telar) {
    framework == Framework::pytorch ? write_torch_telar(names, read_torch(names, false), choices, edits)
                                    : write_keras_telar(names, read_keras(names), choices, edits);
  } else if (framework == Framework::pytorch) {
    const TorchProgram program = read_torch(names);
    reply.divides_steps = choices.keep_global_batch || !program.shares.empty();
    write_torch(names, program, choices, edits);
  } else {
    reply.divides_steps = choices.keep_global_batch;
    write_keras(names, read_keras(names), choices, edits);
  }
  const std::vector<Edited> woven = edits.apply();
  for (size_t i = 0; i < files.size(); ++i) {
    const ProjectFile& file = files[i];
    if (woven[i].text == file.source.text) continue;
    check_program(file.name, woven[i]);
    reply.files.push_back(
        {file.path, encode(file.name, {woven[i].text, file.source.encoding, file.source.mark})});
    if (request.diff) reply.diff += unified_diff(file.path, file.bytes, reply.files.back().bytes);
  }
  reply.bytes = reply.files.empty() ? request.bytes : reply.files.back().bytes;
  if (request.colour) reply.diff = coloured(reply.diff);
  reply.explanation = explained(names.tree(), edits.explanations());
  reply.notes = explained(names.tree(), edits.notes());
}

std::vector<ProjectFile> read_files(const Request& request) {
  if (request.is_project) return load_project(request);
  return {{request.file, request.file, request.bytes, decode(request.file, request.bytes)}};
}

/// Whether a script that weave does not take for training is one of PyTorch.
bool imports_torch(const Names& names) {
  return std::any_of(names.imports().begin(), names.imports().end(), [](const auto& import) {
    return import.first == "torch" || import.first.starts_with("torch.");
  });
}

/// The import of a file next to a script that is woven alone; null if there is none. Weave would not see what
/// that file does.
const Node* imports_unread(const Names& names, const Request& request, std::string& file) {
  if (request.is_project || !request.read) return nullptr;
  for (const auto& [module, statement] : names.imports()) {
    for (const std::string& path : module_paths("", "", module, 0)) {
      file = module_file(path, [&](const std::string& one) { return request.read(one).has_value(); });
      if (!file.empty()) return statement;
    }
  }
  return nullptr;
}

/// Weave must know which files of a project are loaded.
void check_dynamic_imports(const Names& names) {
  for (const Node* call : names.calls()) {
    const std::string callee = names.callee(call);
    if (callee != "importlib.import_module" && callee != "__import__") continue;
    const Node* name = names.argument(call, "name", 0);
    if (name != nullptr && name->is_string() && !name->text.starts_with('.')) {
      const auto paths = module_paths("", names.tree().main().path, std::string(name->text), 0);
      const bool ours = std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
        return std::any_of(names.tree().parts().begin(), names.tree().parts().end(),
                           [&](const Part& part) { return part.path.starts_with(path); });
      });
      if (!ours) continue;
    }
    throw Refusal{
        call->line, std::string(names.tree().text(*call)),
        "weave cannot determine which file of the project this loads; load it by an import statement"};
  }
}

}  // namespace

Reply weave(const Request& request) {
  Reply reply;
  make_room(request.bytes.size());
  const std::vector<ProjectFile> files = read_files(request);
  std::vector<SourceFile> sources;
  sources.reserve(files.size());
  for (const ProjectFile& file : files) sources.push_back({file.name, file.path, file.source.text});
  const Tree tree = parse(std::move(sources));
  check_placement(tree);
  const Names names(tree);
  const auto refused = [&](int line, const std::string& construct, const std::string& decision) {
    reply.kind = Reply::Kind::refused;
    reply.message = fmt::format("{}: {}: {}", tree.place(line), first_line(construct), decision);
    return reply;
  };
  std::string by;
  if (const Node* parallel = parallel_already(names, by); parallel != nullptr) {
    reply.kind = Reply::Kind::already_parallel;
    reply.bytes = request.bytes;
    reply.message = fmt::format("{}: the script is already parallel ({}) and is left as it is",
                                tree.place(parallel->line), by);
    return reply;
  }
  std::string unread;
  const Node* import = imports_unread(names, request, unread);
  const bool torch = trains_with_torch(names);
  reply.is_pytorch = torch || imports_torch(names);
  if (const Node* handed = torch ? nullptr : handed_fit(names)) {
    return refused(
        handed->line, std::string(tree.text(*handed->parent)),
        fmt::format(
            "{} trains, but is passed on here instead of being called, so its arguments cannot be seen together; call it with all of them",
            tree.text(*handed)));
  }
  if (!torch && has_backward(names)) {
    return refused(
        tree.main().first_line, "no optimizer",
        "it has a backward pass, but no optimizer of torch.optim, by which weave knows what is trained and at which rate; let an optimizer update the parameters");
  }
  std::string other;
  const bool trains = torch || trains_with_keras(names);
  if (const Node* step = torch ? nullptr : trains_otherwise(names, trains, other))
    return refused(step->line, std::string(tree.text(*step)), other);
  if (!trains) {
    const std::string hint =
        import == nullptr
            ? ""
            : fmt::format("; however, it imports {}: if that file trains, use --project FOLDER", unread);
    return refused(
        tree.main().first_line, "no training",
        "this is not a training script: it has neither an optimizer of torch.optim with a backward pass, nor a Keras model that is compiled and fitted, nor gradients of a tf.GradientTape that are applied" +
            hint);
  }
  if (import != nullptr && !request.describe) {
    return refused(
        import->line, std::string(tree.text(*import)),
        fmt::format(
            "{} has not been read, so weave does not know what it writes or trains; use --project FOLDER to weave both",
            unread));
  }
  const Framework framework = torch ? Framework::pytorch : Framework::keras;
  try {
    if (request.is_project) check_dynamic_imports(names);
    if (request.describe) {
      reply.kind = Reply::Kind::described;
      reply.json = describe(
          names, torch ? program_of(names, read_torch(names)) : program_of(names, read_keras(names)));
      return reply;
    }
    write(names, framework, request, files, reply);
  } catch (const Refusal& refusal) {
    return refused(refusal.line, refusal.construct, refusal.decision);
  }
  return reply;
}

}  // namespace telar::weave
