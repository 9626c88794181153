#include "telar/core/error.h"
#include "telar/data/tables/csv_columns.h"
#include "telar/data/tables/csv_labels.h"

namespace telar {

class CsvLine::Taken {
 public:
  Taken(const CsvOptions& options, bool labelled, int64_t features, const std::string& name)
      : options_(options),
        labelled_(labelled),
        features_(static_cast<size_t>(features)),
        name_(name),
        rows_(options.separator, name_) {}

  size_t take(std::string_view text) {
    rows_.begin(text);
    size_t lines = 0;
    while (rows_.next()) ++lines;
    if (lines != 1) throw user_error("{} has {} lines; it must be one", name_, lines);
    const size_t cells = rows_.cells().size();
    label_at_ = cells;
    if (!labelled_ && cells == features_) return cells;
    label_at_ = label_column(options_, {}, cells, rows_);
    return cells - 1;
  }

  /// T: float or double.
  template <typename T>
  void read(std::span<T> features, std::span<std::byte> label) const {
    size_t feature = 0;
    for (size_t column = 0; feature < features.size(); ++column) {
      if (column != label_at_) features[feature++] = static_cast<T>(number(column, 0));
    }
    if (!labelled_) return;
    const double value = number(label_at_, options_.classes);
    if (options_.classes > 0) {
      as_ints(label)[0] = static_cast<int32_t>(value);
    } else {
      as_floats(label)[0] = static_cast<float>(value);
    }
  }

 private:
  double number(size_t column, int64_t classes) const {
    double value = 0;
    const std::string fault = read_value(rows_.cells()[column], classes, value);
    if (!fault.empty()) throw user_error("{}{}", place_of({name_, {}}, rows_.line(), column), fault);
    return value;
  }

  CsvOptions options_;
  bool labelled_;
  size_t features_;
  std::string name_;
  CsvRows rows_;
  size_t label_at_ = 0;
};

CsvLine::CsvLine(const CsvOptions& options, bool labelled, int64_t features, const std::string& name)
    : taken_(std::make_unique<Taken>(options, labelled, features, name)) {}
CsvLine::~CsvLine() = default;

size_t CsvLine::take(std::string_view text) { return taken_->take(text); }
void CsvLine::read(std::span<float> features, std::span<std::byte> label) const {
  taken_->read(features, label);
}
void CsvLine::read(std::span<double> features, std::span<std::byte> label) const {
  taken_->read(features, label);
}

}  // namespace telar
