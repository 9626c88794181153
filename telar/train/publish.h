#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "telar/data/dataset.h"
#include "telar/data/messages/message_format.h"
#include "telar/data/streams/kafka.h"

namespace telar {

/// Messages a second: from `first` to `last`, evenly within `seconds`; then `last`.
struct PublishRate {
  double first = 0;  ///< 0: as fast as possible
  double last = 0;
  double seconds = 0;

  double at(double time) const;   ///< after this many seconds
  double due(double time) const;  ///< the messages up to then
};

/// The rate of "5000", or of "1000..5000/30s". Throws Error (user) for another text.
PublishRate publish_rate(const std::string& text);

struct PublishOptions {
  KafkaTopic topic;
  int partitions = 0;         ///< of a topic that does not exist yet; 0: one, or those that there are
  MessageFormat format = {};  ///< its samples become those of the data
  int bots = 1;               ///< threads, each with its own client
  PublishRate rate = {};      ///< all bots together
  bool loop = false;          ///< begin again after the last sample, until stopped
  /// The first message whose label is changed (change_label()). Negative: none.
  int64_t labels_drift_at = -1;
  std::function<bool()> stop_requested = {};  ///< called from several threads
};

/// The label of a sample after a drift: class c becomes c + 1, the last one 0; targets change their sign.
void change_label(const SampleSpec& spec, std::span<std::byte> label);

/// The number of "labels@100000". Throws Error (user) for another text.
int64_t labels_drift_at(const std::string& text);

struct Published {
  int64_t messages = 0;
  int partitions = 0;
  double seconds = 0;
};

/// Publishes the samples of a dataset, in its order: message n is sample n mod N, in partition n mod P. So
/// who reads one message of each partition in turn has them in that order again. A partition belongs to one
/// bot, and its messages stay in order also when they are sent again after an error. Throws Error (user) for
/// more bots than partitions, and samples that the format cannot hold; Error (run) if a message is not
/// stored, also because the brokers are away when it is stopped.
Published publish(const Dataset& data, PublishOptions options);

}  // namespace telar
