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
  Spread seconds;    ///< until the common target
  double value = 0;  ///< the final accuracy or loss
  double rate = 0;   ///< samples per second
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

/// What the final values are compared by, and what difference between them counts for nothing.
struct Scale {
  const Measure& measure;
  double best = 0;
  double tolerance = 0;
  std::string why;  ///< the reason of the tolerance

  bool good(double value) const { return std::abs(value - best) <= tolerance; }
};

Scale scale_of(const Measure& measure, const std::vector<Entry>& all, const Judges& judges) {
  double best = all.front().value;
  for (const Entry& entry : all)
    if (measure.better(entry.value, best)) best = entry.value;
  const std::string kind = judges.validation ? "validation samples" : "training samples";
  if (!measure.higher) {
    // What chance does to a mean loss is known only from the loss of each sample.
    const double near = (kNear - 1) * std::abs(best);
    return {measure, best, near, fmt::format("a tenth of the lowest, on the {}", kind)};
  }
  const double noise = chance(best, judges);
  return {measure, best, noise,
          fmt::format("chance allows on {:.0f} {} ({:.4f})", judges.samples, kind, noise)};
}

std::string value_text(const Measure& measure, double value) {
  return measure.higher ? fmt::format("{:.4f}", value) : fmt::format("{:.4g}", value);
}

/// Compares the final values, as text.
std::string final_values(const std::vector<Entry>& all, const std::vector<Entry>& worse, const Scale& scale) {
  const Measure& measure = scale.measure;
  const auto [best, last] = std::minmax_element(all.begin(), all.end(), [&](const Entry& a, const Entry& b) {
    return measure.better(a.value, b.value);
  });
  const auto text = [&](double value) { return value_text(measure, value); };
  if (worse.empty()) {
    const auto [low, high] = std::minmax(best->value, last->value);
    return fmt::format(" The final values of the {}, {} to {}, differ by no more than {}.", measure.name,
                       text(low), text(high), scale.why);
  }
  std::vector<std::string> names;
  for (const Entry& entry : worse) names.push_back(fmt::format("{} at {}", entry.name, text(entry.value)));
  return fmt::format(" {} had the {} final {}, {}; these were {} by more than {}: {}.", best->name,
                     measure.higher ? "highest" : "lowest", measure.name, text(best->value),
                     measure.higher ? "lower" : "higher", scale.why,
                     fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

std::string Target::str() const {
  return measure->higher ? fmt::format("{:.2f}", value) : fmt::format("{:.3g}", value);
}

const Measure& measure_of(const std::vector<Learned>& contenders) {
  const bool all = std::ranges::all_of(
      contenders, [](const Learned& one) { return reached_value(one, kAccuracy).has_value(); });
  return all ? kAccuracy : kLoss;
}

std::optional<Target> common_target(const std::vector<Learned>& contenders) {
  const Measure& measure = measure_of(contenders);
  std::optional<double> worst;
  for (const Learned& one : contenders) {
    const auto value = reached_value(one, measure);
    if (!value) return std::nullopt;
    if (!worst || measure.better(*worst, *value)) worst = value;
  }
  if (!worst) return std::nullopt;
  if (measure.higher) return Target{&measure, std::floor(100 * *worst + 1e-9) / 100};
  const double unit = *worst == 0 ? 1 : std::pow(10, std::floor(std::log10(std::abs(*worst))) - 2);
  return Target{&measure, std::max(*worst, std::ceil(*worst / unit) * unit)};
}

std::string advice(const std::vector<Learned>& contenders, const Judges& judges) {
  if (contenders.empty()) return "Nothing was measured completely, so there is nothing to choose from.";
  if (contenders.size() == 1)
    return fmt::format("Only {} was measured completely, so there is nothing to choose from.",
                       contenders[0].name);
  const std::optional<Target> common = common_target(contenders);
  if (!common)
    return "Not every training measured an accuracy, or else a loss, so there is nothing to choose by.";
  const Measure& measure = *common->measure;
  std::vector<Entry> all;
  for (const Learned& one : contenders) {
    const auto seconds = seconds_to(one, measure, common->value);
    const auto value = final_value(one, measure);
    const auto rate = samples_per_second(one);
    if (!seconds || !value || !rate)
      return fmt::format("{} {}, so there is nothing to choose by.", one.name,
                         rate ? "ended without a finite loss" : "is too short to be timed");
    all.push_back({one.name, *seconds, *value, rate->median});
  }
  const Scale scale = scale_of(measure, all, judges);

  std::vector<Entry> good;
  std::vector<Entry> worse;
  for (const Entry& entry : all) (scale.good(entry.value) ? good : worse).push_back(entry);
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
      "Choose {}: it reached {} of {}, which all reached, after {} of training ({:.0f} samples/s)",
      chosen.name, measure.one, common->str(), time_text(chosen), chosen.rate);
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
  text += "." + final_values(all, worse, scale);
  for (const Entry& entry : worse) {
    if (entry.seconds.most < chosen.seconds.least)
      text += fmt::format(" {} reached {} faster: {}.", entry.name, common->str(), time_text(entry));
  }
  if (!measure.higher) text += " The loss decides, because not every training has an accuracy.";
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
