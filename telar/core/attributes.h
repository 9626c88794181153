#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace telar {

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

/// Values by name and in alphabetical order: the constants of an operation (stride, axis, epsilon …), or the
/// options of a layer, a strategy or a source. Batch size, learning rate, step and seed are never among an
/// operation's: those are inputs of the graph.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> entries) : entries_(entries) {}

  bool has(const std::string& name) const { return entries_.contains(name); }
  void set(const std::string& name, Attribute value) { entries_[name] = std::move(value); }
  /// A copy with one attribute set.
  Attributes with(const std::string& name, Attribute value) const;

  /// Throws std::out_of_range or std::bad_variant_access when the attribute is missing or of another type: a
  /// bug of ours.
  bool flag(const std::string& name) const { return std::get<bool>(entries_.at(name)); }
  int64_t integer(const std::string& name) const { return std::get<int64_t>(entries_.at(name)); }
  double real(const std::string& name) const { return std::get<double>(entries_.at(name)); }
  const std::string& text(const std::string& name) const { return std::get<std::string>(entries_.at(name)); }
  const std::vector<int64_t>& integers(const std::string& name) const {
    return std::get<std::vector<int64_t>>(entries_.at(name));
  }
  const std::vector<double>& reals(const std::string& name) const {
    return std::get<std::vector<double>>(entries_.at(name));
  }
  const std::vector<std::string>& texts(const std::string& name) const {
    return std::get<std::vector<std::string>>(entries_.at(name));
  }
  bool flag_or(const std::string& name, bool otherwise) const { return has(name) ? flag(name) : otherwise; }
  std::string text_or(const std::string& name, const std::string& otherwise) const {
    return has(name) ? text(name) : otherwise;
  }

  const Attribute& at(const std::string& name) const { return entries_.at(name); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  /// "{padding=[1, 1], stride=[2, 2]}", or "" when empty.
  std::string str() const;
  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, Attribute> entries_;
};

}  // namespace telar
