#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/launch/engine.h"

namespace telar {

/// Processes of this host, `places` of them.
std::unique_ptr<LaunchEngine> local_engine(int places);

/// Processes that ssh starts, in a folder of the same path as the current one. `ssh`: the program and its
/// options. Secrets of the environment do not appear on command lines.
std::unique_ptr<LaunchEngine> ssh_engine(std::vector<LaunchSlot> slots, std::vector<std::string> ssh);

/// Processes in the steps of the Slurm allocation in which this process runs: a place for each of its tasks.
/// Nodes that are down are not used. Throws Error (user) outside of an allocation.
std::unique_ptr<LaunchEngine> slurm_engine();

/// The command that submits `command` as a batch job of Slurm, which is queued again after SIGTERM and when
/// another job preempts it. `partition`: empty for the default one. `array`: the numbers of the tasks of an
/// array, as sbatch takes them; empty: it is none.
std::vector<std::string> slurm_submission(const std::vector<std::string>& command, int nodes,
                                          const std::string& partition, const std::string& array);

/// The batch job in which this process runs, JOB or ARRAY_TASK; empty outside of Slurm.
std::string slurm_job();

/// Lets Slurm queue the batch job of this process again, unless this is no batch job, or one that may not be
/// queued again, or Slurm does so itself. `say`: told so before; then Slurm ends this process.
void requeue_slurm_job(const std::function<void(const std::string&)>& say);

/// Processes under actors of a cluster of Ray: a place for each `cpus` of its processors, or for each node
/// (0). `address`: of the cluster; "auto": the one of this host. `python`: one that has Ray. Throws Error
/// (user) if there is none, or no such cluster.
std::unique_ptr<LaunchEngine> ray_engine(const std::string& address, const std::string& python, int cpus);

/// The hosts of a list, "node1,node2:4,user@node3": N places on HOST:N, otherwise one. Throws Error (user).
std::vector<LaunchSlot> slots_of_hosts(const std::string& list);
/// The hosts of a file with a host in each line: OpenMPI's (node1 slots=4), MPICH's (node1:4), and PBS's,
/// where a host of four places has four lines. Throws Error (user).
std::vector<LaunchSlot> slots_of_host_file(const std::string& file);

}  // namespace telar
