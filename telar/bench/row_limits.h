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

/// The limits of an experiment's rows, looked up, or measured, when the first row needs them.
class RowLimits {
 public:
  /// Puts the limit beside what was measured. When that is faster by more than 3 %, the limit is measured anew, and what was measured, too,
  /// by `again`, where it is given; is it faster still, one of the two is wrong, and it is marked.
  void set(Measured& measured, const Place& place, RowPrecision precision,
           const std::function<Measured()>& again = {});
  /// What is to be said of the limits below the rows: sentences.
  std::vector<std::string> remarks() const;

 private:
  double milliseconds(const Place& place, RowPrecision precision, const Measured& measured);
  void renew(const Place& place);
  /// Puts what `find` measures under this number; nothing, with a remark, where it cannot be measured or kept.
  template <typename Known>
  void look_up(std::map<int, std::optional<Known>>& known, int number, const std::string& rows,
               const std::function<Known()>& find);

  std::map<int, std::optional<Limits>> processors_;  // by threads
  std::map<int, std::optional<GpuLimits>> gpus_;     // by number
  std::vector<std::string> remarks_;
};

}  // namespace telar::bench
