#include "telar/strategy/link_bytes.h"

#include <algorithm>
#include <set>

#include "telar/strategy/step_events.h"

namespace telar {

std::map<std::pair<int64_t, int64_t>, double> bytes_on_each_link(const Program& program, size_t phase) {
  const Mesh& mesh = program.mesh;
  std::map<std::pair<int64_t, int64_t>, double> links;
  for (int64_t worker = 0; worker < mesh.workers(); ++worker) {
    const int64_t from = mesh.process_of(worker);
    const auto send = [&](int64_t to, double bytes) {
      if (to != from) links[{from, to}] += bytes;
    };
    for (const StepEvent& event : step_events(program, worker, phase)) {
      if (event.kind == StepEvent::Kind::sends)
        send(mesh.process_of(mesh.member(worker, {kStageAxis}, event.stage)), event.sends);
      if (event.kind != StepEvent::Kind::starts && event.kind != StepEvent::Kind::meets) continue;
      const std::vector<int> members = members_of(program, event.partner, worker);
      std::set<int64_t> processes;
      for (const int member : members) processes.insert(mesh.process_of(member));
      for (const int member : members) send(mesh.process_of(member), event.sends);
      // The members of a process add up first, and then each sums its share with those of other processes.
      const auto here =
          std::ranges::count(members, from, [&](int member) { return mesh.process_of(member); });
      for (const int64_t to : processes)
        send(to, 2 * event.sums / static_cast<double>(here * std::ssize(processes)));
    }
  }
  return links;
}

}  // namespace telar
