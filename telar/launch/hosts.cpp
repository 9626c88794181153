#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "telar/core/error.h"
#include "telar/io/text_file.h"
#include "telar/launch/engines.h"

namespace telar {

namespace {

constexpr int kMostPlaces = 10'000;

int places_of(std::string_view digits, const std::string& text) {
  int places = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, places);
  if (error != std::errc() || stop != end || places < 1 || places > kMostPlaces)
    throw user_error("'{}': '{}' is not a number of places from 1 to {}", text, digits, kMostPlaces);
  return places;
}

/// Appends the places of "HOST" or "HOST:N"; of "HOST" there are `places`. An IPv6 address is in brackets.
void add_host(std::vector<LaunchSlot>& slots, const std::string& text, int places = 1) {
  std::string host = text;
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos && text.find(']', colon) == std::string::npos) {
    places = places_of(std::string_view(text).substr(colon + 1), text);
    host = text.substr(0, colon);
  }
  std::string address = host.substr(host.find('@') + 1);  // npos + 1 is 0
  if (address.size() > 2 && address.front() == '[' && address.back() == ']') {
    address = address.substr(1, address.size() - 2);
    host.erase(std::remove_if(host.begin(), host.end(), [](char c) { return c == '[' || c == ']'; }),
               host.end());
  }
  const bool printable = std::ranges::all_of(host, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (address.empty() || host.front() == '-' || !printable)
    throw user_error("'{}' is not a host; give hosts as in node1,node2:4", text);
  slots.insert(slots.end(), static_cast<size_t>(places), {host, address});
}

}  // namespace

std::vector<LaunchSlot> slots_of_hosts(const std::string& list) {
  std::vector<LaunchSlot> slots;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) add_host(slots, word);
  if (slots.empty()) throw user_error("the list of hosts is empty; give hosts as in node1,node2:4");
  return slots;
}

std::vector<LaunchSlot> slots_of_host_file(const std::string& file) {
  std::vector<LaunchSlot> slots;
  std::istringstream lines(read_text_file(file, "the file of hosts"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    if (!(words >> host)) continue;
    int places = 1;
    constexpr std::string_view kSlots = "slots=";
    for (std::string word; words >> word;)
      if (word.starts_with(kSlots)) places = places_of(std::string_view(word).substr(kSlots.size()), line);
    add_host(slots, host, places);
  }
  if (slots.empty()) throw user_error("{} names no host", file);
  return slots;
}

}  // namespace telar
