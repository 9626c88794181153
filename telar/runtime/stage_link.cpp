#include "telar/runtime/stage_link.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "telar/core/error.h"
#include "telar/core/waiting.h"
#include "telar/graph/ops/stage.h"
#include "telar/runtime/shares.h"

namespace telar {

namespace {

/// The text of one member of a group, for all. Waits.
std::string text_of_member(Group& group, const std::string& text, int member) {
  const bool mine = group.rank() == member;
  const uint64_t bytes = largest_of_members(group, mine ? text.size() : 0);
  const auto length = static_cast<size_t>((bytes + sizeof(float) - 1) / sizeof(float));
  if (length == 0) return {};
  std::vector<float> rows(length * static_cast<size_t>(group.size()));
  if (mine) std::memcpy(&rows[length * static_cast<size_t>(member)], text.data(), text.size());
  group.all_gather(rows);
  return {reinterpret_cast<const char*>(&rows[length * static_cast<size_t>(member)]),
          static_cast<size_t>(bytes)};
}

void append(std::string& text, const std::string& part) {
  const uint64_t size = part.size();
  text.append(reinterpret_cast<const char*>(&size), sizeof size);
  text += part;
}

std::string take(const std::string& text, size_t& at) {
  uint64_t size = 0;
  if (text.size() - at < sizeof size) throw run_error("the layouts of another stage are incomplete");
  std::memcpy(&size, text.data() + at, sizeof size);
  at += sizeof size;
  if (text.size() - at < size) throw run_error("the layouts of another stage are incomplete");
  at += static_cast<size_t>(size);
  return text.substr(at - static_cast<size_t>(size), static_cast<size_t>(size));
}

}  // namespace

std::vector<MicroBatchPart> micro_batch_parts(const SampleCounts& batch, const Program& program) {
  const std::vector<double> equal(static_cast<size_t>(program.micro_batches), 1.0);
  const std::vector<int64_t> own = split_by_shares(batch.own, equal, program.least.part);
  std::vector<std::vector<int64_t>> of_members;
  for (const int64_t samples : batch.rows)
    of_members.push_back(split_by_shares(samples, equal, program.least.part));
  std::vector<MicroBatchPart> parts;
  int64_t first = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    MicroBatchPart part{first, SampleCounts(own[i], batch.non_finite)};
    for (const std::vector<int64_t>& member : of_members) part.samples.rows.push_back(member[i]);
    first += own[i];
    if (own[i] > 0 || std::ranges::any_of(part.samples.rows, [](int64_t samples) { return samples > 0; }))
      parts.push_back(std::move(part));
  }
  return parts;
}

void StageMessages::start_receiving() {
  sent_.clear();
  left_ = 0;
  for (const Direction* direction : {&forward_, &backward_})
    for (const std::vector<Transfer*>& receives : direction->receives)
      for (Transfer* transfer : receives) transfer->start();
}

StageLink::StageLink(StepContext& worker, StageExchange& exchange, const std::vector<Crossing>& crossings)
    : worker_(worker),
      exchange_(exchange),
      crossings_(crossings),
      stage_(static_cast<size_t>(worker.program().mesh.coordinate(worker.number(), kStageAxis))) {}

void StageLink::add_names(const Graph& graph) {
  for (const Value& value : graph.values())
    if (value.kind == ValueKind::input && is_delivered(value.name)) exchange_.names.insert(value.name);
  for (const Node& node : graph.nodes())
    if (node.op->effect() == Effect::delivers) exchange_.names.insert(node.attributes.text("name"));
}

void StageLink::in_order(const std::function<void()>& work) {
  for (size_t s = 0; s < exchange_.here.count; ++s) {
    if (exchange_.here.all()) {
      if (s == stage_) work();
      group().barrier();
      continue;
    }
    std::string text;
    if (s == stage_) {
      const std::map<std::string, TensorLayout> before = exchange_.layouts;
      work();
      for (const auto& [name, layout] : exchange_.layouts) {
        if (before.contains(name)) continue;
        append(text, name);
        append(text, worker_.device().packed(layout));
      }
    }
    text = text_of_member(group(), text, static_cast<int>(s));
    if (is_first_here()) {
      for (size_t at = 0; at < text.size();) {
        const std::string name = take(text, at);
        const TensorLayout layout = worker_.device().unpacked(take(text, at));
        if (exchange_.names.contains(name)) exchange_.layouts.emplace(name, layout);
      }
    }
    group().barrier();
  }
}

void StageLink::reserve(int64_t batch) {
  if (is_first_here()) exchange_.reserve(batch);
  group().barrier();
}

StageMessages StageLink::messages(const std::vector<MicroBatchPart>& parts) {
  StageMessages messages;
  for (StageMessages::Direction* direction : {&messages.forward_, &messages.backward_}) {
    direction->receives.resize(parts.size());
    direction->sends.resize(parts.size());
  }
  Processes* processes = worker_.processes();
  const Program& program = worker_.program();
  const auto process_of = [&](int64_t stage) {
    const int64_t worker = program.mesh.member(worker_.number(), {kStageAxis}, stage);
    return static_cast<int>(program.mesh.process_of(worker));
  };
  for (const Crossing& crossing : crossings_) {
    // Pipelines of the same processes tell their messages apart.
    const int64_t number = crossing.number * shares_of(program) + share_of(program, worker_.number());
    const bool sends = crossing.from == static_cast<int64_t>(stage_);
    const int other = process_of(sends ? crossing.to : crossing.from);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].samples.own == 0) continue;
      const size_t bytes =
          sample_bytes(exchange_.layouts.at(crossing.value)) * static_cast<size_t>(parts[i].samples.own);
      const std::span<std::byte> memory{exchange_.addresses(parts[i].first).at(crossing.value), bytes};
      const auto tag = static_cast<int>(number * program.micro_batches + static_cast<int64_t>(i));
      StageMessages::Direction& direction = crossing.forward ? messages.forward_ : messages.backward_;
      messages.all_.push_back(sends ? processes->message_to(other, tag, memory)
                                    : processes->message_from(other, tag, memory));
      (sends ? direction.sends : direction.receives)[i].push_back(messages.all_.back().get());
    }
  }
  messages.sent_.reserve(messages.all_.size());
  return messages;
}

void StageLink::begin() { begin_ = exchange_.forward[stage_].count(); }

void StageLink::wait_forward(size_t micro_batch) {
  if (stage_ > exchange_.here.begin) wait_for(exchange_.forward[stage_ - 1], micro_batch);
}

void StageLink::wait_backward(size_t micro_batch) {
  if (stage_ + 1 < exchange_.here.end) wait_for(exchange_.backward[stage_ + 1], micro_batch);
}

void StageLink::wait_for(const StageProgress& progress, size_t micro_batch) {
  const int64_t count = begin_ + static_cast<int64_t>(micro_batch) + 1;
  if (progress.count() >= count) return;
  const auto start = std::chrono::steady_clock::now();
  if (!progress.wait_for(count)) throw run_error("another stage failed; stage {} stopped with it", stage_);
  waited(start);
  worker_.step().compute_seconds -=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void StageLink::waited(std::chrono::steady_clock::time_point start) {
  const auto end = std::chrono::steady_clock::now();
  if (end > start && worker_.timeline() != nullptr)
    worker_.timeline()->did(StepPhase::wait, "waits for its neighbour", end);
}

void StageLink::wait_for(Transfer& transfer) {
  // Spins as long as a sleeping thread may take to wake up, as StageProgress does. Then it sleeps and looks
  // again: a thread that spins or yields uses up the time that the system would give it when its work
  // arrives.
  constexpr std::chrono::microseconds kLook(200);
  constexpr std::chrono::microseconds kSleep(20);
  if (spin_until([&] { return transfer.done(); }, kLook)) return;
  while (!transfer.done()) {
    group().check();
    std::this_thread::sleep_for(kSleep);
  }
}

void StageLink::receive(StageMessages& messages, bool forward, size_t micro_batch) {
  const StageMessages::Direction& direction = forward ? messages.forward_ : messages.backward_;
  if (micro_batch >= direction.receives.size()) return;  // no samples
  const auto start = std::chrono::steady_clock::now();
  for (Transfer* transfer : direction.receives[micro_batch]) wait_for(*transfer);
  waited(start);
}

void StageLink::send(StageMessages& messages, bool forward, size_t micro_batch) {
  const StageMessages::Direction& direction = forward ? messages.forward_ : messages.backward_;
  if (micro_batch >= direction.sends.size()) return;
  for (Transfer* transfer : direction.sends[micro_batch]) {
    transfer->start();
    messages.sent_.push_back(transfer);
  }
}

void StageLink::finish_sending(StageMessages& messages) {
  for (; messages.left_ < messages.sent_.size(); ++messages.left_) wait_for(*messages.sent_[messages.left_]);
}

void StageLink::poll(StageMessages& messages) {
  while (messages.left_ < messages.sent_.size() && messages.sent_[messages.left_]->done()) ++messages.left_;
}

}  // namespace telar
