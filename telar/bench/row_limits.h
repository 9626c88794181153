#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "telar/bench/gpu_limits.h"
#include "telar/bench/limits.h"
#include "telar/bench/place.h"
#include "telar/bench/result.h"

namespace telar::bench {

/// The limits for an experiment's rows. They are looked up or measured when the first row needs them.
class RowLimits {
 public:
  /// Sets the limit of `measured`. If it is faster than the limit by more than 3 %, the limit is measured
  /// again, and so is the row, by `again` if given. If it is still faster, one of the two is wrong, and the
  /// row is marked.
  void set(Measured& measured, const Place& place, RowPrecision precision,
           const std::function<Measured()>& again = {});
  /// Remarks on the limits, as sentences to print below the rows.
  std::vector<std::string> remarks() const;

 private:
  double milliseconds(const Place& place, RowPrecision precision, const Measured& measured);
  void renew(const Place& place);
  /// Stores the result of `find` under this number; stores nothing, and adds a remark, if it cannot be
  /// measured or kept.
  template <typename Known>
  void look_up(std::map<int, std::optional<Known>>& known, int number, const std::string& rows,
               const std::function<Known()>& find);

  std::map<int, std::optional<Limits>> processors_;  // by threads
  std::map<int, std::optional<GpuLimits>> gpus_;     // by number
  std::vector<std::string> remarks_;
};

}  // namespace telar::bench
