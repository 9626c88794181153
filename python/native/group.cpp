#include "python/native/group.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <future>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>

#include "python/native/bindings.h"
#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/core/error.h"

namespace telar::python {

namespace nb = nanobind;

namespace {

using namespace std::chrono_literals;

std::unique_ptr<ProcessLinks> meet(const std::string& address, int processes, const PeerOptions& options,
                                   double patience_seconds) {
  std::unique_ptr<PeerMeeting> meeting;
  std::string cannot_listen;
  try {
    meeting = std::make_unique<PeerMeeting>(address, processes, "", options);
  } catch (const Error& error) {
    cannot_listen = error.what();
  }
  if (meeting)
    return meeting->wait([&] {
      if (options.stop.stop_requested()) throw run_error("the wait for the others was stopped");
    });
  std::optional<JoinedPeers> joined;
  try {
    joined = join_peers(address, processes, patience_seconds, options);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::user) throw;
    throw run_error("{}; and this process cannot be the first: {}", error.what(), cannot_listen);
  }
  if (!joined) throw user_error("the process of telar at {} does not wait for a group", address);
  return std::move(joined->links);
}

}  // namespace

PythonGroup::PythonGroup(const std::string& address, int processes, const Security& security,
                         double patience_seconds) {
  if (processes < 2) throw user_error("a group has at least 2 processes, not {}", processes);
  std::stop_source stop;
  const PeerOptions options{
      .purpose = "telar.join", .security = security, .stop = stop.get_token(), .say = {}};
  auto links =
      std::async(std::launch::async, [&] { return meet(address, processes, options, patience_seconds); });
  const auto come = [&] {
    const nb::gil_scoped_release others_may_run;
    return links.wait_for(100ms) == std::future_status::ready;
  };
  while (!come()) {
    if (PyErr_CheckSignals() == 0) continue;
    stop.request_stop();
    const nb::gil_scoped_release others_may_run;
    links.wait();
    break;
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  processes_ = std::make_shared<LinkedProcesses>(links.get(), Ending::alone);
}

PythonGroup::~PythonGroup() {
  const nb::gil_scoped_release others_may_run;
  processes_.reset();
}

void bind_group(nb::module_& module) {
  nb::class_<PythonGroup>(module, "Group", "Processes that train a module together.")
      .def(
          "__init__",
          [](PythonGroup* group, const std::string& address, int processes, const std::string& token,
             const std::string& certificates, bool insecure_network, double patience) {
            new (group) PythonGroup(
                address, processes,
                {.token = token, .certificates = certificates, .insecure_network = insecure_network},
                patience);
          },
          nb::arg("address"), nb::arg("processes"), nb::arg("token"), nb::arg("certificates"),
          nb::arg("insecure_network"), nb::arg("patience"))
      .def_prop_ro("rank", [](const PythonGroup& group) { return group.processes().rank(); })
      .def_prop_ro("size", [](const PythonGroup& group) { return group.processes().size(); })
      .def(
          "gather",
          [](const PythonGroup& group, const std::string& text) {
            const nb::gil_scoped_release others_may_run;
            return group.processes().gather(text);
          },
          nb::arg("text"), "The texts of all processes, in rank order. All call it.")
      .def(
          "broadcast",
          [](const PythonGroup& group,
             const nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& bytes) {
            const nb::gil_scoped_release others_may_run;
            group.processes().broadcast(std::span(reinterpret_cast<std::byte*>(bytes.data()), bytes.size()));
          },
          nb::arg("bytes"), "Replaces the bytes by those of rank 0. All call it, with as many bytes.");
}

}  // namespace telar::python
