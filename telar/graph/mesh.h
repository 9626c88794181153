#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

/// The axes along which strategies place workers: those that train the same pieces on other samples, those
/// that have other layers of the same samples, and those that have other pieces of the same layers.
inline constexpr const char* kDataAxis = "data";
inline constexpr const char* kStageAxis = "stage";
inline constexpr const char* kModelAxis = "model";

/// Names of axes.
using Axes = std::vector<std::string>;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  /// Any number of workers, which is known only while they train. They exchange through servers, not with
  /// each other; the mesh has one that stands for all.
  bool open = false;

  bool operator==(const MeshAxis&) const = default;
};

/// The workers of all processes as points of a grid with named axes. A worker's number counts its
/// coordinates, the last axis fastest. Every process has the same number of consecutive workers.
///
/// Workers that differ only along some axes form a group; its members are ranked by their numbers.
class Mesh {
 public:
  /// One worker.
  Mesh() = default;
  /// Throws Error (run) unless the workers can be divided among the processes.
  Mesh(std::vector<MeshAxis> axes, int64_t processes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int64_t workers() const { return size(names()); }
  int64_t processes() const { return processes_; }

  /// The workers of one process, the first one of a process, and the process of a worker.
  int64_t of_process() const { return workers() / processes_; }
  int64_t first_of(int64_t process) const { return process * of_process(); }
  int64_t process_of(int64_t worker) const { return worker / of_process(); }

  /// The number of points along one axis; 1 if there is no such axis. Along several: their product.
  int64_t size(std::string_view axis) const;
  int64_t size(const Axes& along) const;
  int64_t coordinate(int64_t worker, std::string_view axis) const;

  /// The group of a worker along these axes: the numbers of its members, the worker's rank among them, the
  /// member of a rank, and the number of the group among all groups along these axes.
  std::vector<int> members(int64_t worker, const Axes& along) const;
  int64_t rank(int64_t worker, const Axes& along) const;
  int64_t member(int64_t worker, const Axes& along, int64_t rank) const;
  int64_t group(int64_t worker, const Axes& along) const;

  Axes names() const;
  /// "data 2 × stage 4, in 2 processes"
  std::string str() const;

  bool operator==(const Mesh&) const = default;

 private:
  std::vector<MeshAxis> axes_;
  int64_t processes_ = 1;
};

}  // namespace telar
