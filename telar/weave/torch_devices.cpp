// One GPU for each process. After torch.cuda.set_device, "cuda" and .cuda() mean that GPU, so only numbered
// devices change.
#include "telar/weave/torch_writer.h"

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

void write_text_device(TorchWeaving& weaving, const Node& constant) {
  const int number = device_number(constant.text);
  if (number < 0 || constant.parent->is(Kind::expr)) return;
  if (number > 0) {
    weaving.refuse(
        &constant,
        "the program places parts on several GPUs itself; decide which part each process should have");
  }
  if (constant.inside_fstring) weaving.refuse(&constant, "move the device's name out of the f-string");
  std::string text = weaving.text(constant);
  text.erase(text.find(":0"), 2);
  weaving.edits.replace(constant, text);
  weaving.edits.explain(constant.line, "\"cuda:0\" becomes \"cuda\"",
                        "each process has its own GPU, chosen at the start");
}

}  // namespace

bool uses_gpu(const Names& names) {
  for (const Node& node : names.tree().nodes()) {
    const bool docstring = node.parent != nullptr && node.parent->is(Kind::expr);
    if (!node.is_string() || docstring) continue;
    if (node.text.starts_with("cuda") || node.text == "--device" || node.text.starts_with("--gpu"))
      return true;
  }
  for (const Node* call : names.calls()) {
    const Node* function = call->child("func");
    if (function->is(Kind::attribute) && function->text == "cuda") return true;
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
      weaving.edits.explain(node.line, "a numbered GPU becomes \"cuda\"",
                            "each process has its own GPU, chosen at the start");
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
  for (const Node* call : weaving.names.calls()) {
    const Node* function = call->child("func");
    if (weaving.names.qualified(function) == "torch.cuda.set_device") {
      weaving.edits.remove(*statement_of(call));
      weaving.edits.explain(call->line, "torch.cuda.set_device is removed",
                            "each process has its own GPU, chosen at the start");
    } else if (function->is(Kind::attribute) && function->text == "cuda" && !call->list("args").empty()) {
      weaving.edits.remove_argument(*call, *call->list("args")[0]);
      weaving.edits.explain(call->line, ".cuda() without a number",
                            "each process has its own GPU, chosen at the start");
    }
  }
}

}  // namespace telar::weave
