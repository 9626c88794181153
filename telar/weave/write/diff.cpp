#include "telar/weave/write/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace telar::weave {

namespace {

constexpr int kAround = 3;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const size_t size = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

struct Step {
  char sign;  // ' ', '-', '+'
  std::string_view line;
};

/// The shortest edit script (Myers, 1986): on diagonal k = x - y, `furthest` holds the greatest x reached
/// with d changes. A copy for each d is kept to trace the path back.
void shortest(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b,
              std::vector<Step>& steps) {
  const auto n = static_cast<int>(a.size());
  const auto m = static_cast<int>(b.size());
  const int most = n + m;
  std::vector<std::vector<int>> history;
  std::vector<int> furthest(2 * static_cast<size_t>(most) + 3, 0);
  const auto at = [&](std::vector<int>& row, int k) -> int& {
    return row[static_cast<size_t>(k) + static_cast<size_t>(most) + 1];
  };
  int found = -1;
  for (int d = 0; d <= most && found < 0; ++d) {
    // Only the diagonals that d changes can reach are stored.
    history.emplace_back(furthest.begin() + (most + 1 - d), furthest.begin() + (most + 2 + d));
    for (int k = -d; k <= d; k += 2) {
      const bool down = k == -d || (k != d && at(furthest, k - 1) < at(furthest, k + 1));
      int x = down ? at(furthest, k + 1) : at(furthest, k - 1) + 1;
      while (x < n && x - k < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      at(furthest, k) = x;
      if (x >= n && x - k >= m) {
        found = d;
        break;
      }
    }
  }
  std::vector<Step> back;
  int x = n;
  int y = m;
  for (int d = found; d > 0; --d) {
    const std::vector<int>& row = history[static_cast<size_t>(d)];
    const auto before = [&](int k) {
      return k < -d || k > d ? -1 : row[static_cast<size_t>(k) + static_cast<size_t>(d)];
    };
    const int k = x - y;
    const bool down = k == -d || (k != d && before(k - 1) < before(k + 1));
    const int from = before(down ? k + 1 : k - 1);
    const int from_y = from - (down ? k + 1 : k - 1);
    while (x > from && y > from_y && (down ? y > from_y + 1 : x > from + 1)) {
      back.push_back({' ', a[static_cast<size_t>(--x)]});
      --y;
    }
    if (down) {
      back.push_back({'+', b[static_cast<size_t>(--y)]});
    } else {
      back.push_back({'-', a[static_cast<size_t>(--x)]});
    }
  }
  while (x > 0) back.push_back({' ', a[static_cast<size_t>(--x)]});
  steps.insert(steps.end(), back.rbegin(), back.rend());
}

void print(std::string& text, const Step& step) {
  text += step.sign;
  text += step.line;
  if (!step.line.ends_with('\n')) text += "\n\\ No newline at end of file\n";
}

}  // namespace

std::string unified_diff(const std::string& file, const std::string& before, const std::string& after) {
  if (before == after) return {};
  std::vector<Step> steps;
  shortest(lines_of(before), lines_of(after), steps);
  std::string text = fmt::format("--- {}\n+++ {}\n", file, file);
  const auto size = static_cast<int>(steps.size());
  int old_line = 1;
  int new_line = 1;
  int at = 0;
  while (at < size) {
    int change = at;
    while (change < size && steps[static_cast<size_t>(change)].sign == ' ') ++change;
    if (change == size) break;
    const int begin = std::max(at, change - kAround);
    old_line += begin - at;
    new_line += begin - at;
    int end = change;
    for (int next = change; next < size && next <= end + 2 * kAround; ++next) {
      if (steps[static_cast<size_t>(next)].sign != ' ') end = next;
    }
    end = std::min(end + kAround + 1, size);
    int old_count = 0;
    int new_count = 0;
    std::string body;
    for (int i = begin; i < end; ++i) {
      const Step& step = steps[static_cast<size_t>(i)];
      old_count += step.sign != '+' ? 1 : 0;
      new_count += step.sign != '-' ? 1 : 0;
      print(body, step);
    }
    text += fmt::format("@@ -{},{} +{},{} @@\n", old_count == 0 ? old_line - 1 : old_line, old_count,
                        new_count == 0 ? new_line - 1 : new_line, new_count);
    text += body;
    old_line += old_count;
    new_line += new_count;
    at = end;
  }
  return text;
}

std::string coloured(const std::string& diff) {
  std::string text;
  for (const std::string_view line : lines_of(diff)) {
    const char* colour = line.starts_with("+++") || line.starts_with("---") ? "\x1b[1m"
                         : line.starts_with("@@")                           ? "\x1b[36m"
                         : line.starts_with('+')                            ? "\x1b[32m"
                         : line.starts_with('-')                            ? "\x1b[31m"
                                                                            : "";
    const bool newline = line.ends_with('\n');
    text += colour;
    text += newline ? line.substr(0, line.size() - 1) : line;
    text += *colour != '\0' ? "\x1b[0m" : "";
    text += newline ? "\n" : "";
  }
  return text;
}

}  // namespace telar::weave
