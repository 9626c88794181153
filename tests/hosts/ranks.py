"""MPI processes on simulated hosts: mpirun starts a part of them on each."""


def agent_of(folder, hosts):
    """A program that mpirun calls as it would call ssh."""
    agent = folder / "agent"
    agent.write_text(
        "#!/bin/sh\nhost=$1\nshift\n"
        f"exec ip netns exec {hosts.mark}-$host unshare --uts --fork --kill-child "
        f"sh -c 'hostname \"$1\" && mount --bind {hosts.names.name} /etc/hosts && shift && exec sh -c \"$*\"' sh \"$host\" \"$@\"\n")
    agent.chmod(0o755)
    return agent


def start_ranks(hosts, folder, each, log, words):
    """Starts `each` processes on every host. mpirun itself, the returned process, runs on the first."""
    names = list(hosts.addresses)
    return hosts.start(names[0], log, [
        "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(each * len(names)),
        "--host", ",".join(f"{name}:{each}" for name in names),
        "--mca", "plm_rsh_agent", agent_of(folder, hosts), "--mca", "oob_tcp_if_include", "eth0",
        "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0", *words])
