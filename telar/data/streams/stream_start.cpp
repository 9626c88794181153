#include "telar/data/streams/stream_start.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "telar/core/error.h"

namespace telar {

namespace {

namespace calendar = std::chrono;

/// Takes the parts of a text, one after another.
class TimeText {
 public:
  explicit TimeText(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }

  bool take(char wanted) {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// A number of so many digits, at most `most`; -1 if there is none.
  int digits(size_t count, int most) {
    const size_t found = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    int value = 0;
    if (found < count) return -1;
    std::from_chars(rest_.data(), rest_.data() + count, value);
    rest_.remove_prefix(count);
    return value <= most ? value : -1;
  }

  /// The digits behind a point, as thousandths; those that follow are dropped.
  int thousandths() {
    int value = 0;
    for (int scale = 100; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; scale /= 10) {
      value += (rest_.front() - '0') * scale;
      rest_.remove_prefix(1);
    }
    return value;
  }

 private:
  std::string_view rest_;
};

Error no_time(std::string_view text) {
  return user_error(
      "'{}' is not a time; it must be as 2026-11-24T18:00:00Z, 2026-11-24T19:00+01:00, or milliseconds since 1970",
      text);
}

calendar::minutes zone_of(TimeText& rest, std::string_view text) {
  if (rest.take('Z')) return {};
  const bool east = rest.take('+');
  if (!east && !rest.take('-'))
    throw user_error("the time {} has no zone; write Z behind it for UTC, or the difference to it, as +01:00",
                     text);
  const int hours = rest.digits(2, 23);
  rest.take(':');
  const int minutes = rest.digits(2, 59);
  if (hours < 0 || minutes < 0) throw no_time(text);
  const calendar::minutes difference = calendar::hours(hours) + calendar::minutes(minutes);
  return east ? difference : -difference;
}

int64_t iso_time(std::string_view text) {
  TimeText rest(text);
  const int year = rest.digits(4, 9999);
  const bool month_follows = rest.take('-');
  const int month = rest.digits(2, 12);
  const bool day_follows = rest.take('-');
  const int day = rest.digits(2, 31);
  const bool time_follows = rest.take('T') || rest.take(' ');
  const int hour = rest.digits(2, 23);
  const bool minute_follows = rest.take(':');
  const int minute = rest.digits(2, 59);
  const bool seconds_follow = rest.take(':');
  const int second = seconds_follow ? rest.digits(2, 59) : 0;
  const int thousandths = seconds_follow && rest.take('.') ? rest.thousandths() : 0;
  const bool right = year >= 0 && month_follows && month >= 0 && day_follows && day >= 0 && time_follows &&
                     hour >= 0 && minute_follows && minute >= 0 && second >= 0;
  const calendar::year_month_day date{calendar::year(year), calendar::month(static_cast<unsigned>(month)),
                                      calendar::day(static_cast<unsigned>(day))};
  if (!right || !date.ok()) throw no_time(text);
  const calendar::minutes zone = zone_of(rest, text);
  if (!rest.done()) throw no_time(text);
  const auto time = calendar::sys_days(date) + calendar::hours(hour) + calendar::minutes(minute) +
                    calendar::seconds(second) + calendar::milliseconds(thousandths) - zone;
  return calendar::duration_cast<calendar::milliseconds>(time.time_since_epoch()).count();
}

/// The first message from an offset on; none if none arrives.
std::optional<Message> message_at(MessageLog& log, int partition, int64_t offset) {
  constexpr int kTries = 100;
  log.seek(partition, offset);
  for (int i = 0; i < kTries; ++i) {
    if (std::optional<Message> message = log.next(partition, calendar::milliseconds(100))) return message;
  }
  return std::nullopt;
}

}  // namespace

int64_t time_from(std::string_view text) {
  int64_t milliseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), milliseconds);
  const bool number = error == std::errc() && end == text.data() + text.size() && milliseconds >= 0;
  constexpr int64_t kFirstSeconds = 100'000'000;  // 1973 in seconds, and 2 January 1970 in milliseconds
  if (number && milliseconds >= kFirstSeconds && milliseconds < 1000 * kFirstSeconds)
    throw user_error(
        "the time {} looks like seconds since 1970, but milliseconds are needed: {}000, or a time such as 2026-11-24T18:00Z",
        text, text);
  if (!number) milliseconds = iso_time(text);
  if (milliseconds < 0) throw user_error("the time {} is before 1970, when times of messages begin", text);
  return milliseconds;
}

std::vector<int64_t> offsets_since(MessageLog& log, int64_t time, std::string_view described,
                                   const std::vector<OffsetRange>& ranges) {
  const std::vector<std::optional<int64_t>> found = log.since(time);
  if (std::ranges::none_of(found, [](const auto& offset) { return offset.has_value(); }))
    throw user_error("topic '{}' has no message of {} or later; data.start: latest begins with the next one",
                     log.name(), described);
  std::vector<int64_t> offsets;
  for (size_t p = 0; p < found.size(); ++p) {
    offsets.push_back(found[p].value_or(ranges[p].end));
    if (!found[p]) continue;
    const std::optional<Message> first = message_at(log, static_cast<int>(p), *found[p]);
    if (first && first->time < time)
      throw user_error(
          "topic '{}', partition {}: the brokers say that offset {} is the first of {} or later, but its message is older ({} and {} ms since 1970); they do not know the offsets of times, so give offsets",
          log.name(), p, *found[p], described, first->time, time);
  }
  return offsets;
}

}  // namespace telar
