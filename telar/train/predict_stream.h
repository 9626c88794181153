#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/core/latency_counts.h"
#include "telar/data/messages/damaged_messages.h"
#include "telar/data/messages/message_format.h"
#include "telar/data/streams/message_log.h"
#include "telar/train/newer_parameters.h"
#include "telar/train/trained.h"

namespace telar {

/// What a model says about a message.
struct Prediction {
  int partition = 0;
  int64_t offset = 0;
  std::optional<std::string> key;
  std::span<const float> outputs;  ///< as of predict() (train/trained.h)
  int64_t step = 0;                ///< that has made the parameters
};

/// Where predictions are written. It throws Error (run) if that fails.
class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  /// False: a stop came before there was room for it.
  virtual bool write(const Prediction& prediction) = 0;
  /// Waits until all are stored. False: a stop came, and some are not stored after a while.
  virtual bool store() = 0;
};

/// How far a stream is predicted.
struct PredictProgress {
  int64_t predicted = 0;  ///< messages
  int64_t left_out = 0;   ///< because they are damaged
  double rate = 0;        ///< messages a second, over about 5 seconds
  std::optional<int64_t> behind;
  int64_t step = 0;  ///< that has made the parameters
};

struct PredictStreamOptions {
  MessageFormat format;
  FeatureScale scale = {};         ///< for normalising the features
  std::vector<int64_t> starts;     ///< one for each partition
  std::vector<int64_t> ends = {};  ///< the same; empty: none
  int64_t messages = 0;            ///< after which it ends; 0: it does not
  int64_t batch = 256;             ///< the most messages that are predicted together
  double linger_seconds = 0.02;    ///< after which a batch is predicted although it is not full
  DamageOptions damage = {};
  std::function<void(const PredictProgress&)> progress = {};  ///< called often; may be empty
  std::function<bool()> stop_requested = {};
};

struct PredictedStream {
  int64_t predicted = 0;
  int64_t left_out = 0;
  double seconds = 0;
  LatencyCounts latency;      ///< from a message's arrival until its prediction was written
  bool stored = true;         ///< false: a stop came while the last predictions could not be stored
  std::vector<int64_t> next;  ///< of each partition, behind the last message that counts as used
};

/// Predicts the messages of a topic as they arrive, with the newest parameters of a run. About once a second,
/// and at the end, all predictions are stored, and then the log is told that their messages are used: after a
/// crash, those since then are predicted again. Throws Error (user) for damaged messages like StreamBatches,
/// after it has stored the predictions before.
PredictedStream predict_stream(Trained& trained, NewerParameters& parameters, MessageLog& log,
                               PredictionWriter& writer, const PredictStreamOptions& options);

}  // namespace telar
