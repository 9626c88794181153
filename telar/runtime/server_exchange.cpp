#include "telar/runtime/server_exchange.h"

#include <algorithm>

#include "telar/comm/store/store_frame.h"
#include "telar/core/error.h"
#include "telar/io/payload.h"
#include "telar/runtime/stored_pieces.h"

namespace telar {

ServerExchange::ServerExchange(const StoreProgram& program, const std::vector<Store*>& servers,
                               const std::vector<ParameterInfo>& parameters, const ArenaLayout& arena,
                               const Device& device)
    : servers_(servers), device_(device) {
  if (servers.size() != program.servers.size())
    throw run_error("the program needs {} parameter servers, but there are {}", program.servers.size(),
                    servers.size());
  size_t largest = 0;
  for (const ParameterInfo& parameter : parameters) {
    variables_.push_back({&arena.find(parameter.name), parameter.trainable, {}});
    largest = std::max(largest, static_cast<size_t>(parameter.shape.elements()));
  }
  canonical_.resize(largest);
  for (size_t s = 0; s < servers.size(); ++s) {
    const std::vector<Piece>& pieces = program.servers[s].pieces;
    const StoreLayout layout = stored_layout(pieces);
    if (servers[s]->layout() != layout)
      throw run_error("parameter server {} holds other variables than the job", s);
    servers[s]->attach();
    for (size_t p = 0; p < pieces.size(); ++p) {
      if (pieces[p].axis != 0)
        throw run_error("'{}' is not one of rows, which are all that servers store", pieces[p].name());
      const auto variable = std::find_if(
          variables_.begin(), variables_.end(),
          [&](const Variable& candidate) { return candidate.entry->name == pieces[p].variable; });
      variable->parts.push_back({s, layout.offsets[p],
                                 static_cast<size_t>(pieces[p].begin * pieces[p].shape.elements_per_item()),
                                 layout.pieces[p].floats});
    }
  }
}

void ServerExchange::send(const std::byte* arena, const Fill& fill, const Terms& terms) {
  struct Range {
    size_t begin = 0;
    size_t ready = 0;
  };
  std::vector<Range> ranges(servers_.size());
  const auto start = [&](size_t server, size_t end) {
    Range& range = ranges[server];
    if (range.begin == end) return;
    servers_[server]->start({range.begin, end, terms.push, terms.pull, terms.learning_rate, terms.samples,
                             terms.form.payload, terms.work, terms.round});
    range.begin = end;
  };
  // The servers' arenas contain the pieces in the order of the variables, so the ready floats are one range.
  // It is sent in whole blocks, the unit of a server's locks and rounds, while the rest is prepared.
  const auto prepared = [&](const Variable& variable) {
    for (const Part& part : variable.parts) {
      ranges[part.server].ready = part.offset + part.floats;
      start(part.server, ranges[part.server].ready / kBlockFloats * kBlockFloats);
    }
  };
  if (terms.push) {
    prepare(arena, fill, prepared);
  } else {
    for (const Variable& variable : variables_) prepared(variable);
  }
  for (size_t server = 0; server < servers_.size(); ++server)
    start(server, servers_[server]->outgoing().size());
}

void ServerExchange::prepare(const std::byte* arena, const Fill& fill,
                             const std::function<void(const Variable&)>& prepared) {
  for (const Variable& variable : variables_) {
    size_t floats = 0;
    for (const Part& part : variable.parts) floats += part.floats;
    const std::span<float> values = std::span(canonical_).first(floats);
    device_.read(variable.entry->layout, arena + variable.entry->offset, values);
    for (const Part& part : variable.parts) {
      fill(variable, part, values.subspan(part.begin, part.floats),
           servers_[part.server]->outgoing().subspan(part.offset, part.floats));
    }
    prepared(variable);
  }
}

void ServerExchange::keep(const std::byte* arena, const Fill& fill) {
  prepare(arena, fill, [](const Variable&) {});
  const bool first = kept_.empty();
  for (size_t server = 0; server < servers_.size(); ++server) {
    const std::span<const float> part = servers_[server]->outgoing();
    if (first) kept_.emplace_back(part.size());
    for (size_t i = 0; i < part.size(); ++i) kept_[server][i] += part[i];
  }
}

void ServerExchange::keep_gradients(const std::byte* gradients) {
  keep(gradients, [](const Variable&, const Part&, std::span<const float> values, std::span<float> out) {
    std::ranges::copy(values, out.begin());
  });
}

void ServerExchange::keep_differences(float samples, std::byte* parameters) {
  keep(parameters, differences(servers_, samples));
  take(parameters);
}

void ServerExchange::add_kept(const Part& part, std::span<float> outgoing) const {
  if (kept_.empty()) return;
  const std::span kept = std::span(kept_[part.server]).subspan(part.offset, part.floats);
  for (size_t i = 0; i < outgoing.size(); ++i) outgoing[i] += kept[i];
}

void ServerExchange::take(std::byte* parameters) {
  for (const Variable& variable : variables_) {
    std::byte* memory = parameters + variable.entry->offset;
    const Part& first = variable.parts.front();
    if (variable.parts.size() == 1) {
      device_.write(variable.entry->layout,
                    servers_[first.server]->incoming().subspan(first.offset, first.floats), memory);
      continue;
    }
    size_t floats = 0;
    for (const Part& part : variable.parts) {
      const auto from = servers_[part.server]->incoming().subspan(part.offset, part.floats);
      std::copy(from.begin(), from.end(), canonical_.begin() + static_cast<std::ptrdiff_t>(part.begin));
      floats += part.floats;
    }
    device_.write(variable.entry->layout, std::span(canonical_).first(floats), memory);
  }
}

StoreReport ServerExchange::exchange(const std::byte* arena, const Fill& fill, const Terms& terms,
                                     std::byte* parameters) {
  send(arena, fill, terms);
  kept_.clear();
  StoreReport all;
  for (Store* server : servers_) {
    const StoreReport report = server->finish();
    all.finite = all.finite && report.finite;
    all.late = all.late || report.late;
    all.staleness += report.staleness / static_cast<double>(servers_.size());
    all.lost_updates = std::max(all.lost_updates, report.lost_updates);
  }
  if (terms.pull && !(all.late && terms.keeps_if_late)) take(parameters);
  return all;
}

StoreReport ServerExchange::push_gradients(const std::byte* gradients, int64_t batches, const Terms& terms,
                                           std::byte* parameters) {
  const float share = 1.0F / static_cast<float>(batches);
  if (terms.form.payload != 0 && rest_.empty())
    for (Store* server : servers_) rest_.emplace_back(server->outgoing().size());
  const auto fill = [&](const Variable& variable, const Part& part, std::span<const float> values,
                        std::span<float> out) {
    std::copy(values.begin(), values.end(), out.begin());
    // Gradients need the sum of the batches' means; statistics need the mean of these means.
    if (!variable.trainable && batches > 1) {
      for (float& value : out) value *= share;
    }
    add_kept(part, out);
    if (terms.form.payload == 0) return;
    // The rest is one of means, because pushes may be of different numbers of samples.
    if (terms.samples <= 0) return;
    const std::span<float> rest = std::span(rest_[part.server]).subspan(part.offset, part.floats);
    for (size_t i = 0; i < out.size(); ++i) out[i] += rest[i] * terms.samples;
    numbered_payload(terms.form.payload).choose(out, rest, terms.form.share, variable.trainable);
    for (float& value : rest) value /= terms.samples;
  };
  return exchange(gradients, fill, terms, parameters);
}

ServerExchange::Fill ServerExchange::differences(const std::vector<Store*>& servers, float samples) {
  return [&servers, samples](const Variable&, const Part& part, std::span<const float> values,
                             std::span<float> out) {
    const auto pulled = servers[part.server]->incoming().subspan(part.offset, part.floats);
    for (size_t i = 0; i < out.size(); ++i) out[i] = samples * (pulled[i] - values[i]);
  };
}

StoreReport ServerExchange::push_differences(float samples, const Terms& terms, std::byte* parameters) {
  const auto fill = [&, difference = differences(servers_, samples)](
                        const Variable& variable, const Part& part, std::span<const float> values,
                        std::span<float> out) {
    difference(variable, part, values, out);
    add_kept(part, out);
  };
  return exchange(parameters, fill, terms, parameters);
}

StoreReport ServerExchange::pull(std::byte* parameters) {
  return exchange(nullptr, {}, {.push = false, .pull = true, .round = {}}, parameters);
}

}  // namespace telar
