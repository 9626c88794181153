#include "telar/data/texts/labelled_texts.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "telar/comm/printable.h"
#include "telar/core/error.h"
#include "telar/core/utf8.h"
#include "telar/data/files.h"
#include "telar/data/pictures/image_folder.h"
#include "telar/data/texts/text_windows.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

/// A class becomes part of the run's files, so it must be text.
std::string label_of(std::string_view cell, const std::string& place) {
  const std::string_view label = trimmed(cell);
  if (label.empty()) throw user_error("{}: the label is empty; each text needs one", place);
  if (!is_utf8(label) || label.find('\0') != std::string_view::npos)
    throw user_error("{}: the label is no UTF-8 text", place);
  return std::string(label);
}

std::string place_of(const std::string& name, size_t line) { return fmt::format("{}, line {}", name, line); }

/// The rows of a table, as RFC 4180 describes them.
class TableRows {
 public:
  TableRows(std::string_view text, const std::string& name, char separator)
      : text_(text), name_(name), separator_(separator) {}

  /// Advances to the next row that is not blank; false at the end. A cell in quotation marks is none.
  bool next() {
    while (at_ < text_.size()) {
      cells_.clear();
      quoted_ = false;
      begun_ = line_;
      do add_cell();
      while (at_ < text_.size() && text_[at_++] == separator_);
      ++line_;
      if (cells_.size() > 1 || quoted_ || !trimmed(cells_[0]).empty()) return true;
    }
    return false;
  }

  const std::vector<std::string>& cells() const { return cells_; }
  std::string place() const { return place_of(name_, begun_); }

 private:
  /// Ends before a separator, the LF of a line end, or the end of the text.
  void add_cell() {
    if (at_ < text_.size() && text_[at_] == '"') return add_quoted();
    const char ends[] = {separator_, '\n', '\0'};
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string_view cell = text_.substr(at_, end - at_);
    at_ = end;
    if (at_line_end() && cell.ends_with('\r')) cell.remove_suffix(1);
    cells_.emplace_back(cell);
  }

  void add_quoted() {
    quoted_ = true;
    std::string cell;
    for (++at_;; ++at_) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos)
        throw user_error("{}, cell {}: the quotation mark is not closed", place(), cells_.size() + 1);
      const std::string_view part = text_.substr(at_, quote - at_);
      line_ += static_cast<size_t>(std::ranges::count(part, '\n'));
      cell += part;
      at_ = quote + 1;
      if (at_ >= text_.size() || text_[at_] != '"') break;
      cell += '"';
    }
    if (text_.substr(at_).starts_with("\r\n") || text_.substr(at_) == "\r") ++at_;
    if (!at_line_end() && text_[at_] != separator_)
      throw user_error(
          "{}, cell {}: after a quotation mark that closes a cell, the next one must begin; a quotation mark within a quoted cell is written twice",
          place(), cells_.size() + 1);
    cells_.push_back(std::move(cell));
  }

  bool at_line_end() const { return at_ >= text_.size() || text_[at_] == '\n'; }

  std::string_view text_;
  const std::string& name_;
  char separator_;
  size_t at_ = 0;
  size_t line_ = 1;   ///< of at_
  size_t begun_ = 1;  ///< the line where the row begins
  std::vector<std::string> cells_;
  bool quoted_ = false;  ///< one of them
};

std::string names_in(const std::vector<std::string>& header) {
  constexpr size_t kShown = 20;
  std::vector<std::string> names;
  for (const std::string& name : header)
    if (names.size() < kShown) names.push_back(fmt::format("'{}'", printable(name, 40)));
  return fmt::format("{}{}", fmt::join(names, ", "), header.size() > kShown ? ", …" : "");
}

size_t column_named(const std::vector<std::string>& header, const std::string& column, const char* key,
                    const std::string& place) {
  const auto named = [&](const std::string& name) { return trimmed(name) == column; };
  const auto found = std::ranges::count_if(header, named);
  if (found == 1) return static_cast<size_t>(std::ranges::find_if(header, named) - header.begin());
  throw user_error(
      "{}: {} columns are called '{}' (data.{}); line 1 must have it once, and has {}; for lines of a label, a tab and a text without such names, set data.form to lines",
      place, found == 0 ? "no" : fmt::format("{}", found), column, key, names_in(header));
}

}  // namespace

std::string_view plain_text(std::string_view contents, const std::string& path) {
  refuse_compressed(path, contents);
  if (contents.starts_with("\xFF\xFE") || contents.starts_with("\xFE\xFF"))
    throw user_error("{}: is UTF-16; convert it to UTF-8, as with iconv -f UTF-16 -t UTF-8", path);
  if (contents.starts_with("\xEF\xBB\xBF")) contents.remove_prefix(3);
  return contents;
}

std::vector<LabelledText> texts_of_table(std::string_view table, const std::string& name, TextUse use,
                                         const TextColumns& columns) {
  TableRows rows(table, name, columns.separator);
  if (!rows.next()) throw user_error("{}: has no rows", name);
  const std::vector<std::string> header = rows.cells();
  const size_t text = column_named(header, columns.text, "text", rows.place());
  const bool labelled = use != TextUse::predict;
  const size_t label = labelled ? column_named(header, columns.label, "label", rows.place()) : 0;
  std::vector<LabelledText> texts;
  while (rows.next()) {
    const std::vector<std::string>& cells = rows.cells();
    if (cells.size() != header.size())
      throw user_error("{}: has {} cell{}, but line 1 has {}", rows.place(), cells.size(),
                       cells.size() == 1 ? "" : "s", header.size());
    texts.push_back({cells[text], labelled ? label_of(cells[label], rows.place()) : "", rows.place()});
  }
  return texts;
}

std::vector<LabelledText> texts_of_lines(std::string_view lines, const std::string& name, TextUse use) {
  std::vector<LabelledText> texts;
  for (size_t number = 1; !lines.empty(); ++number) {
    std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string place = place_of(name, number);
    const size_t tab = line.find('\t');
    if (use == TextUse::predict) {
      texts.push_back({std::string(line), "", place});
    } else if (tab != std::string_view::npos) {
      texts.push_back({std::string(line.substr(tab + 1)), label_of(line.substr(0, tab), place), place});
    } else if (!trimmed(line).empty()) {
      throw user_error("{}: has no tab; each line is a label, a tab and a text (data.form: lines)", place);
    }
  }
  return texts;
}

bool is_text_file(const std::string& name) { return name.ends_with(".txt"); }

TextFolder texts_of_folder(const std::string& folder) {
  if (!fs::is_directory(folder)) throw user_error("{}: there is no such folder", folder);
  TextFolder found;
  try {
    for (const fs::directory_entry& entry : visible_entries(folder)) {
      if (!entry.is_directory()) {
        ++found.ignored;
        continue;
      }
      const size_t before = found.texts.size();
      const std::string label = label_of(entry.path().filename().string(), entry.path().string());
      for (const fs::directory_entry& file : visible_entries(entry)) {
        const std::string path = file.path().string();
        if (!file.is_regular_file() || !is_text_file(path)) {
          ++found.ignored;
          continue;
        }
        const Bytes bytes = read_listed_file(path);
        const std::string_view contents(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        found.texts.push_back({std::string(plain_text(contents, path)), label, path});
      }
      if (found.texts.size() == before)
        throw user_error("{}: this class has no .txt files; every class needs at least one",
                         entry.path().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw user_error("{}: cannot be read: {}", error.path1().string(), error.code().message());
  }
  if (found.texts.empty())
    throw user_error("{}: has no subfolders; texts are expected in one folder for each class", folder);
  return found;
}

}  // namespace telar
