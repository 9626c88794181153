#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

/// A text and its class.
struct LabelledText {
  std::string text;
  std::string label;  ///< empty if none was asked for
  std::string place;  ///< where it is, for messages: "reviews.csv, line 3"
};

/// What is asked of each text: the model needs no labels to predict.
enum class TextUse : uint8_t { train, predict };

/// Which columns of a table are text and label, by their names in line 1.
struct TextColumns {
  std::string text;
  std::string label;
  char separator = ',';
};

/// The rows of a table in the form of RFC 4180: a cell that is quoted may have separators and line ends, and
/// two quotation marks stand for one. Blank lines do not count. Throws Error (user), with the line: a
/// quotation mark that is not closed, or with more after it than a separator; a row with another number of
/// cells than line 1; columns that line 1 does not have, or twice; a label that is empty or no UTF-8.
std::vector<LabelledText> texts_of_table(std::string_view table, const std::string& name, TextUse use,
                                         const TextColumns& columns);

/// A text on each line, after its label and a tab. To predict, the whole line is the text, also if it is
/// blank; otherwise blank lines do not count. Throws Error (user), with the line: no tab; a label that is
/// empty or no UTF-8.
std::vector<LabelledText> texts_of_lines(std::string_view lines, const std::string& name, TextUse use);

struct TextFolder {
  std::vector<LabelledText> texts;
  int64_t ignored = 0;  ///< files and folders that are no texts
};
/// Whether a file of this name is a text of a folder: it ends with .txt.
bool is_text_file(const std::string& name);
/// The .txt files in the folder's subfolders, whose names are the labels. Hidden ones do not count. Throws
/// Error (user): no such folder, no subfolders, one without texts, a compressed file.
TextFolder texts_of_folder(const std::string& folder);

/// The contents of a file as UTF-8 text, without a byte-order mark. Throws Error (user) for a compressed
/// file, and for UTF-16.
std::string_view plain_text(std::string_view contents, const std::string& path);

}  // namespace telar
