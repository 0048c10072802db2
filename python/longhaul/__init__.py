"""Trains the same PyTorch loop at several sites, over wide-area networks or simulated.

    import longhaul, torch

    def train(site):                                    # runs once at every site
        model = Net().to(site.device)
        opt = site.attach(model, torch.optim.AdamW(model.parameters(), 1e-3))
        for x, y in site.batches(loader(site.name)):    # ends when the run ends
            x, y = x.to(site.device), y.to(site.device)
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

from typing import TYPE_CHECKING, Any

from longhaul._longhaul import __version__
from longhaul.command import main
from longhaul.library import (Diverged, JobError, PeerError, Summary, Table, bound, compare,
                              explain, perf, plan, read_run, simulate)
from longhaul.site import RunEnded, Site

if TYPE_CHECKING:
    from longhaul.torch import load_model


def __getattr__(name: str) -> Any:
    if name == "load_model":  # needs torch, which the rest does not
        from longhaul.torch import load_model

        return load_model
    raise AttributeError(f"module longhaul has no attribute {name!r}")


__all__ = ["Diverged", "JobError", "PeerError", "RunEnded", "Site", "Summary", "Table",
           "__version__", "bound", "compare", "explain", "load_model", "main", "perf", "plan",
           "read_run", "simulate"]
