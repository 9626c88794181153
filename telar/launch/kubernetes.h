#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "telar/train/job.h"

namespace telar {

/// What is to be applied: texts by file names.
struct KubernetesManifests {
  std::string name;                    ///< of the run, which begins the names of all objects
  std::string secret;                  ///< which must have ca.pem, cert.pem, key.pem and token
  std::vector<std::string> certified;  ///< the names that the certificate must have
  std::string credentials;             ///< the secret with variables for output.storage; empty: none
  std::map<std::string, std::string> files = {};
};

/// Manifests of a run as job.run says. `processes`: that train; with parameter servers, the first one does
/// not. The first process is a Job, the others are an Indexed Job (a Deployment if their number follows the
/// load), and the parameter servers a StatefulSet. Throws Error (user) if the job's name is no name there.
KubernetesManifests kubernetes_manifests(Job job, int64_t processes);

}  // namespace telar
