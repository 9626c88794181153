#include "telar/graph/piece.h"

#include <fmt/format.h>

#include <algorithm>

namespace telar {

namespace {

/// Calls copy(offset in the whole, offset in the piece, floats) for each run of values that are contiguous in
/// both.
template <typename Copy>
void for_each_run(const Piece& piece, const Copy& copy) {
  int64_t outer = 1;
  for (size_t a = 0; a < piece.axis; ++a) outer *= piece.shape[a];
  int64_t inner = 1;
  for (size_t a = piece.axis + 1; a < piece.shape.rank(); ++a) inner *= piece.shape[a];
  const int64_t run = (piece.end - piece.begin) * inner;
  for (int64_t o = 0; o < outer; ++o) copy((o * piece.shape[piece.axis] + piece.begin) * inner, o * run, run);
}

}  // namespace

Shape Piece::piece_shape() const {
  Shape part = shape;
  part[axis] = end - begin;
  return part;
}

std::string Piece::name() const {
  if (whole()) return variable;
  std::string before;
  for (size_t a = 0; a < axis; ++a) before += ":, ";
  return fmt::format("{}[{}{}:{}]", variable, before, begin, end);
}

void Piece::take_from(std::span<const float> whole, std::span<float> piece) const {
  for_each_run(*this, [&](int64_t from, int64_t to, int64_t floats) {
    std::copy_n(whole.begin() + from, floats, piece.begin() + to);
  });
}

void Piece::put_into(std::span<float> whole, std::span<const float> piece) const {
  for_each_run(*this, [&](int64_t to, int64_t from, int64_t floats) {
    std::copy_n(piece.begin() + from, floats, whole.begin() + to);
  });
}

Piece Piece::all_of(const ParameterInfo& parameter) {
  return {parameter.name, parameter.shape, 0, parameter.shape[0]};
}

std::vector<int64_t> equal_parts(int64_t extent, int64_t members) {
  std::vector<int64_t> bounds;
  for (int64_t m = 0; m <= members; ++m)
    bounds.push_back(extent / members * m + std::min(m, extent % members));
  return bounds;
}

}  // namespace telar
