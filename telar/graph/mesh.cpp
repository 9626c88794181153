#include "telar/graph/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

namespace {

bool has(const Axes& along, const MeshAxis& axis) {
  return std::ranges::find(along, axis.name) != along.end();
}

/// Calls visit(axis, coordinate) for each axis, the last one first.
template <typename Visit>
void for_coordinates(const std::vector<MeshAxis>& axes, int64_t worker, const Visit& visit) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    visit(*axis, worker % axis->size);
    worker /= axis->size;
  }
}

/// The place of a worker among those that have its coordinates on all axes but the chosen ones.
template <typename Chosen>
int64_t place_along(const std::vector<MeshAxis>& axes, int64_t worker, const Chosen& chosen) {
  int64_t place = 0;
  int64_t stride = 1;
  for_coordinates(axes, worker, [&](const MeshAxis& axis, int64_t coordinate) {
    if (!chosen(axis)) return;
    place += coordinate * stride;
    stride *= axis.size;
  });
  return place;
}

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes, int64_t processes) : axes_(std::move(axes)), processes_(processes) {
  for (const MeshAxis& axis : axes_)
    if (axis.size < 1) throw run_error("the axis '{}' of a mesh has {} workers", axis.name, axis.size);
  if (processes < 1 || workers() % processes != 0)
    throw run_error("{} workers cannot be divided among {} processes", workers(), processes);
}

int64_t Mesh::size(std::string_view axis) const {
  const auto found = std::ranges::find(axes_, axis, &MeshAxis::name);
  return found == axes_.end() ? 1 : found->size;
}

int64_t Mesh::size(const Axes& along) const {
  int64_t size = 1;
  for (const MeshAxis& axis : axes_)
    if (has(along, axis)) size *= axis.size;
  return size;
}

int64_t Mesh::coordinate(int64_t worker, std::string_view axis) const {
  return place_along(axes_, worker, [&](const MeshAxis& other) { return other.name == axis; });
}

int64_t Mesh::rank(int64_t worker, const Axes& along) const {
  return place_along(axes_, worker, [&](const MeshAxis& axis) { return has(along, axis); });
}

int64_t Mesh::group(int64_t worker, const Axes& along) const {
  return place_along(axes_, worker, [&](const MeshAxis& axis) { return !has(along, axis); });
}

int64_t Mesh::member(int64_t worker, const Axes& along, int64_t rank) const {
  int64_t number = 0;
  int64_t stride = 1;
  for_coordinates(axes_, worker, [&](const MeshAxis& axis, int64_t coordinate) {
    if (has(along, axis)) {
      coordinate = rank % axis.size;
      rank /= axis.size;
    }
    number += coordinate * stride;
    stride *= axis.size;
  });
  return number;
}

std::vector<int> Mesh::members(int64_t worker, const Axes& along) const {
  std::vector<int> members;
  for (int64_t rank = 0; rank < size(along); ++rank)
    members.push_back(static_cast<int>(member(worker, along, rank)));
  return members;
}

Axes Mesh::names() const {
  Axes names;
  for (const MeshAxis& axis : axes_) names.push_back(axis.name);
  return names;
}

std::string Mesh::str() const {
  std::string text;
  for (const MeshAxis& axis : axes_) {
    if (axis.size == 1 && !axis.open) continue;
    text += text.empty() ? "" : " × ";
    text += axis.open ? fmt::format("{} of any size", axis.name) : fmt::format("{} {}", axis.name, axis.size);
  }
  if (text.empty()) text = "1 worker";
  return processes_ == 1 ? text : fmt::format("{}, in {} processes", text, processes_);
}

}  // namespace telar
