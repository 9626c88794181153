// DDP averages the gradients of a model in the first backward pass that follows a forward pass of it. A
// second backward pass without a new forward pass adds each process's own gradients, and the processes would
// part without an error. Their average is taken after such a backward pass: the average of an average and of
// what was added is the average of both.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "telar/weave/torch/optimizer_calls.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

using Models = std::set<size_t>;  // indices into TorchProgram::models

void join(Models& all, const Models& more) { all.insert(more.begin(), more.end()); }

/// Follows the statements of a training loop in their order, and into the functions that they call.
class Passes {
 public:
  /// `writes`: adds the averages that DDP lacks.
  Passes(TorchWeaving& weaving, bool writes) : w_(weaving), writes_(writes) {}

  /// Whether several backward passes precede a step.
  bool follow_all() {
    for (const Node* loop : w_.program.training_loops()) {
      prepared_.clear();
      stale_.clear();
      passed_.clear();
      flows_.clear();
      // Twice, because a backward pass may follow one of the batch before.
      for (int round = 0; round < 2; ++round) follow(loop->list("body"));
    }
    return several_;
  }

 private:
  void follow(Nodes block) {
    for (const Node* statement : block) follow(*statement);
  }

  void follow(const Node& statement) {
    if (statement.is_function() || statement.is(Kind::class_def)) return;
    if (statement.is(Kind::for_) || statement.is(Kind::async_for)) {
      const Models over = computed_from(statement.child("iter"));
      assign(statement.child("target"), over);
    }
    for (const char* field : {"test", "value", "exc"}) {
      const Node* expression = statement.child(field);
      if (expression == nullptr) continue;
      const Models models = computed_from(expression);
      if (statement.is(Kind::return_)) join(returned_, models);
      if (field != std::string_view("value")) continue;
      for (const Node* target : statement.list("targets")) assign(target, models);
      const Node* target = statement.child("target");
      if (target == nullptr) continue;
      Models all = models;
      if (statement.is(Kind::aug_assign)) join(all, flows_[w_.names.place(target)]);
      assign(target, all);
    }
    for (const Node* item : statement.list("items")) computed_from(item->child("context_expr"));
    const auto before = std::make_pair(prepared_, stale_);
    const bool loops = statement.is(Kind::for_) || statement.is(Kind::while_);
    for (int round = 0; round < (loops ? 2 : 1); ++round) follow(statement.list("body"));
    // What such a branch leaves behind does not reach the statements after it.
    if (statement.is(Kind::if_) && leaves(*statement.list("body").back()))
      std::tie(prepared_, stale_) = before;
    for (const Node* handler : statement.list("handlers")) follow(handler->list("body"));
    follow(statement.list("orelse"));
    follow(statement.list("finalbody"));
  }

  static bool leaves(const Node& statement) {
    return statement.is(Kind::continue_) || statement.is(Kind::break_) || statement.is(Kind::return_) ||
           statement.is(Kind::raise);
  }

  void assign(const Node* target, const Models& models) {
    if (target->is(Kind::tuple) || target->is(Kind::list)) {
      for (const Node* one : target->list("elts")) assign(one, models);
    } else if (const int place = w_.names.place(target); place >= 0) {
      flows_[place] = models;
    }
  }

  /// The models through which gradients of an expression would flow.
  Models computed_from(const Node* expression) {
    if (expression == nullptr || expression->is(Kind::lambda)) return {};
    if (expression->is(Kind::call)) return computed_by(expression);
    Models models;
    const bool reads =
        expression->is(Kind::name) || expression->is(Kind::attribute) || expression->is(Kind::subscript);
    const int place = reads ? w_.names.place(expression) : -1;
    const auto known = flows_.find(place);
    if (place >= 0 && known != flows_.end()) return known->second;
    for (const Field& field : expression->fields) {
      for (const Node* child : field.nodes) join(models, computed_from(child));
    }
    return expression->is(Kind::attribute) && expression->text == "data" ? Models() : models;
  }

  Models computed_by(const Node* call) {
    Models models;
    const Node* function = call->child("func");
    if (function->is(Kind::attribute) || function->is(Kind::call)) join(models, computed_from(function));
    std::vector<Models> given;
    for (const Node* argument : call->list("args")) given.push_back(computed_from(argument));
    for (const Node* keyword : call->list("keywords"))
      given.push_back(computed_from(keyword->child("value")));
    for (const Models& one : given) join(models, one);
    if (is_backward(call)) {
      pass_back(call, models);
    } else if (const Models applied = applied_by(call); !applied.empty()) {
      if (!computes_gradients(w_, call)) return {};
      join(prepared_, applied);
      join(models, applied);
    } else if (const OptimizerCall one = optimizer_call(w_, call); !one.optimizers.empty()) {
      update(one, call);
    } else if (const Node* own = w_.names.called_function(call); own != nullptr && is_worth_following(own)) {
      return returned_by(own, call, given);
    }
    static const std::set<std::string_view> ending = {"detach", "item", "tolist", "numpy", "detach_"};
    return function->is(Kind::attribute) && ending.contains(function->text) ? Models() : models;
  }

  /// The models that a call applies, by themselves or by one of their methods.
  Models applied_by(const Node* call) const {
    const Node* function = call->child("func");
    const bool by_method = function->is(Kind::attribute) && bypasses_forward(w_, function);
    if (!by_method && !w_.calls_model(call)) return {};
    Models models;
    for (const Node* origin : w_.names.origins(by_method ? function->child("value") : function)) {
      for (size_t i = 0; i < w_.program.models.size(); ++i) {
        const auto& own = w_.program.models[i].origins;
        if (std::find(own.begin(), own.end(), origin) != own.end()) models.insert(i);
      }
    }
    return models;
  }

  void pass_back(const Node* call, Models models) {
    // Of a loss that comes from elsewhere, weave does not know what it depends on.
    if (models.empty()) models = prepared_;
    for (const size_t model : models) {
      passed_[model].insert(call);
      if (prepared_.erase(model) == 0) stale_[model].insert(call);
    }
  }

  void update(const OptimizerCall& one, const Node* call) {
    for (const TorchOptimizer* optimizer : one.optimizers) {
      for (const size_t model : optimizer->models) {
        several_ = several_ || (one.steps && passed_[model].size() > 1);
        passed_.erase(model);
        if (one.steps && writes_) {
          for (const Node* backward : stale_[model]) average(backward, *one.expression, call);
        }
        stale_.erase(model);
      }
    }
  }

  void average(const Node* backward, const Node& optimizer, const Node* step) {
    const std::string name = w_.text(optimizer);
    if (!done_.emplace(backward, name).second) return;
    const Node* statement = statement_of(backward);
    if (!statement->is(Kind::expr) || function_of(statement) != function_of(step))
      w_.refuse(
          backward,
          "this is the second backward pass after one forward pass of a model, and DistributedDataParallel averages only the gradients of the first; add up the losses and call backward() once, or apply the model once for each backward pass");
    const std::string text = average_gradients(w_, statement) + "(" + name + ")";
    w_.edits.after(*statement, {text});
    w_.edits.explain(
        backward->line, text,
        "this backward pass follows another one after the same forward pass; DistributedDataParallel averages only the first one's gradients");
  }

  bool is_worth_following(const Node* function) const {
    return depth_ < 5 && reaches(w_.names, function, [&](const Node* call) {
             return is_backward(call) || !applied_by(call).empty() ||
                    !optimizer_call(w_, call).optimizers.empty();
           });
  }

  Models returned_by(const Node* function, const Node* call, const std::vector<Models>& given) {
    const Node* arguments = function->child("args");
    const auto& parameters = arguments->list("args");
    const bool bound =
        call->child("func")->is(Kind::attribute) && !parameters.empty() && parameters.front()->text == "self";
    const auto& positional = call->list("args");
    for (size_t i = bound ? 1 : 0; i < parameters.size(); ++i) {
      const size_t index = i - (bound ? 1 : 0);
      if (index < positional.size()) assign(parameters[i], given[index]);
      for (size_t k = 0; k < call->list("keywords").size(); ++k) {
        if (call->list("keywords")[k]->text == parameters[i]->text)
          assign(parameters[i], given[positional.size() + k]);
      }
    }
    const Models before = std::exchange(returned_, {});
    ++depth_;
    follow(function->list("body"));
    --depth_;
    return std::exchange(returned_, before);
  }

  TorchWeaving& w_;
  bool writes_;
  bool several_ = false;
  std::map<size_t, std::set<const Node*>> passed_;  // backward passes since the last step
  Models prepared_;                                 // applied since the last backward pass through them
  std::map<size_t, std::set<const Node*>> stale_;   // backward passes whose gradients DDP does not average
  std::map<int, Models> flows_;                     // by place
  Models returned_;                                 // by the function that is followed
  std::set<std::pair<const Node*, std::string>> done_;
  int depth_ = 0;
};

}  // namespace

void write_repeated_backward(TorchWeaving& weaving) { Passes(weaving, true).follow_all(); }

bool has_repeated_backward(TorchWeaving& weaving) { return Passes(weaving, false).follow_all(); }

}  // namespace telar::weave
