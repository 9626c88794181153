#include "telar/observe/adwin.h"

#include <cmath>
#include <optional>

namespace telar {

namespace {

/// Some values that follow each other.
struct WindowPart {
  double values = 0;
  double sum = 0;
  double squares = 0;  ///< Σ (x − mean)²

  double mean() const { return sum / values; }

  void append(double more, const Adwin::Bucket& bucket) {
    if (values > 0) {
      const double apart = mean() - bucket.sum / more;
      squares += apart * apart * values * more / (values + more);
    }
    squares += bucket.squares;
    sum += bucket.sum;
    values += more;
  }
};

double values_in_bucket(size_t row) { return std::ldexp(1.0, static_cast<int>(row)); }

/// Calls `use` for each bucket from the oldest one, with the number of its values.
template <typename Use>
void for_each_bucket(const std::vector<std::vector<Adwin::Bucket>>& rows, Use use) {
  for (size_t r = rows.size(); r > 0; --r)
    for (const Adwin::Bucket& bucket : rows[r - 1]) use(values_in_bucket(r - 1), bucket);
}

WindowPart whole_window(const std::vector<std::vector<Adwin::Bucket>>& rows) {
  WindowPart whole;
  for_each_bucket(rows, [&](double values, const Adwin::Bucket& bucket) { whole.append(values, bucket); });
  return whole;
}

/// By how much the newer part's mean exceeds the older part's, at the first split where they differ too much.
std::optional<double> excess_of_newer(const std::vector<std::vector<Adwin::Bucket>>& rows, double delta) {
  const WindowPart whole = whole_window(rows);
  const double variance = whole.squares / whole.values;
  const double confidence = std::log(2 * std::log(whole.values) / delta);
  std::optional<double> found;
  WindowPart older;
  for_each_bucket(rows, [&](double values, const Adwin::Bucket& bucket) {
    older.append(values, bucket);
    const double newer = whole.values - older.values;
    if (found || newer < 1) return;
    const double apart = (whole.sum - older.sum) / newer - older.mean();
    const double inverse = 1 / older.values + 1 / newer;
    const double most = std::sqrt(2 * inverse * variance * confidence) + 2 * inverse * confidence / 3;
    if (std::abs(apart) > most) found = apart;
  });
  return found;
}

void merge_oldest(std::vector<std::vector<Adwin::Bucket>>& rows) {
  for (size_t r = 0; r < rows.size() && rows[r].size() > Adwin::kMost; ++r) {
    if (r + 1 == rows.size()) rows.emplace_back();
    WindowPart both;
    for (size_t b = 0; b < 2; ++b) both.append(values_in_bucket(r), rows[r][b]);
    rows[r].erase(rows[r].begin(), rows[r].begin() + 2);
    rows[r + 1].push_back({both.sum, both.squares});
  }
}

void drop_oldest(std::vector<std::vector<Adwin::Bucket>>& rows) {
  rows.back().erase(rows.back().begin());
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
}

}  // namespace

bool Adwin::add(double delta, std::span<const double> values) {
  if (rows.empty()) rows.emplace_back();
  for (const double value : values) {
    rows.front().push_back({value, 0});
    merge_oldest(rows);
  }
  since_drift += static_cast<int64_t>(values.size());
  bool drift = false;
  while (size() > 1) {
    const std::optional<double> excess = excess_of_newer(rows, delta);
    if (!excess) break;
    drift = drift || (*excess > 0 && size() <= since_drift);
    drop_oldest(rows);
  }
  if (drift) since_drift = 0;
  return drift;
}

int64_t Adwin::size() const { return static_cast<int64_t>(whole_window(rows).values); }

double Adwin::mean() const { return whole_window(rows).mean(); }

}  // namespace telar
