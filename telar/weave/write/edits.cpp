#include "telar/weave/write/edits.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace telar::weave {

size_t statement_begin(const Node& statement) {
  size_t begin = statement.begin;
  for (const Node* decorator : statement.list("decorator_list"))
    begin = std::min(begin, decorator->begin - 1);
  return begin;
}

void Edits::replace(size_t begin, size_t end, std::string text) {
  changes_.push_back({begin, end, std::move(text), false});
}

void Edits::explain(int line, std::string what, std::string why) {
  explanations_.push_back({line, std::move(what), std::move(why)});
}

void Edits::note(int line, std::string what, std::string why) {
  notes_.push_back({line, std::move(what), std::move(why)});
}

/// Whether other code shares the statement's first or last line: `if x: a()`, `a(); b()`.
bool Edits::shares_line(const Node& statement) const {
  const std::string& source = tree_.source();
  const size_t begin = statement_begin(statement);
  const size_t line = tree_.line_begin(tree_.line_of(begin));
  if (source.find_first_not_of(" \t\f", line) != begin) return true;
  const size_t next = source.find_first_not_of(" \t\f", statement.end);
  return next != std::string::npos && source[next] == ';';
}

/// The statements of a block that share the line of one, as in `a(); b()`. Throws Refusal if they follow
/// the header of the block: `if x: a()`.
std::vector<const Node*> Edits::on_line_of(const Node& statement) const {
  const auto line_at = [&](size_t offset) { return tree_.line_of(offset); };
  const Nodes block = block_of(&statement);
  std::vector<const Node*> found;
  for (const Node* other : block) {
    const bool joined = !found.empty() && line_at(found.back()->end) == line_at(other->begin);
    if (!joined && other->begin > statement.begin) break;
    if (!joined) found.clear();
    found.push_back(other);
  }
  const size_t begin = statement_begin(*found.front());
  if (tree_.source().find_first_not_of(" \t\f", tree_.line_begin(line_at(begin))) != begin)
    throw Refusal{statement.line, std::string(tree_.text(statement)), "put this statement on its own line"};
  return found;
}

/// Puts a statement that follows another one on its line on a line of its own, after other lines.
void Edits::split_before(const Node& statement, const std::vector<std::string>& lines, bool follows) {
  const std::string start = tree_.newline(statement.begin) + tree_.indent_at(statement.begin);
  std::string text;
  for (const std::string& line : lines) text += start + line;
  changes_.push_back({statement.begin, statement.begin, text + start, follows});
}

void Edits::before(const Node& statement, const std::vector<std::string>& lines) {
  if (on_line_of(statement).front() != &statement) return split_before(statement, lines, false);
  const size_t begin = statement_begin(statement);
  const std::string indent = tree_.indent_at(begin);
  std::string text;
  for (const std::string& line : lines) text += (line.empty() ? "" : indent + line) + tree_.newline(begin);
  insert(tree_.line_begin(tree_.line_of(begin)), text);
}

void Edits::after(const Node& statement, const std::vector<std::string>& lines) {
  const std::vector<const Node*> together = on_line_of(statement);
  if (const auto here = std::find(together.begin(), together.end(), &statement); here + 1 != together.end())
    return split_before(**(here + 1), lines, true);
  const std::string indent = tree_.indent_at(statement_begin(*together.front()));
  const size_t next = tree_.line_begin(tree_.line_of(statement.end) + 1);
  const std::string& source = tree_.source();
  const bool ends = next > 0 && next <= source.size() &&
                    (source[next - 1] == '\n' || source[next - 1] == '\r') && next > statement.end;
  const std::string& newline = tree_.newline(statement.begin);
  std::string text = ends ? "" : newline;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += lines[i].empty() ? "" : indent + lines[i];
    if (ends || i + 1 < lines.size()) text += newline;
  }
  const size_t at = ends ? next : source.size();
  changes_.push_back({at, at, std::move(text), true});
}

void Edits::guard(const Node& statement, const std::string& condition) {
  guard_with(statement, "if " + condition + ":");
}

void Edits::guard_with(const Node& statement, const std::string& header) {
  for (const Node* gone : removed_) {
    if (is_inside(&statement, gone)) return;
  }
  for (const Guarded& known : guards_) {
    const bool same = known.header == header && is_inside(&statement, known.statement);
    if (known.statement == &statement || same) return;
  }
  std::erase_if(guards_, [&](const Guarded& known) {
    return known.header == header && is_inside(known.statement, &statement);
  });
  guards_.push_back({&statement, header});
}

void Edits::add_argument(const Node& call, const std::string& text) {
  // Before the closing parenthesis, after the last argument and its comma, if it has one.
  size_t last = call.child("func")->end;
  bool any = false;
  for (const std::string_view field : {"args", "keywords"}) {
    for (const Node* given : call.list(field)) {
      last = std::max(last, given->end);
      any = true;
    }
  }
  const std::string& source = tree_.source();
  if (!any) return insert(call.end - 1, text);
  const bool generator = call.list("args").size() == 1 && call.list("args")[0]->is(Kind::generator);
  if (generator && last == call.end) {
    throw Refusal{call.line, std::string(tree_.text(call)),
                  "give the generator expression its own parentheses"};
  }
  // The byte range of an argument does not include the parentheses around it.
  size_t at = last;
  while (at + 1 < call.end) {
    const size_t next = source.find_first_not_of(" \t\f\r\n", at);
    if (next == std::string::npos || next + 1 >= call.end || source[next] != ')') break;
    at = next + 1;
  }
  insert(at, ", " + text);
}

void Edits::remove_argument(const Node& call, const Node& argument) {
  const std::string& source = tree_.source();
  size_t begin = argument.begin;
  size_t end = argument.end;
  const size_t next = source.find_first_not_of(" \t\f\r\n", end);
  if (next != std::string::npos && source[next] == ',') {
    end = next + 1;
    while (end < call.end && source[end] == ' ') ++end;
  } else {
    const size_t comma = source.rfind(',', begin);
    if (comma != std::string::npos && comma > call.child("func")->end) begin = comma;
  }
  replace(begin, end, "");
}

void Edits::remove(const Node& statement) {
  removed_.push_back(&statement);
  const auto& block = block_of(&statement);
  if (block.size() == 1 || shares_line(statement))
    return replace(statement_begin(statement), statement.end, "pass");
  const int first = tree_.line_of(statement_begin(statement));
  replace(tree_.line_begin(first), tree_.line_begin(tree_.line_of(statement.end) + 1), "");
}

/// One level of indentation in the block of a statement.
std::string Edits::step_of(const Node& statement) const {
  const std::string own = tree_.indent_at(statement_begin(statement));
  for (const Node* around = statement.parent; around != nullptr; around = around->parent) {
    if (!around->is_statement() || around->is(Kind::module)) continue;
    const std::string outer = tree_.indent_at(statement_begin(*around));
    if (outer.size() < own.size()) return own.substr(outer.size());
  }
  for (const Node* other : module_of(&statement)->list("body")) {
    for (const Node* inner : other->list("body")) {
      std::string indent = tree_.indent_at(inner->begin);
      if (!indent.empty() && inner->line != other->line) return indent;
    }
  }
  return "    ";
}

/// Indents the lines of a statement, except inside multi-line strings.
void Edits::indent_lines(const Node& statement, const std::string& step) {
  const int first = tree_.line_of(statement_begin(statement));
  const int last = tree_.line_of(statement.end);
  std::vector<bool> inside(static_cast<size_t>(last - first + 1), false);
  walk(statement, [&](const Node& node) {
    if (node.is(Kind::joined_str) || node.is_string() || node.literal == Literal::bytes) {
      if (node.inside_fstring) return true;
      for (int line = tree_.line_of(node.begin) + 1; line <= tree_.line_of(node.end); ++line) {
        if (line >= first && line <= last) inside[static_cast<size_t>(line - first)] = true;
      }
    }
    return true;
  });
  for (int line = first; line <= last; ++line) {
    const size_t begin = tree_.line_begin(line);
    const bool blank = begin < tree_.source().size() && tree_.source().find_first_not_of(" \t\f", begin) ==
                                                            tree_.source().find_first_of("\r\n", begin);
    if (!inside[static_cast<size_t>(line - first)] && !blank) insert(begin, step);
  }
}

void Edits::apply_guards() {
  // Guards within others come first: what the others indent follows their headers.
  for (Guarded& one : guards_) {
    one.depth = std::count_if(guards_.begin(), guards_.end(), [&](const Guarded& other) {
      return other.statement != one.statement && is_inside(one.statement, other.statement);
    });
  }
  std::sort(guards_.begin(), guards_.end(), [](const Guarded& a, const Guarded& b) {
    return a.depth != b.depth ? a.depth > b.depth : a.statement->begin < b.statement->begin;
  });
  const Node* previous = nullptr;
  std::string header;
  for (const Guarded& guarded : guards_) {
    const Node& statement = *guarded.statement;
    if (shares_line(statement)) {
      if (!statement.is(Kind::expr) || !guarded.header.starts_with("if ")) {
        throw Refusal{statement.line, std::string(tree_.text(statement)),
                      "put this statement on its own line"};
      }
      insert(statement.end, " " + guarded.header.substr(0, guarded.header.size() - 1) + " else None");
      previous = nullptr;
      continue;
    }
    const auto& block = block_of(&statement);
    bool follows = false;
    for (size_t i = 1; i < block.size(); ++i)
      follows = follows || (block[i] == &statement && block[i - 1] == previous);
    // An insertion between the two would otherwise end up under the `if`.
    for (const Change& change : changes_) {
      follows = follows && !(previous != nullptr && change.begin == change.end &&
                             change.begin >= previous->end && change.begin <= statement.begin);
    }
    const std::string step = step_of(statement);
    if (!follows || header != guarded.header) {
      std::string indent = tree_.indent_at(statement.begin);
      for (auto i = guarded.depth; i > 0; --i) indent += step;
      insert(tree_.line_begin(tree_.line_of(statement.begin)),
             indent + guarded.header + tree_.newline(statement.begin));
    } else {
      // Comments between the two are indented with them.
      for (int line = tree_.line_of(previous->end) + 1; line < tree_.line_of(statement.begin); ++line) {
        const size_t begin = tree_.line_begin(line);
        if (tree_.source()[tree_.source().find_first_not_of(" \t\f", begin)] == '#') insert(begin, step);
      }
    }
    indent_lines(statement, step);
    previous = &statement;
    header = guarded.header;
  }
  guards_.clear();
}

std::string Edits::written(const Part& part, std::span<const Change> changes) const {
  const std::string& source = tree_.source();
  std::string text;
  text.reserve(part.end - part.begin);
  size_t at = part.begin;
  for (const Change& change : changes) {
    if (change.begin < at) {
      throw Refusal{tree_.line_of(change.begin), source.substr(change.begin, change.end - change.begin),
                    "two changes overlap here; split this into several statements"};
    }
    text.append(source, at, change.begin - at);
    text += change.text;
    at = change.end;
  }
  text.append(source, at, part.end - at);
  if (part.ends_open) text.resize(text.size() - part.newline.size());
  return text;
}

/// The statements of a block that have their own lines and no changes. changes_ are sorted and do not
/// overlap.
void Edits::leave_out(Nodes block, std::vector<Change>& left_out) const {
  const std::string& source = tree_.source();
  size_t left_until = 0;  // where the previous left-out statement ends
  for (const Node* statement : block) {
    const size_t first = statement_begin(*statement);
    const size_t begin = tree_.line_begin(tree_.line_of(first));
    const size_t end = tree_.line_begin(tree_.line_of(statement->end) + 1);
    // A change at its beginning or end is outside it.
    const auto change = std::upper_bound(changes_.begin(), changes_.end(), begin,
                                         [](size_t at, const Change& one) { return at < one.end; });
    const bool is_changed = change != changes_.end() && change->begin < end;
    if (is_changed || shares_line(*statement) || source.compare(first, 4, "elif") == 0) {
      left_until = 0;
      for (const std::string_view field : {"body", "orelse", "finalbody"})
        leave_out(statement->list(field), left_out);
      for (const std::string_view field : {"handlers", "cases"}) {
        for (const Node* one : statement->list(field)) leave_out(one->list("body"), left_out);
      }
      continue;
    }
    const bool follows =
        left_until > 0 && (change == changes_.begin() || std::prev(change)->end < left_until);
    left_out.push_back({begin, end,
                        follows ? "" : source.substr(begin, first - begin) + "pass" + tree_.newline(begin),
                        false});
    left_until = end;
  }
}

std::vector<Edited> Edits::apply() {
  apply_guards();
  const auto earlier = [](const Change& a, const Change& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end != b.end ? a.end < b.end : a.follows && !b.follows;
  };
  std::stable_sort(changes_.begin(), changes_.end(), earlier);
  std::vector<Edited> files;
  auto change = changes_.begin();
  for (const Part& part : tree_.parts()) {
    const auto first = change;
    while (change != changes_.end() && change->begin <= part.end) ++change;
    Edited& file = files.emplace_back();
    file.text = written(part, {first, change});
    if (first == change) continue;
    std::vector<Change> left_out;
    leave_out(part.root->list("body"), left_out);
    std::vector<Change> both;
    both.reserve(left_out.size() + static_cast<size_t>(change - first));
    std::merge(first, change, left_out.begin(), left_out.end(), std::back_inserter(both), earlier);
    file.outline = written(part, both);
  }
  return files;
}

}  // namespace telar::weave
