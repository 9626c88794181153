// One GPU for each process. After torch.cuda.set_device, "cuda" and .cuda() mean that GPU, so only numbered
// devices change.
#include <algorithm>
#include <set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

/// The number after "cuda:"; -1 if the text names no numbered device.
int device_number(std::string_view text) {
  const std::string_view prefix = "cuda:";
  if (!text.starts_with(prefix) || text.size() == prefix.size() || text.size() > prefix.size() + 3) return -1;
  int number = 0;
  for (const char c : text.substr(prefix.size())) {
    if (c < '0' || c > '9') return -1;
    number = 10 * number + (c - '0');
  }
  return number;
}

bool is_number(const Names& names, const Node& node) {
  if (!node.is(Kind::constant) || node.is_string()) return false;
  const std::string_view text = names.tree().text(node);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The numbers of GPUs that an expression for a device may be: `device = 0`.
std::vector<const Node*> numbers(const Names& names, const Node* device) {
  std::vector<const Node*> found = names.origins(device);
  if (is_number(names, *device)) found.push_back(device);
  std::erase_if(found, [&](const Node* origin) { return !is_number(names, *origin); });
  return found;
}

/// The expressions for devices in a call: x.to(0), torch.device(0), torch.zeros(3, device=0).
std::vector<const Node*> devices_of(const Names& names, const Node* call) {
  std::vector<const Node*> found;
  const Node* function = call->child("func");
  const bool first = (function->is(Kind::attribute) && function->text == "to") ||
                     names.callee(call) == "torch.device" || names.callee(call) == "torch.set_default_device";
  if (first && !call->list("args").empty()) found.push_back(call->list("args")[0]);
  const bool of_torch = first || names.callee(call).starts_with("torch.");
  for (const Node* keyword : call->list("keywords")) {
    if (of_torch && keyword->text == "device") found.push_back(keyword->child("value"));
  }
  return found;
}

constexpr const char* kSeveralGpus =
    "the program places parts on several GPUs itself; decide which part each process should have";
constexpr const char* kOwnGpu = "each process has its own GPU, chosen at the start";

void write_number(TorchWeaving& weaving, const Node& number) {
  if (weaving.text(number) != "0") weaving.refuse(&number, kSeveralGpus);
  weaving.edits.replace(number, "\"cuda\"");
  weaving.edits.explain(number.line, "GPU 0 becomes \"cuda\"", kOwnGpu);
}

/// torch.device("cuda", 0) becomes torch.device("cuda").
void write_index(TorchWeaving& weaving, const Node* call) {
  const Node* keyword = weaving.names.keyword(call, "index");
  const bool second = call->list("args").size() > 1;
  if (!second && (keyword == nullptr || keyword->parent != call)) return;
  const Node* index = second ? call->list("args")[1] : keyword->child("value");
  if (is_number(weaving.names, *index) && weaving.text(*index) != "0") weaving.refuse(index, kSeveralGpus);
  weaving.edits.remove_argument(*call, second ? *index : *keyword);
  weaving.edits.explain(call->line, "torch.device without a number", kOwnGpu);
}

/// "cuda:" + str(number), "cuda:%d" % number, "cuda:{}".format(number)
bool write_joined(TorchWeaving& weaving, const Node& constant) {
  if (!constant.text.starts_with("cuda:") || constant.inside_fstring || device_number(constant.text) >= 0)
    return false;
  const Node* whole = constant.parent;
  if (whole->is(Kind::attribute) && whole->text == "format" && whole->parent->is(Kind::call)) {
    whole = whole->parent;
  } else if (!whole->is(Kind::bin_op)) {
    return false;
  }
  weaving.edits.replace(*whole, "\"cuda\"");
  weaving.edits.explain(whole->line, "a numbered GPU becomes \"cuda\"", kOwnGpu);
  return true;
}

void write_text_device(TorchWeaving& weaving, const Node& constant) {
  if (write_joined(weaving, constant)) return;
  const int number = device_number(constant.text);
  if (number < 0 || constant.parent->is(Kind::expr)) return;
  if (number > 0) {
    weaving.refuse(&constant, kSeveralGpus);
  }
  if (constant.inside_fstring) weaving.refuse(&constant, "move the device's name out of the f-string");
  std::string text = weaving.text(constant);
  text.erase(text.find(":0"), 2);
  weaving.edits.replace(constant, text);
  weaving.edits.explain(constant.line, "\"cuda:0\" becomes \"cuda\"", kOwnGpu);
}

}  // namespace

bool uses_gpu(const Names& names) {
  for (const Node& node : names.tree().nodes()) {
    const bool docstring = node.parent != nullptr && node.parent->is(Kind::expr);
    if (!node.is_string() || docstring) continue;
    if (node.text.starts_with("cuda") || node.text == "--device" || node.text.starts_with("--gpu"))
      return true;
  }
  for (const Node& node : names.tree().nodes()) {
    if (node.is(Kind::attribute) && names.qualified(&node).starts_with("torch.accelerator.")) return true;
  }
  for (const Node* call : names.calls()) {
    const Node* function = call->child("func");
    if (function->is(Kind::attribute) && function->text == "cuda") return true;
    for (const Node* device : devices_of(names, call)) {
      if (!numbers(names, device).empty()) return true;
    }
    const bool device = names.callee(call) == "torch.device" && !call->list("args").empty();
    if (device && !call->list("args")[0]->is(Kind::constant)) return true;
  }
  return false;
}

void write_devices(TorchWeaving& weaving) {
  for (const Node& node : weaving.names.tree().nodes()) {
    if (node.is_string()) write_text_device(weaving, node);
    if (node.is(Kind::joined_str) && !node.list("values").empty() &&
        node.list("values")[0]->text == "cuda:") {
      weaving.edits.replace(node, "\"cuda\"");
      weaving.edits.explain(node.line, "a numbered GPU becomes \"cuda\"", kOwnGpu);
    }
    if (node.is(Kind::assign) && node.list("targets")[0]->is(Kind::subscript)) {
      const Node* key = node.list("targets")[0]->child("slice");
      const Node* value = node.child("value");
      if (key != nullptr && key->is_string() && key->text == "CUDA_VISIBLE_DEVICES" &&
          (!value->is_string() || value->text.find(',') == std::string::npos)) {
        weaving.refuse(&node, "remove it: each process must see all GPUs to select its own");
      }
    }
  }
  std::set<const Node*> zeros;
  for (const Node* call : weaving.names.calls()) {
    const Node* function = call->child("func");
    if (weaving.names.callee(call) == "torch.device") write_index(weaving, call);
    for (const Node* device : devices_of(weaving.names, call)) {
      for (const Node* number : numbers(weaving.names, device)) {
        if (zeros.insert(number).second) write_number(weaving, *number);
      }
    }
    const std::string chosen = weaving.names.qualified(function);
    if (chosen == "torch.cuda.set_device" || chosen == "torch.accelerator.set_device_index" ||
        chosen == "torch.accelerator.set_device_idx") {
      weaving.edits.remove(*statement_of(call));
      weaving.edits.explain(call->line, chosen + " is removed", kOwnGpu);
    } else if (function->is(Kind::attribute) && function->text == "cuda" && !call->list("args").empty()) {
      weaving.edits.remove_argument(*call, *call->list("args")[0]);
      weaving.edits.explain(call->line, ".cuda() without a number", kOwnGpu);
    }
  }
}

}  // namespace telar::weave
