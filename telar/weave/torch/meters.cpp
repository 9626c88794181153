// Objects of the script that add up numbers of the batches, like the AverageMeter of PyTorch's examples. Each
// process adds up those of its own batches. After the loop the sums are added up, and what the object
// computes from them is computed again.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "telar/weave/torch/values.h"

namespace telar::weave {

namespace {

/// What a method does to its object, in the order of its statements.
struct Change {
  enum class Kind { sum, list, average, derived };
  Kind kind = Kind::sum;
  const Node* target = nullptr;  // self.sum
  const Node* value = nullptr;   // of a derived attribute
};

class Method {
 public:
  Method(const Names& names, const Node& function) : names_(names), function_(function) {
    const auto& parameters = function.child("args")->list("args");
    if (!parameters.empty()) self_ = parameters[0]->text;
  }

  /// The changes; nothing if they are not understood.
  std::optional<std::vector<Change>> changes() {
    if (self_.empty()) return std::nullopt;
    for (const Node* statement : function_.list("body")) {
      if (!read(*statement)) return std::nullopt;
    }
    return changes_;
  }
  std::string_view self() const { return self_; }

 private:
  bool is_attribute(const Node& node) const {
    return node.is(Kind::attribute) && node.child("value")->is(Kind::name) &&
           node.child("value")->text == self_;
  }

  bool mentions_self(const Node& node) const {
    bool found = false;
    walk(node, [&](const Node& inner) {
      found = found || (inner.is(Kind::name) && inner.text == self_);
      return !found;
    });
    return found;
  }

  bool mentions(const Node& node, const Node& attribute) const {
    bool found = false;
    walk(node, [&](const Node& inner) {
      found = found || (is_attribute(inner) && inner.text == attribute.text);
      return !found;
    });
    return found;
  }

  /// Whether a value depends on anything but the object.
  bool has_other_names(const Node& node) const {
    bool found = false;
    walk(node, [&](const Node& inner) {
      const bool of_library = inner.is(Kind::name) && !names_.qualified(&inner).empty();
      found = found || (inner.is(Kind::name) && inner.text != self_ && !of_library);
      return !found;
    });
    return found;
  }

  /// A sum of products of names and constants.
  static bool is_arithmetic(const Node& node) {
    bool arithmetic = true;
    walk(node, [&](const Node& inner) {
      arithmetic =
          arithmetic && !inner.is(Kind::call) && !inner.is(Kind::if_exp) && !inner.is(Kind::subscript);
      return arithmetic;
    });
    return arithmetic;
  }

  bool read(const Node& statement) {
    if (statement.is(Kind::pass) || !mentions_self(statement)) return true;
    if (statement.is(Kind::aug_assign)) {
      const Node* target = statement.child("target");
      if (!is_attribute(*target) || !statement.child("op")->is(Kind::add)) return false;
      changes_.push_back({Change::Kind::sum, target, nullptr});
      return true;
    }
    if (statement.is(Kind::expr)) return read_call(*statement.child("value"));
    if (!statement.is(Kind::assign)) return statement.is(Kind::return_);
    const auto& targets = statement.list("targets");
    return std::all_of(targets.begin(), targets.end(), [&](const Node* target) {
      return read_assignment(*target, *statement.child("value"));
    });
  }

  bool read_assignment(const Node& target, const Node& value) {
    if (target.is(Kind::name)) return true;
    if (!is_attribute(target)) return false;
    if (!has_other_names(value)) {
      changes_.push_back({Change::Kind::derived, &target, &value});
      return true;
    }
    if (!mentions_self(value)) return true;  // the last value
    const bool sum = value.is(Kind::bin_op) && value.child("op")->is(Kind::add) &&
                     is_attribute(*value.child("left")) && value.child("left")->text == target.text &&
                     !mentions_self(*value.child("right"));
    const bool average = mentions(value, target) && is_arithmetic(value);
    if (!sum && !average) return false;
    changes_.push_back({sum ? Change::Kind::sum : Change::Kind::average, &target, nullptr});
    return true;
  }

  /// self.values.append(value)
  bool read_call(const Node& call) {
    if (!call.is(Kind::call)) return false;
    const Node* function = call.child("func");
    if (!function->is(Kind::attribute) || function->text != "append" ||
        !is_attribute(*function->child("value")))
      return false;
    changes_.push_back({Change::Kind::list, function->child("value"), nullptr});
    return true;
  }

  const Names& names_;
  const Node& function_;
  std::string_view self_;
  std::vector<Change> changes_;
};

class Meters {
 public:
  Meters(TorchWeaving& weaving, const TorchLoop& loop) : w_(weaving), loop_(loop) {}

  void write() {
    const BatchValues batch(w_.names, loop_, true);
    walk(*loop_.loop, [&](const Node& node) {
      if (!node.is(Kind::call) || !node.parent->is(Kind::expr)) return true;
      const auto takes_batch = [&](const Node* given) { return batch.are_in(*given); };
      const auto& given = node.list("args");
      const auto& named = node.list("keywords");
      if (std::any_of(given.begin(), given.end(), takes_batch) ||
          std::any_of(named.begin(), named.end(), takes_batch))
        visit(node);
      return true;
    });
  }

 private:
  void visit(const Node& call) {
    const Node* function = call.child("func");
    if (!function->is(Kind::attribute)) return;
    const Node* meter = function->child("value");
    const Node* method = w_.names.definition(function);
    if (method == nullptr || !method->is_function() || class_of(method) == nullptr) return;
    if (!meter->is(Kind::name) && !meter->is(Kind::attribute)) return;
    const std::string text = w_.text(*meter);
    if (text == "self" || is_module(class_of(method)) ||
        !known_.insert(text + "." + std::string(function->text)).second)
      return;
    if (!is_read_after(w_.names, loop_.loop, text) && meter->is(Kind::name)) return;
    Method reader(w_.names, *method);
    const auto changes = reader.changes();
    if (changes && changes->empty()) return;
    if (!changes || !starts_anew(*meter, text)) return leave(call, text, changes.has_value());
    std::vector<std::string> lines;
    for (const Change& change : *changes) lines.push_back(line(change, text, reader.self()));
    w_.edits.after(*loop_.loop, for_shares(w_, loop_, lines));
    for (const std::string& one : lines)
      w_.edits.explain(loop_.loop->line, one, "each process added up its own samples in this object");
  }

  bool is_module(const Node* owner) const { return w_.names.derives(owner, {"torch.nn.Module"}); }

  void leave(const Node& call, const std::string& text, bool is_understood) {
    if (!is_read_after(w_.names, loop_.loop, text)) return;
    leave_numbers(
        w_, &call, *call.child("func")->child("value"),
        is_understood
            ? "this object adds up the numbers of several loops, of which each process sees its share; create or reset it before the loop, in the same block"
            : "each process would collect the numbers of its own batches in this object, and weave does not understand how to join them; add them up in a variable of the loop");
  }

  /// Whether the object is created or reset right before the loop.
  bool starts_anew(const Node& meter, const std::string& text) const {
    const auto all = mentions_around(w_.names, loop_.loop, text);
    return std::any_of(all.begin(), all.end(), [&](const Node* mention) {
      if (mention->begin > loop_.loop->begin || !same_repetition(statement_of(mention), loop_.loop))
        return false;
      const bool resets = mention->parent->is(Kind::attribute) && mention->parent->text.starts_with("reset");
      return mention->store || (resets && mention->is(meter.kind));
    });
  }

  std::string line(const Change& change, const std::string& meter, std::string_view self) {
    const std::string name = meter + "." + std::string(change.target->text);
    switch (change.kind) {
      case Change::Kind::sum: return name + " = " + total(name);
      case Change::Kind::average: return name + " = " + mean_over_ranks(w_, loop_.loop, name);
      case Change::Kind::list: return name + " = " + gather_over_ranks(w_, loop_.loop) + "(" + name + ")";
      case Change::Kind::derived: break;
    }
    return name + " = " + renamed(*change.value, meter, self);
  }

  /// If every process sees all samples, the sum is the mean over the processes.
  std::string total(const std::string& name) {
    return w_.dialect.choices().divide_epochs ? mean_over_ranks(w_, loop_.loop, name)
                                              : sum_over_ranks(w_, loop_.loop) + "(" + name + ")";
  }

  /// The source of an expression with another name for the object.
  std::string renamed(const Node& value, const std::string& meter, std::string_view self) const {
    std::string text;
    size_t at = value.begin;
    const std::string& source = w_.names.tree().source();
    walk(value, [&](const Node& node) {
      if (node.is(Kind::name) && node.text == self) {
        text += source.substr(at, node.begin - at) + meter;
        at = node.end;
      }
      return true;
    });
    return text + source.substr(at, value.end - at);
  }

  TorchWeaving& w_;
  const TorchLoop& loop_;
  std::unordered_set<std::string> known_;
};

}  // namespace

void write_meters(TorchWeaving& weaving) {
  for (const TorchLoop& loop : weaving.program.loops) {
    if (sees_share(weaving, loop)) Meters(weaving, loop).write();
  }
}

}  // namespace telar::weave
