#include "telar/runtime/piece_owners.h"

#include <algorithm>
#include <sstream>

#include "telar/core/error.h"

namespace telar {

namespace {

void check_complete(const std::string& name, std::vector<OwnedPiece>& pieces) {
  std::ranges::sort(pieces, {}, [](const OwnedPiece& owned) { return owned.piece.begin; });
  int64_t end = 0;
  for (const OwnedPiece& owned : pieces) {
    if (owned.piece.axis != pieces[0].piece.axis || owned.piece.begin != end)
      throw run_error("'{}' is not divided into pieces without gap or overlap", name);
    end = owned.piece.end;
  }
  if (end != pieces[0].piece.shape[pieces[0].piece.axis])
    throw run_error("the workers keep only a part of '{}'", name);
}

}  // namespace

PieceOwners piece_owners(const Program& program) {
  PieceOwners owners;
  for (int64_t w = 0; w < program.mesh.workers(); ++w) {
    for (KeptPiece& kept : kept_by(program, w)) {
      if (kept.copies == kAllWorkers) continue;
      std::vector<OwnedPiece>& known = owners[kept.piece.variable];
      if (std::ranges::find(known, kept.piece, &OwnedPiece::piece) == known.end())
        known.push_back({std::move(kept.piece), static_cast<int>(program.mesh.process_of(w))});
    }
  }
  for (auto& [name, pieces] : owners) check_complete(name, pieces);
  return owners;
}

PartOwners part_owners(const ByteRanges& own, Processes* processes) {
  std::string text;
  for (const auto& [begin, end] : own) text += fmt::format("{} {}\n", begin, end);
  std::vector<std::string> texts{text};
  if (processes != nullptr) texts = processes->gather(text);
  PartOwners owners;
  for (const std::string& of_process : texts) {
    ByteRanges& ranges = owners.emplace_back();
    std::istringstream numbers(of_process);
    for (size_t begin = 0, end = 0; numbers >> begin >> end;) ranges.emplace_back(begin, end);
  }
  return owners;
}

}  // namespace telar
