#include "telar/bench/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace telar::bench {

namespace {

/// A simpler way may take this multiple of the fastest time.
constexpr double kNear = 1.1;

/// A contender, with the values that are compared.
struct Entry {
  std::string name;
  Spread seconds;  ///< until the common accuracy
  double accuracy = 0;
  double rate = 0;  ///< samples per second
};

std::string time_text(const Entry& entry) {
  return entry.seconds.most > entry.seconds.least
             ? fmt::format("{:.3g} s ({:.3g}–{:.3g})", entry.seconds.median, entry.seconds.least,
                           entry.seconds.most)
             : fmt::format("{:.3g} s", entry.seconds.median);
}

std::string names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(fmt::format("{} in {}", entry.name, time_text(entry)));
  return fmt::format("{}", fmt::join(names, ", "));
}

Entry fastest_of(const std::vector<Entry>& entries) {
  return *std::min_element(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.seconds.median < b.seconds.median;
  });
}

/// Compares the final accuracies, as text.
std::string accuracies(const std::vector<Entry>& all, const std::vector<Entry>& worse, double noise,
                       const Judges& judges) {
  const auto [least, most] = std::minmax_element(
      all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.accuracy < b.accuracy; });
  const std::string kind = judges.validation ? "validation samples" : "training samples";
  if (worse.empty()) {
    return fmt::format(
        " The final accuracies, {:.4f} to {:.4f}, differ by no more than chance allows on {:.0f} {} ({:.4f}).",
        least->accuracy, most->accuracy, judges.samples, kind, noise);
  }
  std::vector<std::string> names;
  for (const Entry& entry : worse) names.push_back(fmt::format("{} at {:.4f}", entry.name, entry.accuracy));
  return fmt::format(
      " {} had the highest final accuracy, {:.4f}; these were lower by more than chance allows on {:.0f} {} ({:.4f}): {}.",
      most->name, most->accuracy, judges.samples, kind, noise, fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

double common_accuracy(const std::vector<Learned>& contenders) {
  double lowest = 1;
  for (const Learned& one : contenders) lowest = std::min(lowest, reached_accuracy(one).value_or(0));
  return std::floor(100 * lowest + 1e-9) / 100;
}

std::string advice(const std::vector<Learned>& contenders, const Judges& judges) {
  if (contenders.empty()) return "Nothing was measured completely, so there is nothing to choose from.";
  if (contenders.size() == 1)
    return fmt::format("Only {} was measured completely, so there is nothing to choose from.",
                       contenders[0].name);
  const double common = common_accuracy(contenders);
  std::vector<Entry> all;
  for (const Learned& one : contenders) {
    const auto seconds = seconds_to(one, common);
    const auto accuracy = final_accuracy(one);
    const auto rate = samples_per_second(one);
    if (!seconds || !accuracy || !rate)
      return "Not every training measured an accuracy, so compare the loss curves instead.";
    all.push_back({one.name, *seconds, *accuracy, rate->median});
  }
  double best = 0;
  for (const Entry& entry : all) best = std::max(best, entry.accuracy);
  const double noise = chance(best, judges);

  std::vector<Entry> good;
  std::vector<Entry> worse;
  for (const Entry& entry : all) (entry.accuracy >= best - noise ? good : worse).push_back(entry);
  const Entry fastest = fastest_of(good);
  std::vector<Entry> alike;   // as fast, or hardly slower
  std::vector<Entry> unsure;  // more than slightly slower, but within the spread
  std::vector<Entry> slower;
  for (const Entry& entry : good) {
    const bool overlaps = entry.seconds.overlaps(fastest.seconds);
    const bool near = entry.seconds.median <= kNear * fastest.seconds.median;
    (near ? alike : overlaps ? unsure : slower).push_back(entry);
  }
  const Entry chosen = alike.front();
  alike.erase(alike.begin());

  std::string text = fmt::format(
      "Choose {}: it reached an accuracy of {:.2f}, which all reached, after {} of training ({:.0f} images/s)",
      chosen.name, common, time_text(chosen), chosen.rate);
  if (!alike.empty()) {
    text += fmt::format(". These differ by less than {:.0f} % or the spread: {}; {} is the simplest",
                        100 * (kNear - 1), names_of(alike), chosen.name);
  }
  if (!unsure.empty()) {
    text += fmt::format(
        ". The spread is too wide to rule out that these are as fast: {} (more --rounds may decide)",
        names_of(unsure));
  }
  if (!slower.empty()) {
    const Entry next = fastest_of(slower);
    text += fmt::format(". {} took {}, {:.2f} times as long as {}", next.name, time_text(next),
                        next.seconds.median / fastest.seconds.median, fastest.name);
  }
  text += "." + accuracies(all, worse, noise, judges);
  for (const Entry& entry : worse) {
    if (entry.seconds.most < chosen.seconds.least)
      text += fmt::format(" {} reached {:.2f} faster: {}.", entry.name, common, time_text(entry));
  }
  const bool once = std::all_of(contenders.begin(), contenders.end(),
                                [](const Learned& one) { return one.rounds.size() == 1; });
  const bool unknown =
      std::ranges::any_of(all, [](const Entry& entry) { return entry.seconds.least == entry.seconds.most; });
  if (once && unknown) {
    text +=
        " A training of one epoch has no spread, so these differences may be chance (--rounds 3 trains each three times).";
  } else if (once) {
    text +=
        " Each was trained once, so the spread is that of its epochs (--rounds 3 trains each three times).";
  }
  return text;
}

}  // namespace telar::bench
