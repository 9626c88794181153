#include "telar/launch/kubernetes.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "telar/core/error.h"
#include "telar/train/file_digest.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_strategy.h"

namespace telar {

namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

/// The text with each @NAME@ replaced by its value; a line whose value is empty is left out.
std::string filled(std::string text, const Values& values) {
  for (const auto& [name, value] : values) {
    const std::string mark = "@" + name + "@";
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
      const size_t begin = text.rfind('\n', at) + 1;
      const size_t end = text.find('\n', at);
      if (value.empty()) {
        text.erase(begin, end + 1 - begin);
        at = begin;
      } else {
        text.replace(at, mark.size(), value);
        at += value.size();
      }
    }
  }
  return text;
}

/// Each line with this many spaces before it, without the last line feed.
std::string indented(const std::string& text, size_t spaces) {
  std::string all;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    all += (all.empty() ? "" : "\n") + (line.empty() ? "" : std::string(spaces, ' ') + line);
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return all;
}

// What belongs to all processes. A pod may be reached by the others of its run alone; it needs nothing of the
// cluster's API.
constexpr const char* kCommon = R"(apiVersion: v1
kind: ServiceAccount
metadata: {name: "@NAME@", labels: @LABELS@}
automountServiceAccountToken: false
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: "@NAME@", labels: @LABELS@}
spec:
  podSelector:
    matchLabels: @LABELS@
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels: @LABELS@
---
# Its name contains a checksum, so that a pod has the job that its manifest names.
apiVersion: v1
kind: ConfigMap
metadata: {name: @CONFIG@, labels: @LABELS@}
immutable: true
data:
  job.yaml: |
@JOB@
)";

// Names lead to pods that are not ready, too: the processes wait for each other themselves.
constexpr const char* kService = R"(apiVersion: v1
kind: Service
metadata: {name: @SERVICE@, labels: @LABELS@}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: @SELECTED@
  ports:
    - {name: telar, port: @PORT@}
---
)";

constexpr const char* kRuns = R"(apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: @NAME@-runs, labels: @LABELS@}
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests: {storage: 5Gi}
---
)";

// backoffLimitPerIndex needs Kubernetes 1.29, or in 1.28 the feature gate JobBackoffLimitPerIndex: without it
// a cluster drops the field, and the Job's own backoffLimit, 6, counts. Exit code 2 is a mistake in the job.
// After SIGTERM (a drained node) a process has saved what it had, and goes on in another pod. The empty lists
// are for the schema of Kubernetes 1.28, which requires them.
constexpr const char* kJob = R"(apiVersion: batch/v1
kind: Job
metadata: {name: @WORKLOAD@, labels: @SELECTED@}
spec:
  @COUNTS@
  ttlSecondsAfterFinished: 86400
  podFailurePolicy:
    rules:
      - action: FailJob
        onExitCodes: {containerName: telar, operator: In, values: [2]}
        onPodConditions: []
      - action: Ignore
        onExitCodes: {containerName: telar, operator: In, values: [75, 129, 130, 143]}
        onPodConditions: []
      - action: Ignore
        onPodConditions:
          - {type: DisruptionTarget, status: "True"}
@POD@
)";

// Their number is set by what measures the load, such as KEDA.
constexpr const char* kDeployment = R"(apiVersion: apps/v1
kind: Deployment
metadata: {name: @WORKLOAD@, labels: @SELECTED@}
spec:
  replicas: @COUNT@
  selector:
    matchLabels: @SELECTED@
@POD@
)";

// A server's copy is on the server after it, so no two of them are on one node, and one at a time is evicted.
constexpr const char* kServers = R"(apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: @WORKLOAD@, labels: @SELECTED@}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: @SELECTED@
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: @WORKLOAD@, labels: @SELECTED@}
spec:
  serviceName: @SERVICE@
  replicas: @COUNT@
  podManagementPolicy: Parallel
  selector:
    matchLabels: @SELECTED@
@POD@
@CLAIMS@
)";

constexpr const char* kSnapshots = R"(volumeClaimTemplates:
  - metadata: {name: snapshots}
    spec:
      accessModes: [ReadWriteOnce]
      resources:
        requests: {storage: 1Gi}
)";

constexpr const char* kPod = R"(template:
  metadata:
    labels: @SELECTED@
  spec:
    @RESTART@
    serviceAccountName: "@NAME@"
    automountServiceAccountToken: false
    terminationGracePeriodSeconds: @GRACE@
@SPREAD@
    securityContext:
      runAsNonRoot: true
      runAsUser: 10001
      runAsGroup: 10001
      fsGroup: 10001
      seccompProfile: {type: RuntimeDefault}
    containers:
      - name: telar
        image: @IMAGE@
        command: @COMMAND@
        @ENVIRONMENT@
        ports:
          - {name: telar, containerPort: @PORT@}
@PROBES@
        resources: @RESOURCES@
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        volumeMounts:
          - {name: security, mountPath: /srv/security, readOnly: true}
          @MOUNTED_JOB@
          @MOUNTED@
    volumes:
      - name: security
        secret: {secretName: @NAME@-security, defaultMode: 0440}
      @JOB_VOLUME@
      @VOLUME@
)";

constexpr const char* kApart = R"(affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: @SELECTED@
)";

constexpr const char* kSpread = R"(topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: @SELECTED@
)";

// It listens at once. A hung process accepts no connection after a while.
constexpr const char* kServerProbes = R"(readinessProbe:
  tcpSocket: {port: telar}
  periodSeconds: 5
startupProbe:
  tcpSocket: {port: telar}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  tcpSocket: {port: telar}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
)";

constexpr int64_t kSaves = 300;     // seconds for a checkpoint, as telar launch gives
constexpr int64_t kHandsOver = 60;  // a server ends when another one has all that it has, after 50 s at most
constexpr const char* kStart = "1800";  // seconds: a node may have to come, and pull the image
constexpr const char* kLateWorkers =
    "600";  // seconds for which a worker waits for the first process, and this for one that comes late
constexpr int kPort = 7000;
constexpr int kServerPort = 7001;
constexpr size_t kLongestName = 40;  // a label has 63 characters, and names of pods are longer

/// A DNS label.
std::string name_of(const std::string& job) {
  std::string name;
  for (const char c : job) {
    const auto letter = static_cast<unsigned char>(c);
    name += std::isalnum(letter) != 0 ? static_cast<char>(std::tolower(letter)) : '-';
  }
  if (name.empty() || name.size() > kLongestName || std::isalpha(static_cast<unsigned char>(name[0])) == 0 ||
      name.back() == '-')
    throw user_error(
        "the job's name '{}' is no name on Kubernetes: give another one, which begins with a letter, ends with a letter or digit, and has at most {} characters (--set name=NAME)",
        job, kLongestName);
  return name;
}

std::string words(const std::vector<std::string>& texts) { return nlohmann::json(texts).dump(); }

class Manifests {
 public:
  Manifests(Job job, int64_t processes)
      : job_(std::move(job)),
        name_(name_of(job_.name)),
        processes_(processes),
        servers_(has_servers() && job_.strategy.server_addresses.empty() ? server_processes(job_.strategy)
                                                                         : 0) {
    for (int64_t server = 0; server < servers_; ++server) {
      hosts_.push_back(fmt::format("{0}-server-{1}.{0}-server", name_, server));
      job_.strategy.server_addresses.push_back(fmt::format("{}:{}", hosts_.back(), kServerPort));
    }
    hosts_.push_back(name_ + "-first");
    job_.output.folder.clear();
    text_ = job_text(job_);
    common_ = {{"NAME", name_},
               {"IMAGE", nlohmann::json(job_.run.image).dump()},
               {"LABELS", labels("")},
               {"CONFIG", fmt::format("{}-{:08x}", name_, crc32_of(text_))}};
  }

  KubernetesManifests all() const {
    KubernetesManifests manifests{.name = name_,
                                  .secret = name_ + "-security",
                                  .certified = hosts_,
                                  .credentials = stored() ? name_ + "-storage" : ""};
    manifests.files["common.yaml"] = filled(fill(kCommon, {}), {{"JOB", indented(text_, 4)}});
    manifests.files["first.yaml"] = first();
    if (workers() > 0) manifests.files["workers.yaml"] = others();
    if (servers_ > 0) manifests.files["servers.yaml"] = parameter_servers();
    return manifests;
  }

 private:
  bool has_servers() const { return uses_servers(job_); }
  int64_t workers() const { return has_servers() ? processes_ : processes_ - 1; }
  bool stored() const { return !job_.output.storage.empty(); }

  std::string labels(const std::string& component) const {
    return fmt::format("{{app.kubernetes.io/name: telar, app.kubernetes.io/instance: \"{}\"{}}}", name_,
                       component.empty() ? "" : ", app.kubernetes.io/component: " + component);
  }

  std::string fill(const char* text, Values values) const {
    values.insert(values.end(), common_.begin(), common_.end());
    return filled(text, values);
  }

  static std::vector<std::string> command(const std::string& verb, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"telar", verb};
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"--certificates", "/srv/security", "--token-file", "/srv/security/token"});
    return all;
  }

  std::string resources(bool trains) const {
    nlohmann::ordered_json requests = {
        {"cpu", std::to_string(trains && job_.run.cpus > 0 ? job_.run.cpus : 1)}};
    nlohmann::ordered_json limits = nlohmann::ordered_json::object();
    if (trains && job_.run.cpus > 0) limits["cpu"] = std::to_string(job_.run.cpus);
    if (!job_.run.memory.empty()) requests["memory"] = limits["memory"] = job_.run.memory;
    if (trains && job_.run.gpus > 0) limits["nvidia.com/gpu"] = job_.run.gpus;
    return nlohmann::ordered_json{{"requests", requests}, {"limits", limits}}.dump();
  }

  std::string pod(const std::string& component, Values values) const {
    const bool server = component == "server";
    values.insert(values.end(), {{"GRACE", std::to_string(server ? kHandsOver : kSaves)},
                                 {"PORT", std::to_string(server ? kServerPort : kPort)},
                                 {"SPREAD", indented(server ? kApart : kSpread, 4)},
                                 {"PROBES", server ? indented(kServerProbes, 8) : ""},
                                 {"SELECTED", labels(component)}});
    for (const char* name : {"RESTART", "ENVIRONMENT", "MOUNTED_JOB", "JOB_VOLUME", "MOUNTED", "VOLUME"})
      values.emplace_back(name, "");
    return indented(fill(kPod, std::move(values)), 2);
  }

  /// Beside the pod of a workload.
  Values values_of(const std::string& component, std::string pod) const {
    return {{"POD", std::move(pod)},
            {"WORKLOAD", name_ + "-" + component},
            {"SERVICE", name_ + "-" + component},
            {"SELECTED", labels(component)}};
  }

  std::string service(const std::string& component, int port) const {
    Values values = values_of(component, "");
    values.emplace_back("PORT", std::to_string(port));
    return fill(kService, std::move(values));
  }

  std::string first() const {
    std::vector<std::string> more = {"/srv/job/job.yaml", "--output", "/srv/runs/" + name_, "--resume"};
    if (workers() > 0) more.insert(more.end(), {"--coordinate", fmt::format("0.0.0.0:{}", kPort)});
    if (workers() > 0 && !has_servers())
      more.insert(more.end(), {"--workers", std::to_string(processes_), "--wait", kStart});
    if (workers() > 0 && job_.strategy.elastic.min == 0) more.insert(more.end(), {"--linger", kLateWorkers});
    Values values = values_of(
        "first",
        pod("first",
            {{"COMMAND", words(command("train", more))},
             {"RESTART", "restartPolicy: Never"},
             {"RESOURCES", resources(!has_servers())},
             {"ENVIRONMENT",
              stored() ? fmt::format("envFrom: [{{secretRef: {{name: {}-storage, optional: true}}}}]", name_)
                       : ""},
             {"MOUNTED_JOB", "- {name: job, mountPath: /srv/job, readOnly: true}"},
             {"JOB_VOLUME", "- {name: job, configMap: {name: @CONFIG@}}"},
             {"MOUNTED", "- {name: runs, mountPath: /srv/runs}"},
             {"VOLUME", stored() ? "- {name: runs, emptyDir: {}}"
                                 : "- {name: runs, persistentVolumeClaim: {claimName: @NAME@-runs}}"}}));
    values.emplace_back("COUNTS", fmt::format("backoffLimit: {}", job_.run.restarts));
    return service("first", kPort) + (stored() ? "" : fill(kRuns, {})) + fill(kJob, std::move(values));
  }

  std::string others() const {
    const bool by_load = job_.strategy.elastic.min > 0;
    Values values = values_of(
        "worker",
        pod("worker", {{"COMMAND", words(command("work", {"--join", fmt::format("{}-first:{}", name_, kPort),
                                                          "--wait", kLateWorkers}))},
                       {"RESTART", by_load ? "" : "restartPolicy: Never"},
                       {"RESOURCES", resources(true)}}));
    values.emplace_back("COUNT", std::to_string(job_.strategy.elastic.min));
    values.emplace_back("COUNTS", indented(fmt::format("completionMode: Indexed\n"
                                                       "parallelism: {0}\n"
                                                       "completions: {0}\n"
                                                       "backoffLimitPerIndex: {1}\n",
                                                       workers(), job_.run.restarts),
                                           2)
                                      .substr(2));
    return fill(by_load ? kDeployment : kJob, std::move(values));
  }

  std::string parameter_servers() const {
    std::vector<std::string> more = {"--listen", fmt::format("0.0.0.0:{}", kServerPort)};
    const bool copies = server_copies(job_.strategy) > 1;
    if (!copies)
      more.insert(more.end(), {"--snapshots", "/srv/snapshots", "--snapshot-seconds",
                               fmt::format("{}", job_.strategy.snapshot_seconds)});
    Values values = values_of(
        "server",
        pod("server", {{"COMMAND", words(command("serve", more))},
                       {"RESOURCES", resources(false)},
                       {"MOUNTED", copies ? "" : "- {name: snapshots, mountPath: /srv/snapshots}"}}));
    values.emplace_back("COUNT", std::to_string(servers_));
    values.emplace_back("CLAIMS", copies ? "" : indented(kSnapshots, 2));
    return service("server", kServerPort) + fill(kServers, std::move(values));
  }

  Job job_;  ///< as the pods have it
  std::string name_;
  int64_t processes_;
  int64_t servers_;                 ///< those that are started
  std::vector<std::string> hosts_;  ///< the names of those that listen
  std::string text_;
  Values common_;
};

}  // namespace

KubernetesManifests kubernetes_manifests(Job job, int64_t processes) {
  return Manifests(std::move(job), processes).all();
}

}  // namespace telar
