"""The package with what others have written around PyTorch, JAX and dask; each test where its
module is installed. `make test-python-2` installs them (frameworks.txt) with a current PyTorch.

No model is downloaded: configurations are initialised at random.

`make test-python-2` (nightly) also runs the other tests there, with the wheel and a C++ program
with that libtorch. Last run on a CPU with PyTorch 2.15.0 and numpy 2.4.6:

transformers 5.24.0: a random GPT-2 in a plain loop, fedavg and bsp; Trainer with accumulation
accelerate 1.15.0: prepare, accumulate, clip_grad_norm_; two batches are a step
lightning 2.6.6: Trainer.fit by manual optimisation; Fabric
peft 0.21.2: adapters of a GPT-2: bytes on the WAN within 5 % of theirs (P5)
torch.compile: backends eager and inductor; one of three sites compiles: results as without
torch.export: results as without, fedavg and bsp; no score where a layer is fixed to training
torch.amp.GradScaler: float16 on the CPU, SGD and AdamW; steps that overflow are skipped
torchdata 0.11.0: a shuffled StatefulDataLoader resumes bit-identically at three moments (P3)
jax 0.10.2: attach_arrays with a jitted gradient, fedavg and bsp
dask, distributed 2026.8.0: compare(executor=...) over a LocalCluster; a worker is killed
torchrun: two processes at each of two sites match one per site within 1e-5; one is killed (P7)
FullyShardedDataParallel, fully_shard: the same match; a sharded model resumes bit-identically
scikit-learn 1.9.1: examples/python/sklearn_sites.py
"""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

import longhaul
import loops
import own_group
from loops import samples, score, small_model
from test_group import JOB as GROUP_JOB, SCRIPT, environment, free_ports, run_sites
from test_library import JOB

TORCH_2 = pytest.mark.skipif(int(torch.__version__.split(".")[0]) < 2, reason="PyTorch 2")
TOKENS, LENGTH = 64, 16


def gpt2(seed: int, width: int = 32) -> nn.Module:
    """A GPT-2 of 28,000 values; its input and output are tied."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=TOKENS, n_positions=LENGTH, n_embd=width, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=0))


def sentences(site: str, count: int = 64) -> list[dict[str, torch.Tensor]]:
    """Each token is the one before it plus 1, 2 or 3, as the site has it."""
    draw = torch.Generator().manual_seed(loops.SITES.index(site))
    first = torch.randint(TOKENS, (count, 1), generator=draw)
    step = 1 + loops.SITES.index(site)
    tokens = (first + step * torch.arange(LENGTH)) % TOKENS
    return [{"input_ids": row, "labels": row} for row in tokens]


def language_score(model: nn.Module, site: longhaul.Site) -> dict[str, float]:
    rows = sentences(site.name)
    tokens = torch.stack([row["input_ids"] for row in rows])
    with torch.no_grad():
        loss = model(input_ids=tokens, labels=tokens).loss
    return {"loss": float(loss) * len(rows), "samples": len(rows)}


def learns(command, loop, sync: str = "fedavg", keys: str = "steps = 3", rounds: int = 6,
           scored=score) -> dict:
    """The summary of a run whose loss has fallen."""
    code, summary = command.simulate(command.job(sync=sync, keys=keys, rounds=rounds), loop, scored)
    assert code == 0
    assert summary["rounds"] == rounds
    before = {score: numpy.log(2), language_score: numpy.log(TOKENS)}
    assert summary["final_loss"] < 0.97 * before[scored]
    return summary


@pytest.mark.parametrize("sync,keys", [("fedavg", "steps = 3"), ("bsp", "")])
def test_transformers_model(command, sync, keys):
    pytest.importorskip("transformers")

    def loop(site):
        model = gpt2(site.seed)
        opt = site.attach(model, torch.optim.AdamW(model.parameters(), 3e-3))
        loader = torch.utils.data.DataLoader(sentences(site.name), batch_size=8, shuffle=True)
        for batch in site.batches(loader):
            out = model(**batch)
            opt.zero_grad()
            out.loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step(loss=out.loss)

    learns(command, loop, sync, keys, rounds=12, scored=language_score)


def test_transformers_trainer_ends_with_the_run(command):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    left = []

    def loop(site):
        model = gpt2(site.seed)
        opt = torch.optim.AdamW(model.parameters(), 3e-3)
        schedule = transformers.get_cosine_schedule_with_warmup(opt, 2, 100)
        opt = site.attach(model, opt, also=[schedule])
        arguments = transformers.TrainingArguments(
            str(command.folder / site.name), max_steps=1000, per_device_train_batch_size=8,
            gradient_accumulation_steps=2, use_cpu=True, report_to="none", save_strategy="no",
            disable_tqdm=True, logging_strategy="no", seed=site.seed)
        trainer = transformers.Trainer(model, arguments, train_dataset=sentences(site.name),
                                       optimizers=(opt, schedule))
        try:
            trainer.train()
        finally:
            left.append((site.steps, opt.param_groups[0]["lr"] < 3e-3))

    learns(command, loop, rounds=4, scored=language_score)
    assert left == [(12, True)] * 3


def test_accelerate(command):
    accelerate = pytest.importorskip("accelerate")

    def loop(site):
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.2, momentum=0.9))
        model, opt = accelerator.prepare(model, opt)
        for x, y in site.batches(loops.loader(site.name)):
            with accelerator.accumulate(model):
                accelerator.backward(functional.cross_entropy(model(x), y))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()

    summary = learns(command, loop)
    assert summary["samples"]["computed"] == 6 * 3 * 3 * 16


def test_lightning_by_manual_optimisation(command):
    lightning = pytest.importorskip("lightning")

    def loop(site):
        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False
                self.model = small_model()
                self.opt = site.attach(self.model,
                                       torch.optim.SGD(self.model.parameters(), 0.2, momentum=0.9))

            def configure_optimizers(self):
                return self.opt

            def training_step(self, batch, _):
                x, y = batch
                loss = functional.cross_entropy(self.model(x), y)
                self.opt.zero_grad()
                self.manual_backward(loss)
                self.opt.step(loss=loss, samples=len(x))

        trainer = lightning.Trainer(
            max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Module(), loops.loader(site.name))

    learns(command, loop)


def test_lightning_fabric(command):
    fabric_of = pytest.importorskip("lightning.fabric")

    def loop(site):
        fabric = fabric_of.Fabric(accelerator="cpu", devices=1)
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.2, momentum=0.9))
        model, opt = fabric.setup(model, opt)
        for x, y in site.batches(loops.loader(site.name)):
            opt.zero_grad()
            fabric.backward(functional.cross_entropy(model(x), y))
            opt.step()

    learns(command, loop)


def test_P5_peft_sends_the_adapters_alone(command):
    peft = pytest.importorskip("peft")
    trained = []

    def loop(site):
        model = peft.get_peft_model(gpt2(site.seed, 256), peft.LoraConfig(
            r=4, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True))
        mine = [p for p in model.parameters() if p.requires_grad]
        trained.append((sum(p.numel() for p in mine), sum(p.numel() for p in model.parameters())))
        opt = site.attach(model, torch.optim.AdamW(mine, 0.01))
        loader = torch.utils.data.DataLoader(sentences(site.name), batch_size=8, shuffle=True)
        for batch in site.batches(loader):
            loss = model(**batch).loss
            opt.zero_grad()
            loss.backward()
            opt.step(loss=loss)

    code, summary = command.simulate(command.job(rounds=4), loop, language_score)
    assert code == 0
    adapters, whole = trained[0]
    assert adapters < whole / 20
    least = 4 * 3 * 4 / 3 * adapters * 4  # a ring: each of 3 sites sends 4/3 of the vector a round
    assert least <= summary["wan_bytes"] <= 1.05 * least


@TORCH_2
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled_model(command, backend):
    learns(command, lambda site: loops.train_model(
        site, torch.compile(small_model(), backend=backend)))


@TORCH_2
def test_compiled_where_others_are_not(command):
    """Names and layouts are those of the module inside."""
    def loop(site):
        model = small_model()
        model = torch.compile(model, backend="eager") if site.name == "bb" else model
        loops.train_model(site, model)

    one = learns(command, loop)
    other = command.simulate(command.job(rounds=6), loops.train, score, out="plain")[1]
    assert one["params_hash"] == other["params_hash"]


def exported(model: nn.Module) -> nn.Module:
    return torch.export.export(model, (torch.ones(8, 4),), dynamic_shapes=(
        {0: torch.export.Dim.AUTO},)).module()


@TORCH_2
@pytest.mark.parametrize("sync,keys", [("fedavg", "steps = 3"), ("bsp", "")])
def test_exported_model(command, sync, keys):
    one = learns(command, lambda site: loops.train_model(site, exported(small_model())), sync, keys)
    other = command.simulate(command.job(sync=sync, keys=keys, rounds=6), loops.train, score,
                             out="plain")[1]
    assert one["params_hash"] == other["params_hash"]
    assert one["final_loss"] == other["final_loss"]


@TORCH_2
@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.BatchNorm1d(8)])
def test_exported_as_in_training_is_not_scored(command, capfd, layer):
    def loop(site):
        model = exported(nn.Sequential(nn.Linear(4, 8), copy.deepcopy(layer), nn.Linear(8, 2)))
        loops.train_model(site, model)

    assert command.simulate(command.job(), loop)[0] == 0
    assert command.simulate(command.job(), loop, score, out="scored")[0] == 2
    assert "torch.export has fixed aten." in capfd.readouterr().err


@TORCH_2
@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.AdamW])
def test_scaler_of_float16(command, optimiser):
    """Its first steps overflow and are skipped: they are no steps of the run."""
    skipped = []

    def loop(site):
        model = small_model()
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
        opt = site.attach(model, optimiser(model.parameters(), 0.05), also=[scaler])
        for x, y in site.batches(loops.loader(site.name)):
            with torch.autocast("cpu", torch.float16):
                loss = functional.cross_entropy(model(x), y)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            before = site.steps
            scaler.step(opt, loss=loss)
            scaler.update()
            if site.steps == before and not skipped:
                skipped.append(site.name)

    learns(command, loop, rounds=12)
    assert skipped


def resumes(command, loop) -> None:
    job = command.job(rounds=6)
    whole = command.simulate(job, loop, out="whole")[1]
    for until in ("0.09", "0.13", "0.2"):
        code, _ = command.simulate(job, loop, out=f"cut{until}", more=["--until", until])
        assert code == 130
        code, cut = command.simulate(job, loop, out=f"cut{until}", more=["--resume"])
        assert code == 0
        assert cut["params_hash"] == whole["params_hash"], until


def test_P3_a_stateful_loader_resumes(command):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    drawn = []

    class Counted(torch.utils.data.Dataset):
        def __init__(self, site):
            self.data = samples(site)

        def __len__(self):
            return len(self.data)

        def __getitem__(self, i):
            drawn.append(i)
            return self.data[i]

    def loop(site):
        loops.train_model(site, small_model(), stateful.StatefulDataLoader(
            Counted(site.name), batch_size=8, shuffle=True))

    resumes(command, loop)
    whole = 6 * 3 * 3 * 8
    # Of each run that was cut at most a batch of each site is drawn twice.
    assert len(drawn) <= whole + 3 * (whole + 3 * 8)


def test_jax(command):
    jax = pytest.importorskip("jax")
    from jax import numpy as jnp

    def loss_of(model, x, y):
        logits = jnp.tanh(x @ model["a"]) @ model["b"]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    step = jax.jit(jax.value_and_grad(loss_of))

    def train(site):
        x, y = (tensor.numpy() for tensor in samples(site.name).tensors)
        draw = numpy.random.default_rng(site.seed)
        model = {"a": draw.normal(size=(4, 8)).astype(numpy.float32),
                 "b": draw.normal(size=(8, 2)).astype(numpy.float32)}

        def apply(gradient):
            for name, values in model.items():
                values -= numpy.float32(0.3) * gradient[name]

        site.attach_arrays(model, apply)
        for first in site.batches(range(0, len(y), 8)):
            loss, gradient = step(model, x[first:first + 8], y[first:first + 8])
            site.step(gradient, loss=loss, samples=8)

    def jax_score(model, site):
        x, y = (tensor.numpy() for tensor in samples(site.name).tensors)
        return {"loss": float(loss_of(model, x, y)) * len(y), "samples": len(y)}

    for sync, keys in (("fedavg", "steps = 3"), ("bsp", "")):
        code, summary = command.simulate(command.job(sync=sync, keys=keys, rounds=12), train,
                                         jax_score, out=sync)
        assert code == 0 and summary["final_loss"] < 0.6


def test_a_worker_of_dask_is_killed(command):
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("cloudpickle")
    marker = command.folder / "killed"

    def train(site):
        def batches():
            for batch in loops.loader(site.name):
                if site.name == "bb" and site.steps == 7 and not marker.exists():
                    marker.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch

        class Loader:
            __iter__ = staticmethod(batches)

        return loops.train_model(site, small_model(), Loader())

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                                  worker_dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            there = longhaul.compare(JOB, train, score, sync=["fedavg", "diloco"], seeds=2,
                                     executor=client.get_executor())
    assert marker.exists()
    here = longhaul.compare(JOB, train, score, sync=["fedavg", "diloco"], seeds=2)
    assert len(there.runs) == 4 and not there.failed
    assert ([run.params_hash for run in there.runs] == [run.params_hash for run in here.runs])


class TorchRun:
    """A site of two processes, started by torchrun."""

    def __init__(self, command, site: str, port: int):
        self.child = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2",
             "--master_addr", "127.0.0.1", "--master_port", str(port), str(SCRIPT), "site",
             "job.toml", "--site", site, "--insecure", "--out", f"two/{site}", "--quiet"],
            cwd=command.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment())

    def process(self, rank: int) -> int:
        """The number of the process with that rank."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text()
        return next(int(one) for one in children.split()
                    if f"\0RANK={rank}\0" in Path(f"/proc/{one}/environ").read_text())


@TORCH_2
@pytest.mark.parametrize("wrap", ["", "FSDP", "fully_shard"])
def test_P7_torchrun(command, monkeypatch, wrap):
    if wrap:
        monkeypatch.setenv("WRAP", wrap)
    one = run_sites(command, 1, "fedavg", "steps = 3", "one")
    a, b, *masters = free_ports(4)
    (command.folder / "job.toml").write_text(GROUP_JOB.format(
        sync="fedavg", keys="steps = 3", a=a, b=b))
    for site in [TorchRun(command, name, port) for name, port in zip(("aa", "bb"), masters)]:
        text = site.child.communicate(timeout=120)[0]
        assert site.child.returncode == 0, text
    two = numpy.fromfile(command.folder / "two/aa/model.f32", numpy.float32)
    assert numpy.abs(one - two).max() < 1e-5


@pytest.fixture
def alone(tmp_path):
    """A group of torch.distributed with this process alone."""
    from torch import distributed

    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0,
                                   world_size=1)
    yield distributed.group.WORLD
    distributed.destroy_process_group()


def sharded_loop(wrap: str, group=None):
    def loop(site):
        model = own_group.wrapped(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8),
                                                nn.Linear(8, 2)), wrap)
        opt = torch.optim.AdamW(model.parameters(), 0.05)
        opt = site.attach(model, opt, group=group)
        for x, y in site.batches(loops.loader(site.name)):
            loss = functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step(loss=loss)

    return loop


@TORCH_2
@pytest.mark.parametrize("wrap", ["FSDP", "fully_shard"])
def test_P3_a_sharded_model_resumes(command, alone, wrap):
    resumes(command, sharded_loop(wrap, alone))


@TORCH_2
@pytest.mark.parametrize("wrap", ["FSDP", "fully_shard"])
def test_what_a_sharded_model_cannot_is_refused(command, alone, wrap, capfd):
    for group, scored, sync, why in (
            (None, None, "fedavg", "the model is sharded: say group="),
            (alone, score, "fedavg", "score() needs a copy of the model, which is sharded"),
            (alone, None, "bsp", "exchanges gradients, and the model is sharded")):
        job = command.job(sync=sync, keys="steps = 3" if sync == "fedavg" else "")
        code, _ = command.simulate(job, sharded_loop(wrap, group), scored, more=["--force"])
        err = capfd.readouterr().err
        assert code == 2 and why in err, err


@TORCH_2
def test_P7_torchrun_ends_a_site_of_which_a_process_is_killed(command, monkeypatch):
    monkeypatch.setenv("PAUSE_S", "0.1")
    a, b, *masters = free_ports(4)
    (command.folder / "job.toml").write_text(GROUP_JOB.format(
        sync="fedavg", keys="steps = 3", a=a, b=b).replace("= 6", "= 200"))
    aa, bb = (TorchRun(command, name, port) for name, port in zip(("aa", "bb"), masters))
    try:
        steps = command.folder / "bb.1.steps"
        deadline = time.monotonic() + 60
        while not (steps.exists() and len(steps.read_text()) > 5):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(bb.process(1), signal.SIGKILL)
        text = bb.child.communicate(timeout=60)[0]
        assert bb.child.returncode != 0
        assert "site bb" in text, text
    finally:
        for site in (aa, bb):
            site.child.terminate()
            site.child.communicate(timeout=60)
