"""Processes that train one module together, started by anything."""

import os

from telar import _native


def join(address, processes, *, certificates=None, token=None, insecure_network=False, patience=60.0):
    """Waits until all processes of a group have come, and returns the Group. All of them call this, alike.

        group = telar.join("10.0.0.1:7000", processes=2)
        step = telar.torch.Step(model, loss, optimizer, strategy="mirrored", replicas=1, group=group)
        loader = DataLoader(data, sampler=DistributedSampler(data, group.size, group.rank))

    address: HOST:PORT of one of the hosts; the first process that can listen there has rank 0. certificates: a folder with
    ca.pem, cert.pem and key.pem (scripts/certs makes them); without it there is no TLS. token: a secret of the group, at least 16
    characters; by default, the environment variable TELAR_TOKEN. insecure_network: lets processes of several hosts do without
    certificates or token. patience: seconds for which somebody must be there to join. Raises telar.Error.
    """
    if not isinstance(address, str) or address.endswith(":0"):
        raise _native.Error(f"the address must be HOST:PORT, with a port that all processes know, not {address!r}")
    if not isinstance(processes, int):
        raise _native.Error(f"processes must be a whole number, not {processes!r}")
    if not patience >= 0:
        raise _native.Error(f"patience must be 0 s or more, not {patience!r}")
    token = os.environ.get("TELAR_TOKEN", "") if token is None else token
    return Group(_native.Group(address, processes, token, os.fspath(certificates or ""), insecure_network, patience))


class Group:
    """The processes that have joined. Those that are left when one ends get a telar.Error that names it.

    rank: the number of this process, from 0. size: how many there are.
    """

    def __init__(self, native):
        self.native = native
        self.rank, self.size = native.rank, native.size

    def agree(self, what, own=""):
        """Returns the texts `own` of all processes, in rank order; all call it. Raises telar.Error where they do not do the same.

        what: what all must do alike now, in words: "makes step 7, with the learning rate 0.1".
        """
        texts = [text.split("\n", 1) for text in self.native.gather(f"{what}\n{own}")]
        for rank, (other, _) in enumerate(texts):
            if other != texts[0][0]:
                raise _native.Error(f"the processes of a group must do the same: rank 0 {texts[0][0]}, and rank {rank} {other}")
        return [own for _, own in texts]
