// Objects between a loop and its DataLoader: `for batch in DeviceLoader(loader, device)`.
#include <algorithm>

#include "telar/weave/torch/program.h"

namespace telar::weave {

namespace {

/// The attribute of `self` from which a method takes batches, `self.loader` or `enumerate(self.loader)`;
/// empty if it takes them from elsewhere.
std::string iterated_attribute(const Names& names, const Node* iterable) {
  if (iterable->is(Kind::call)) {
    const std::string callee = names.qualified(iterable->child("func"));
    const auto& given = iterable->list("args");
    if ((callee != "enumerate" && callee != "tqdm.tqdm") || given.empty()) return {};
    iterable = given[0];
  }
  const bool own = iterable->is(Kind::attribute) && iterable->child("value")->is(Kind::name) &&
                   iterable->child("value")->text == "self";
  return own ? std::string(iterable->text) : std::string();
}

/// The loop of a method that yields exactly once for each of its batches, so that the object has as many
/// batches as its loader; null if there is none.
const Node* loop_that_yields(const Names& names, const Node* method) {
  const Node* loop = nullptr;
  int yields = 0;
  bool leaves = false;
  walk(*method, [&](const Node& node) {
    if (&node != method && (node.is_function() || node.is(Kind::lambda))) return false;
    if (node.is(Kind::break_) || node.is(Kind::continue_) || node.is(Kind::return_) || node.is(Kind::try_))
      leaves = true;
    if (node.is(Kind::yield)) {
      ++yields;
      const Node* statement = statement_of(&node);
      const bool once = !names.tree().text(node).starts_with("yield from");
      const bool plain = once && statement->is(Kind::expr) && statement->parent->is(Kind::for_) &&
                         statement->parent->parent == method && statement->role == "body";
      loop = plain ? statement->parent : nullptr;
    }
    return true;
  });
  const bool passes = yields == 1 && !leaves && loop != nullptr;
  return passes && !reaches(names, loop, is_backward) ? loop : nullptr;
}

/// Whether an attribute can be read from outside, and a DataLoader has none of this name.
bool is_readable(const std::string& attribute) {
  static const std::vector<std::string_view> of_loaders = {"dataset", "sampler", "batch_sampler",
                                                           "generator"};
  return !attribute.empty() && !attribute.starts_with("__") &&
         std::find(of_loaders.begin(), of_loaders.end(), attribute) == of_loaders.end();
}

/// The argument of the call that creates an object which its `__init__` keeps in `self.ATTRIBUTE`; null if
/// something else may be there.
const Node* kept_argument(const Names& names, const Node* own, const Node* call,
                          const std::string& attribute) {
  const Node* init = names.method(own, "__init__");
  if (init == nullptr) return nullptr;
  const Node* kept = nullptr;
  int assignments = 0;
  walk(*own, [&](const Node& node) {
    if (!node.is(Kind::attribute) || !node.store || node.text != attribute) return true;
    if (!node.child("value")->is(Kind::name) || node.child("value")->text != "self") return true;
    ++assignments;
    const Node* statement = statement_of(&node);
    const bool plain = statement->is(Kind::assign) && statement->list("targets")[0] == &node &&
                       statement->child("value")->is(Kind::name) && statement->parent == init;
    kept = plain ? statement->child("value") : nullptr;
    return true;
  });
  if (assignments != 1 || kept == nullptr || assigns(init, kept->text)) return nullptr;
  const auto& parameters = init->child("args")->list("args");
  for (size_t i = 1; i < parameters.size(); ++i) {
    if (parameters[i]->text == kept->text) return names.argument(call, kept->text, static_cast<int>(i) - 1);
  }
  return nullptr;
}

}  // namespace

std::vector<TorchPasser> read_passers(const Names& names, const std::vector<TorchLoader>& loaders) {
  std::vector<TorchPasser> passers;
  for (const Node* call : names.calls()) {
    const Node* own = names.definition(call->child("func"));
    if (own == nullptr || !own->is(Kind::class_def)) continue;
    const Node* method = names.method(own, "__iter__");
    const Node* loop = method == nullptr ? nullptr : loop_that_yields(names, method);
    if (loop == nullptr) continue;
    const std::string attribute = iterated_attribute(names, loop->child("iter"));
    const Node* kept = !is_readable(attribute) ? nullptr : kept_argument(names, own, call, attribute);
    if (kept == nullptr) continue;
    std::vector<size_t> found;
    for (const Node* origin : names.origins(kept)) {
      for (size_t i = 0; i < loaders.size(); ++i)
        if (loaders[i].call == origin) found.push_back(i);
    }
    if (found.size() == 1) passers.push_back({call, found[0], attribute});
  }
  return passers;
}

std::string LoaderUse::loader_in(const std::string& text) const {
  if (attribute.empty()) return text;
  if (maybe_the_loader) return "getattr(" + text + ", \"" + attribute + "\", " + text + ")";
  return text + "." + attribute;
}

std::vector<const Node*> TorchProgram::training_loops() const {
  std::vector<const Node*> found;
  for (const TorchLoop& loop : loops)
    if (loop.trains) found.push_back(loop.loop);
  for (const TorchShare& share : shares)
    if (std::find(found.begin(), found.end(), share.loop) == found.end()) found.push_back(share.loop);
  return found;
}

const TorchLoader* TorchProgram::loader_of(const Node* call) const {
  for (const TorchLoader& loader : loaders)
    if (loader.call == call) return &loader;
  for (const TorchPasser& passer : passers)
    if (passer.call == call) return &loaders[passer.loader];
  return nullptr;
}

}  // namespace telar::weave
