#include "telar/data/tables/table_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/tables/csv_rows.h"
#include "telar/io/json_fields.h"

namespace telar {

namespace {

using enum ColumnKind;

constexpr std::array<std::pair<ColumnKind, const char*>, 9> kKinds = {{{number, "number"},
                                                                       {decimal_comma, "decimal_comma"},
                                                                       {thousands, "thousands"},
                                                                       {boolean, "boolean"},
                                                                       {category, "category"},
                                                                       {date, "date"},
                                                                       {date_dmy, "date_dmy"},
                                                                       {date_mdy, "date_mdy"},
                                                                       {left_out, "left_out"}}};
constexpr size_t kMostCategories = 100;
constexpr int64_t kRare = 2;  // a category with fewer training rows is rare

/// For messages.
std::string text_of_kind(ColumnKind kind) {
  switch (kind) {
    case number: return "number";
    case decimal_comma: return "number like 1.234,5";
    case thousands: return "number like 1,234.5";
    case boolean: return "yes or no";
    case date: return "date like 2026-11-27";
    case date_dmy: return "date like 27.11.2026";
    case date_mdy: return "date like 11/27/2026";
    default: return name_of_kind(kind);
  }
}

ColumnKind kind_named(const std::string& name) {
  for (const auto& [kind, known] : kKinds)
    if (name == known) return kind;
  throw user_error("there is no kind of column '{}'; there are {}", name, one_of(column_kinds()));
}

DateOrder order_of(ColumnKind kind) {
  return kind == date ? DateOrder::ymd : kind == date_dmy ? DateOrder::dmy : DateOrder::mdy;
}

/// A word as a value of the kind; none if it is not one.
std::optional<DateValue> value_of(ColumnKind kind, const std::string& word) {
  std::optional<double> found;
  switch (kind) {
    case date:
    case date_dmy:
    case date_mdy: return date_of(order_of(kind), word);
    case boolean:
      if (const auto truth = truth_of(word)) found = *truth ? 1 : 0;
      break;
    case decimal_comma: found = number_with(Commas::decimal, word); break;
    case thousands: found = number_with(Commas::thousands, word); break;
    default: {
      double value = 0;
      if (read_cell(word, value).empty()) found = value;
    }
  }
  if (!found) return std::nullopt;
  return DateValue{.days = *found};
}

bool has_fractions(const ColumnCells& cells, std::span<const int64_t> rows) {
  return std::ranges::any_of(rows, [&](int64_t row) {
    const double code = cells[static_cast<size_t>(row)];
    return !std::isnan(code) && code != std::floor(code);
  });
}

/// Those that some rows have.
ColumnWords words_in(const ColumnCells& cells, std::span<const int64_t> rows) {
  const ColumnWords& all = cells.words;
  ColumnWords seen;
  if (all.texts == 0 && all.missing == 0) return seen;
  std::vector<bool> known(all.words.size());
  for (const int64_t row : rows) {
    const double code = cells[static_cast<size_t>(row)];
    const auto word = TableWords::word_of(code);
    if (word) known[*word] = true;
    if (word) ++seen.texts;
    if (TableWords::is_missing(code)) ++seen.missing;
  }
  for (size_t word = 0; word < known.size(); ++word) {
    if (!known[word]) continue;
    seen.words.push_back(all.words[word]);
    seen.lines.push_back(all.lines[word]);
  }
  return seen;
}

std::string first_word(const ColumnWords& words, const std::string& place) {
  return fmt::format("{}, line {}: '{}'", place, words.lines[0], shown_cell(words.words[0]));
}

/// One of two kinds that both fit all words; the one that is left if only one does.
std::optional<ColumnKind> one_of_two(ColumnKind a, ColumnKind b, const ColumnWords& words,
                                     const std::string& place) {
  const bool is_a = all_are(a, words);
  const bool is_b = all_are(b, words);
  if (is_a && is_b)
    throw user_error("{} and all other cells of the column may be {} or {}; say which in data.kinds",
                     first_word(words, place), name_of_kind(a), name_of_kind(b));
  if (!is_a && !is_b) return std::nullopt;
  return is_a ? a : b;
}

ColumnKind kind_of(const ColumnCells& cells, std::span<const int64_t> rows, const std::string& place) {
  const ColumnWords words = words_in(cells, rows);
  const auto count = std::ssize(rows);
  if (words.missing == count) return left_out;
  if (words.texts == 0) return number;
  const bool only_texts = words.texts + words.missing == count;
  const bool fractions = has_fractions(cells, rows);
  if (std::ranges::all_of(words.words, is_padded)) return fractions ? number : category;
  const bool commas = !fractions || only_texts;
  if (commas)
    if (const auto kind = one_of_two(decimal_comma, thousands, words, place)) return *kind;
  if (only_texts) {
    if (all_are(boolean, words)) return boolean;
    if (all_are(date, words)) return date;
    if (const auto kind = one_of_two(date_dmy, date_mdy, words, place)) return *kind;
    return category;
  }
  double unused = 0;
  const auto wrong = std::ranges::find_if(
      words.words, [&](const std::string& word) { return !read_cell(word, unused).empty(); });
  const auto at = static_cast<size_t>(wrong - words.words.begin());
  throw user_error(
      "{}, line {}{}; {} other cells of the column are numbers; if they are categories, say so in data.kinds",
      place, words.lines[at], read_cell(*wrong, unused), count - words.texts - words.missing);
}

/// The most frequent words of the training rows; of equal ones the first by name. The others are pooled.
void choose_words(ColumnRule& rule, const ColumnCells& cells, std::span<const int64_t> rows) {
  std::map<std::string, int64_t> counts;
  for (const int64_t row : rows) {
    const double code = cells[static_cast<size_t>(row)];
    if (!TableWords::is_missing(code)) ++counts[text_of(code, cells.words)];
  }
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [word, count] : sorted) {
    if (count < kRare || rule.words.size() == kMostCategories) break;
    rule.words.push_back(word);
  }
  rule.rare = rule.words.size() < sorted.size();
  const bool one = rule.words.size() == 1 && !rule.rare && !rule.missing;
  if (one || rule.words.empty()) rule = {.column = rule.column, .kind = left_out};  // or each row has another
}

std::string number_text(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

std::string name_of_kind(ColumnKind kind) {
  return std::ranges::find(kKinds, kind, &std::pair<ColumnKind, const char*>::first)->second;
}

bool all_are(ColumnKind kind, const ColumnWords& words) {
  return std::ranges::all_of(words.words,
                             [&](const std::string& word) { return value_of(kind, word).has_value(); });
}

bool is_date(ColumnKind kind) { return kind == date || kind == date_dmy || kind == date_mdy; }

std::vector<std::string> column_kinds() {
  std::vector<std::string> names;
  for (const auto& [kind, name] : kKinds) names.emplace_back(name);
  return names;
}

size_t ColumnRule::width() const { return names().size(); }

std::vector<std::string> ColumnRule::names() const {
  std::vector<std::string> names;
  if (kind == left_out) return names;
  if (kind == category) {
    for (const std::string& word : words) names.push_back(column + "=" + word);
    if (rare) names.push_back(column + "=(rare)");
  } else {
    names.push_back(column);
  }
  if (is_date(kind)) {
    for (const char* cycle : {"year", "week", "day"}) {
      if (std::string_view(cycle) == "day" && !time) continue;
      names.push_back(fmt::format("{}.{}.sin", column, cycle));
      names.push_back(fmt::format("{}.{}.cos", column, cycle));
    }
  }
  if (missing) names.push_back(column + "=(missing)");
  return names;
}

std::string ColumnRule::str() const {
  nlohmann::ordered_json json = {{"column", column}, {"kind", name_of_kind(kind)}};
  if (missing) json["missing"] = true;
  if (kind != category && kind != left_out) json["mean"] = mean;
  if (time) json["time"] = true;
  if (kind == category) json["words"] = words;
  if (rare) json["rare"] = true;
  return json.dump();
}

ColumnRule ColumnRule::of(const std::string& text) {
  const JsonFields fields(text, "data.encoding");
  ColumnRule rule;
  rule.column = fields.text("column");
  rule.kind = kind_named(fields.text("kind"));
  rule.missing = fields.has("missing") && fields.flag("missing");
  rule.time = fields.has("time") && fields.flag("time");
  if (fields.has("mean")) rule.mean = fields.number("mean", std::numeric_limits<double>::lowest());
  if (fields.has("words")) rule.words = fields.texts("words");
  rule.rare = fields.has("rare") && fields.flag("rare");
  return rule;
}

ColumnKind column_kind(const std::string& given, const ColumnCells& cells, std::span<const int64_t> rows,
                       const std::string& place) {
  return given.empty() ? kind_of(cells, rows, place) : kind_named(given);
}

ColumnRule decide_rule(const std::string& column, ColumnKind kind, const ColumnCells& cells,
                       std::span<const int64_t> rows, const std::string& place) {
  ColumnRule rule{.column = column, .kind = kind};
  const auto is_missing = [&](int64_t row) {
    return TableWords::is_missing(cells[static_cast<size_t>(row)]);
  };
  rule.missing = rule.kind != left_out && std::ranges::any_of(rows, is_missing);
  if (rule.kind == category) choose_words(rule, cells, rows);
  if (rule.kind == category || rule.kind == left_out) {
    rule.missing = rule.missing && rule.kind == category;
    return rule;
  }
  if (is_date(rule.kind))
    rule.time = std::ranges::any_of(cells.words.words, [&](const std::string& word) {
      const auto value = date_of(order_of(rule.kind), word);
      return value && value->time;
    });
  ColumnRule plain = rule;
  plain.missing = false;
  ColumnEncoder encoder(plain, cells, place);
  std::vector<double> features(plain.width());
  double count = 0;
  for (const int64_t row : rows) {
    if (is_missing(row)) continue;
    encoder.write(static_cast<size_t>(row), features.data());
    rule.mean += (features[0] - rule.mean) / ++count;
  }
  return rule;
}

ColumnLine described(const ColumnRule& rule, const ColumnCells& cells, std::span<const int64_t> rows) {
  int64_t missing = 0;
  std::string example;
  for (const int64_t row : rows) {
    const double code = cells[static_cast<size_t>(row)];
    if (TableWords::is_missing(code)) {
      ++missing;
    } else if (example.empty()) {
      example = text_of(code, cells.words);
    }
  }
  ColumnLine line = {shown_cell(rule.column), name_of_kind(rule.kind), std::to_string(missing)};
  if (rule.kind == category) {
    const std::string count = fmt::format("{} texts{}", rule.words.size(), rule.rare ? ", rare ones" : "");
    line.insert(line.end(), {count, "", ""});
  } else if (rule.kind == left_out || missing == std::ssize(rows)) {
    line.insert(line.end(), {"", "", ""});
  } else {
    ColumnRule plain = rule;
    plain.missing = false;
    ColumnEncoder encoder(plain, cells, "");
    std::vector<double> features(plain.width());
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    for (const int64_t row : rows) {
      if (TableWords::is_missing(cells[static_cast<size_t>(row)])) continue;
      encoder.write(static_cast<size_t>(row), features.data());
      least = std::min(least, features[0]);
      most = std::max(most, features[0]);
    }
    line.insert(line.end(), {number_text(least), number_text(rule.mean), number_text(most)});
  }
  line.push_back(shown_cell(example));
  return line;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  const auto width_of = [](const std::string& text) {
    return static_cast<size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
  };
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - width_of(row[i]) + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

ColumnEncoder::ColumnEncoder(const ColumnRule& rule, const ColumnCells& cells, const std::string& place)
    : rule_(rule), width_(rule.width()), cells_(cells), place_(place) {
  for (size_t i = 0; i < rule.words.size(); ++i) categories_[rule.words[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; rule.kind != left_out && i < cells.words.words.size(); ++i) {
    const std::string& word = cells.words.words[i];
    Read read;
    if (rule.kind == category) {
      read.category = category_of(word);
    } else {
      const auto value = value_of(rule.kind, word);
      if (!value)
        throw user_error("{}, line {}: '{}' is not a {}; a kind in data.kinds may say what the column is",
                         place, cells.words.lines[i], shown_cell(word), text_of_kind(rule.kind));
      read.value = value->days;
      read.year = value->year;
    }
    of_words_.push_back(read);
  }
}

/// −1: none.
int64_t ColumnEncoder::category_of(const std::string& word) const {
  const auto found = categories_.find(word);
  if (found != categories_.end()) return found->second;
  return rule_.rare ? std::ssize(rule_.words) : -1;
}

void ColumnEncoder::write(size_t row, double* features) {
  if (rule_.kind == left_out) return;
  const double code = cells_[row];
  const auto word = TableWords::word_of(code);
  const bool missing = TableWords::is_missing(code);
  std::fill_n(features, width_, 0.0);
  if (missing) {
    if (rule_.missing) features[width_ - 1] = 1;
    if (rule_.kind == category) return;
    if (!rule_.missing) ++unexpected_;
    features[0] = rule_.mean;  // of no day, the middle of each circle
    return;
  }
  if (rule_.kind == category) {
    const int64_t at = word ? of_words_[*word].category : category_of(word_of_number(code));
    if (at >= 0) features[at] = 1;
    return;
  }
  features[0] = word ? of_words_[*word].value : code;
  if (!is_date(rule_.kind)) return;
  if (!word)
    throw user_error("{}: {} is not a date; a kind in data.kinds may say what the column is", place_,
                     word_of_number(code));
  const double days = features[0];
  const std::array<double, 3> turns = {of_words_[*word].year, (days - 4) / 7, days - std::floor(days)};
  for (size_t i = 0; i < (rule_.time ? 3 : 2); ++i) {
    const double angle = 2 * std::numbers::pi * turns[i];
    features[1 + 2 * i] = std::sin(angle);
    features[2 + 2 * i] = std::cos(angle);
  }
}

}  // namespace telar
