#include "telar/runtime/piece_owners.h"

#include <algorithm>
#include <sstream>

#include "telar/core/error.h"

namespace telar {

namespace {

/// What only some workers keep, of this process: name, axis, begin and end, one in each line.
std::string text_of_pieces(const Program& program) {
  std::string text;
  for (const WorkerProgram& worker : program.workers) {
    for (const Holding& holding : worker.holdings) {
      const Piece& piece = holding.piece;
      if (holding.copies != kAllWorkers)
        text += fmt::format("{}\n{} {} {}\n", piece.variable, piece.axis, piece.begin, piece.end);
    }
  }
  return text;
}

void add_pieces(const std::string& text, int process, const Program& program, PieceOwners& owners) {
  std::istringstream lines(text);
  for (std::string name; std::getline(lines, name);) {
    const auto info = std::ranges::find(program.parameters, name, &ParameterInfo::name);
    if (info == program.parameters.end())
      throw run_error("process {} keeps '{}', which is no parameter", process, name);
    Piece piece{name, info->shape};
    lines >> piece.axis >> piece.begin >> piece.end >> std::ws;
    std::vector<OwnedPiece>& known = owners[name];
    if (std::ranges::find(known, piece, &OwnedPiece::piece) == known.end()) known.push_back({piece, process});
  }
}

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

PieceOwners piece_owners(const Program& program, Processes* processes) {
  PieceOwners owners;
  std::vector<std::string> texts{text_of_pieces(program)};
  if (processes != nullptr) texts = processes->gather(texts[0]);
  for (size_t p = 0; p < texts.size(); ++p) add_pieces(texts[p], static_cast<int>(p), program, owners);
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
