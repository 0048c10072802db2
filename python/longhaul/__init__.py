"""Trains the same PyTorch loop at several sites, over wide-area networks or in a simulation of them.

    import longhaul, torch

    def train(site):                                    # runs once at every site
        model = Net().to(site.device)
        opt = site.attach(model, torch.optim.AdamW(model.parameters(), 1e-3))
        for x, y in site.batches(loader(site.name)):    # ends when the run ends
            loss = torch.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step(loss=loss)                         # here sites exchange, as the job says
        return model

    if __name__ == "__main__":
        longhaul.main(train)

    python3 train.py simulate job.toml                  # all sites in this process, in virtual time
    python3 train.py site job.toml --site tokyo         # for real
"""

from longhaul._longhaul import __version__
from longhaul.command import main
from longhaul.library import (Diverged, JobError, PeerError, Summary, Table, bound, compare, explain,
                              perf, plan, read_run, simulate)
from longhaul.site import RunEnded, Site

__all__ = ["Diverged", "JobError", "PeerError", "RunEnded", "Site", "Summary", "Table",
           "__version__", "bound", "compare", "explain", "main", "perf", "plan", "read_run",
           "simulate"]
