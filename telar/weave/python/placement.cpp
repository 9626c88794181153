#include "telar/weave/python/placement.h"

#include <algorithm>

#include "telar/weave/python/parser.h"

namespace telar::weave {

namespace {

bool stands_in_function(const Node& node) {
  for (const Node* inner = &node; inner->parent != nullptr; inner = inner->parent) {
    if (inner->parent->is_function() || inner->parent->is(Kind::lambda)) return true;
    if (inner->parent->is(Kind::class_def) && inner->role == "body") return false;
  }
  return false;
}

bool stands_in_loop(const Node& node) {
  for (const Node* inner = &node; inner->parent != nullptr; inner = inner->parent) {
    const Node& outer = *inner->parent;
    const bool loops = outer.is(Kind::for_) || outer.is(Kind::async_for) || outer.is(Kind::while_);
    if (loops && inner->role == "body") return true;
    if (outer.is_function() || outer.is(Kind::class_def)) return false;
  }
  return false;
}

/// The message of Python's compiler for a misplaced node; empty if the node is allowed.
std::string_view complaint(const Node& node) {
  switch (node.kind) {
    case Kind::return_: return stands_in_function(node) ? "" : "'return' outside function";
    case Kind::yield: return stands_in_function(node) ? "" : "'yield' outside function";
    case Kind::break_: return stands_in_loop(node) ? "" : "'break' outside loop";
    case Kind::continue_: return stands_in_loop(node) ? "" : "'continue' not properly in loop";
    default: return "";
  }
}

}  // namespace

void check_placement(const Tree& tree) {
  for (const Node& node : tree.nodes()) {
    const std::string_view found = complaint(node);
    if (found.empty()) continue;
    const size_t begin = tree.line_begin(node.line);
    const std::string_view before = std::string_view(tree.source()).substr(begin, node.begin - begin);
    const auto characters = std::count_if(before.begin(), before.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;  // not a continuation byte of UTF-8
    });
    const std::string_view rest = std::string_view(tree.source()).substr(begin);
    throw syntax_error(tree.part_at(node.begin).name, tree.line_within(node.line),
                       rest.substr(0, rest.find_first_of("\r\n")), static_cast<long>(characters),
                       fmt::format("SyntaxError: {}", found));
  }
}

}  // namespace telar::weave
