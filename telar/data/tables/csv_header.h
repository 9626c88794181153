#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telar/data/tables/csv_rows.h"

namespace telar {

enum class CsvHeader : uint8_t { automatic, present, absent };

/// What line 1 of a table is taken for.
struct FirstLine {
  bool header = true;
  std::string note;  ///< a sentence on it, where it could be taken for something else; else empty
};

/// Decides by the contents of a table. `known`: names of columns, if some are expected.
///
/// With names, line 1 is a header if it has one of them (of names that are numbers, all), or no number at
/// all. Without, it is a header if it has texts and no number. Numbers are a header if the columns have no
/// such numbers: each of them is further from its column than the column is wide; of consecutive numbers from
/// 0 or 1 one of them suffices. Throws Error (user), with both readings, if line 1 may be either.
FirstLine first_line(std::string_view text, char separator, const std::string& name,
                     const std::vector<std::string>& known);

}  // namespace telar
