// Push and pull of one key through ps-lite (ZeroMQ over the loopback), with the sum on the server: the
// counterpart of `telar bench ps`. scripts/bench-ps-peer builds it with ps-lite and runs it three times: as
// scheduler, server and worker (DMLC_ROLE).
//
//   ps_lite BYTES...      the worker prints one line of JSON per size: the median of its times

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "ps/ps.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Adds pushed values to the stored values of the key, and answers a pull from the stored values without
/// copying them.
class Sums {
 public:
  void operator()(const ps::KVMeta& meta, const ps::KVPairs<float>& data, ps::KVServer<float>* server) {
    const ps::Key key = data.keys[0];
    ps::SArray<float>& sum = sums_[key];
    if (meta.push) {
      if (sum.size() != data.vals.size()) sum.resize(data.vals.size(), 0);
      const float* values = data.vals.data();
      float* total = sum.data();
      for (size_t i = 0; i < data.vals.size(); ++i) total[i] += values[i];
    }
    ps::KVPairs<float> answer;
    if (meta.pull) {
      answer.keys = data.keys;
      answer.vals = sum;
    }
    server->Response(meta, answer);
  }

 private:
  std::unordered_map<ps::Key, ps::SArray<float>> sums_;
};

/// Telar's rule: at least 10 times and 1 s, after a warm-up of 3.
std::vector<double> repeat(const std::function<void()>& work) {
  for (int i = 0; i < 3; ++i) work();
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (times.size() < 10 || seconds_since(begin) < 1) {
    const Clock::time_point start = Clock::now();
    work();
    times.push_back(seconds_since(start));
  }
  std::sort(times.begin(), times.end());
  return times;
}

void print(const char* how, size_t bytes, const std::vector<double>& times) {
  std::printf("{\"bytes\": %zu, \"over\": \"ps-lite, %s\", \"median\": %.9f, \"repetitions\": %zu}\n", bytes,
              how, times[times.size() / 2], times.size());
  std::fflush(stdout);
}

void work(size_t bytes, ps::Key key) {
  ps::KVWorker<float> worker(0, 0);
  const ps::SArray<ps::Key> keys(1, key);
  const ps::SArray<float> out(bytes / sizeof(float), 1.0F);
  ps::SArray<float> in(bytes / sizeof(float), 0.0F);
  // These calls pass values to ZeroMQ without copying them.
  print("push, then pull", bytes, repeat([&] {
          worker.Wait(worker.ZPush(keys, out));
          worker.Wait(worker.ZPull(keys, &in));
        }));
  print("in one request", bytes, repeat([&] { worker.Wait(worker.ZPushPull(keys, out, &in)); }));
  // The calls of ps-lite's own examples: values in vectors, which they copy.
  const std::vector<ps::Key> key_vector(1, key);
  const std::vector<float> out_vector(bytes / sizeof(float), 1.0F);
  std::vector<float> in_vector(bytes / sizeof(float));
  print("its examples' calls", bytes, repeat([&] {
          worker.Wait(worker.Push(key_vector, out_vector));
          worker.Wait(worker.Pull(key_vector, &in_vector));
        }));
}

}  // namespace

int main(int argc, char** argv) {
  ps::Start(0);
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    server->set_request_handle(Sums());
    ps::RegisterExitCallback([server] { delete server; });
  }
  if (ps::IsWorker())
    for (int i = 1; i < argc; ++i) work(std::strtoull(argv[i], nullptr, 10), static_cast<ps::Key>(i));
  ps::Finalize(0, true);
  return 0;
}
