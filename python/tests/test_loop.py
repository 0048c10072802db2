"""Loops of one's own in the simulator: equal bits, checkpoints, and what goes wrong.

Promises, in the names of tests of this folder:

P1: bit-identical to the built-in learner, simulated and over sockets (test_builtin.py)
P2: a run is a function of the job and its seed, with any number of threads
P3: a resumed run is bit-identical
P4: a fault of the loop is named, with exit code 2 and no hang (deaths, Ctrl-C: test_sockets.py)
P5: trained values are exchanged, frozen ones are not
P7: several processes at a site equal one process with the whole batch (test_group.py)
P9: every strategy trains a loop, or is refused by name (test_strategies.py)

Also test_accidents.py, test_library.py and test_examples.py. `make test` runs them with Debian's
PyTorch 1.13 and numpy 1.24; test_frameworks.py has newer packages.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import longhaul
import loops
from loops import loader, random_loop, score, small_model, train


def test_a_run_learns_and_ends(command):
    code, summary = command.simulate(command.job(rounds=12), train, score)
    assert code == 0
    assert summary["rounds"] == 12
    assert summary["final_accuracy"] > 0.85
    assert summary["samples"]["computed"] == 3 * 12 * 3 * 8


def test_P2_equal_runs_whatever_the_threads(command):
    hashes = set()
    for threads in ("1", "2", "2"):
        code, summary = command.simulate(command.job(), random_loop, more=["--threads", threads],
                                         out=f"run{len(hashes)}{threads}{len(command_runs)}")
        command_runs.append(code)
        assert code == 0
        hashes.add(summary["params_hash"])
    assert len(hashes) == 1


command_runs: list[int] = []


def test_P2_the_seed_counts(command):
    job = command.job()
    one = command.simulate(job, random_loop, out="a")[1]["params_hash"]
    other = command.simulate(job, random_loop, out="b", more=["--set", "job.seed=4"])[1]
    assert one != other["params_hash"]


def resumed(command, sync: str, keys: str, until: str, loop=random_loop) -> tuple[str, str]:
    job = command.job(sync=sync, keys=keys, rounds=6)
    whole = command.simulate(job, loop, out="whole")[1]
    code, _ = command.simulate(job, loop, out="cut", more=["--until", until])
    assert code == 130
    code, cut = command.simulate(job, loop, out="cut", more=["--resume"])
    assert code == 0
    return whole["params_hash"], cut["params_hash"]


def test_P3_resumed_to_the_same_bits(command):
    for number, until in enumerate(("0.09", "0.13", "0.2")):
        command.folder = command.folder / str(number)
        command.folder.mkdir()
        whole, cut = resumed(command, "fedavg", "steps = 3", until)
        assert whole == cut, until


def test_P3_resumed_between_gradient_and_mean(command):
    for number, until in enumerate(("0.031", "0.052", "0.07")):
        command.folder = command.folder / str(number)
        command.folder.mkdir()
        whole, cut = resumed(command, "bsp", "", until)
        assert whole == cut, until


# What goes wrong (P4): a clear text, exit code 2, and no hang.


def fails(command, capfd, loop, sync: str = "fedavg", keys: str = "steps = 3", score=None) -> str:
    code, _ = command.simulate(command.job(sync=sync, keys=keys), loop, score, more=["--force"])
    err = capfd.readouterr().err
    assert code == 2, err
    return err


def changed(at: int, change, site_name: str = "bb"):
    """The loop of loops.train with something else in step `at` of one site."""

    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            if site.name == site_name and site.steps == at:
                change(model, opt)
            loss = functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step(loss=loss)

    return loop


def test_P4_an_exception_has_its_traceback(command, capfd):
    def broken(model, opt):
        raise ValueError("a bug of mine")

    err = fails(command, capfd, changed(6, broken))
    assert "Traceback" in err and 'raise ValueError("a bug of mine")' in err
    assert "site bb: train() raised ValueError: a bug of mine (" in err
    assert "test_loop.py:" in err


def test_P4_an_exception_before_the_run(command, capfd):
    def loop(site):
        if site.name == "cc":
            raise FileNotFoundError("no data here")
        train(site)

    assert "site cc: train() raised FileNotFoundError: no data here" in fails(command, capfd, loop)


def test_P4_a_loop_that_returns_early(command, capfd):
    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for _ in range(4):
            opt.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            opt.step(samples=2)

    assert "train() returned after 4 steps, before the run had ended" in fails(command, capfd, loop)


def test_P4_a_loop_that_attaches_nothing(command, capfd):
    assert "train() returned without site.attach(" in fails(command, capfd, lambda site: None)


def test_P4_a_step_from_another_thread(command, capfd):
    import threading

    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        errors = []

        def other():
            try:
                opt.step(samples=1)
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=other, name="helper")
        thread.start()
        thread.join()
        raise errors[0]

    assert "step() was called from thread 'helper'" in fails(command, capfd, loop)


def test_P4_a_model_that_is_moved(command, capfd):
    def moved(model, opt):
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()

    err = fails(command, capfd, changed(2, moved))
    assert "is in other memory than when it was attached" in err


def test_P4_a_parameter_that_is_replaced(command, capfd):
    def replaced(model, opt):
        model[0].weight = nn.Parameter(torch.ones(8, 4))

    err = fails(command, capfd, changed(2, replaced))
    assert "tensor 0.weight of the model is another than when it was attached" in err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_P4_a_step_from_a_thread_whose_errors_nobody_sees(command, capfd):
    import threading

    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            loss = functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            thread = threading.Thread(target=opt.step, name="helper")
            thread.start()
            thread.join()

    assert "step() was called from thread 'helper'" in fails(command, capfd, loop)


def test_P4_an_error_of_many_lines_is_told_in_one(command, capfd):
    def broken(model, opt):
        raise ValueError("a bug of mine\nand what it is")

    err = fails(command, capfd, changed(2, broken))
    assert "ValueError: a bug of mine\nand what it is\n" in err  # the traceback
    assert "train() raised ValueError: a bug of mine (" in err


def test_P4_a_batch_of_zero(command, capfd):
    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, _ in site.batches([(torch.empty(0, 4), torch.empty(0))]):
            opt.zero_grad()
            model(x).sum().backward()
            opt.step()

    assert "a batch of 0 samples" in fails(command, capfd, loop)


def test_P4_a_loader_that_can_be_read_once(command, capfd):
    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, _ in site.batches(iter([(torch.ones(2, 4), 0)] * 5)):
            opt.zero_grad()
            model(x).sum().backward()
            opt.step()

    assert "gave no batch when it was begun again" in fails(command, capfd, loop)


def test_P4_a_loss_that_is_not_a_number(command, capfd):
    def infinite(model, opt):
        opt.param_groups[0]["lr"] = float("nan")

    code, summary = command.simulate(command.job(), changed(4, infinite))
    assert code == 1
    assert summary["stop_reason"] == "diverged"
    assert "bb" in summary["failure"] or "rank 1" in summary["failure"], summary["failure"]


def test_P4_step_twice_is_two_steps(command):
    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            loss = functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step(loss=loss)
            opt.step(loss=loss, samples=8)

    code, summary = command.simulate(command.job(), loop)
    assert code == 0
    assert summary["samples"]["computed"] == 4 * 3 * 3 * 8


def test_P4_a_closure_is_refused(command, capfd):
    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        opt.step(lambda: 1.0)

    assert "step(closure)" in fails(command, capfd, loop)


def test_a_loop_without_batches_ends_by_an_exception_of_its_own(command):
    ended = []

    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        try:
            while True:
                opt.zero_grad()
                model(torch.ones(2, 4)).sum().backward()
                opt.step(samples=2)
        except longhaul.RunEnded:
            ended.append(site.steps)
            raise

    code, _ = command.simulate(command.job(), loop)
    assert code == 0
    assert ended == [12, 12, 12]


def test_scores_that_are_no_sums_are_refused(command, capfd):
    def rate(model, site):
        return {"loss": 1.0, "accuracy": 0.5 * 40 * 100, "samples": 40}

    assert "score(): accuracy is 2000.0 of 40 samples" in fails(command, capfd, train, score=rate)


def test_the_model_of_a_server_is_scored_at_all_sites(command):
    right = {"aa": 5, "bb": 20, "cc": 35}

    def known(model, site):
        return {"loss": 1.0, "accuracy": right[site.name], "samples": 40}

    code, summary = command.simulate(command.job(sync="asp", keys=""), train, known,
                                     more=["--set", "overlay.kind=hub"])
    assert code == 0
    assert summary["final_accuracy"] == 60 / 120


def test_a_target_without_a_score_is_refused(command, capfd):
    code, _ = command.simulate(command.job(), train, more=["--set", "stop.target_accuracy=0.9"])
    assert code == 2
    assert "gives no score" in capfd.readouterr().err


def test_epochs_of_a_loop_are_refused(command, capfd):
    code, _ = command.simulate(command.job(), train, more=["--set", "stop.max_epochs=2"])
    assert code == 2
    assert "[stop] max_epochs" in capfd.readouterr().err


def test_a_model_of_the_job_file_is_refused(command, capfd):
    code, _ = command.simulate(command.job(more='[model]\nkind = "lenet"\n'), train)
    assert code == 2
    assert "job.toml:27: [model] kind: expected no [model]" in capfd.readouterr().err


# What is exchanged (P5).


def frozen_model(value: float = 1.0) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(4, 1000), nn.ReLU(), nn.Linear(1000, 2))
    with torch.no_grad():
        model[0].weight.fill_(value)
    model[0].requires_grad_(False)
    return model


def train_frozen(site, model):
    trained = [p for p in model.parameters() if p.requires_grad]
    opt = site.attach(model, torch.optim.SGD(trained, 0.1))
    for x, y in site.batches(loader(site.name)):
        loss = functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step(loss=loss)


def test_P5_frozen_tensors_are_not_sent(command):
    whole = command.simulate(command.job(), lambda site: train_frozen(site, frozen_model()))
    head = nn.Linear(1000, 2)
    count = sum(p.numel() for p in head.parameters())
    # Ring: each of 3 sites sends 4/3 of the vector a round.
    least = 4 * 3 * 4 / 3 * count * 4
    assert whole[0] == 0
    assert least <= whole[1]["wan_bytes"] <= 1.05 * least + 4000


def test_P5_a_frozen_tensor_that_differs_is_named(command, capfd):
    def loop(site):
        train_frozen(site, frozen_model(1.0 if site.name != "bb" else 1.5))

    err = fails(command, capfd, loop)
    assert "frozen tensor 0.weight differs between sites aa and bb" in err


def test_start_values_that_differ_are_named(command, capfd):
    def loop(site):
        torch.manual_seed(site.rank)
        train(site)

    assert "the start value of tensor 0.weight differs between sites aa and bb" in fails(
        command, capfd, loop)


def test_a_built_in_model_is_refused(command, capfd):
    job = command.job(more='[model]\nkind = "lenet"\n[data]\nkind = "mnist"\n')
    code, _ = command.simulate(job, train)
    assert code == 2
    assert '[model] kind = "lenet" is trained by `longhaul`' in capfd.readouterr().err


def test_numbers_of_16_bits_are_mirrored(command):
    def loop(site):
        model = small_model().to(torch.bfloat16)
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            loss = functional.cross_entropy(model(x.to(torch.bfloat16)).float(), y)
            opt.zero_grad()
            loss.backward()
            opt.step(loss=loss)

    for sync, keys in (("fedavg", "steps = 3"), ("bsp", ""), ("diloco", "steps = 3")):
        code, summary = command.simulate(command.job(sync=sync, keys=keys), loop, out=sync)
        assert code == 0 and summary["rounds"] == 4


# What strangers have found.


def test_an_exception_that_is_no_utf8_is_told(command, capfd):
    def broken(model, opt):
        raise ValueError("no such file: \udcff.csv")

    assert "ValueError: no such file: \\udcff.csv" in fails(command, capfd, changed(2, broken))

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def mute(model, opt):
        raise Mute

    code, _ = command.simulate(command.job(), changed(2, mute), out="mute")
    assert code == 2 and "train() raised Mute" in capfd.readouterr().err


def test_an_exception_after_the_run_is_no_success(command, capfd):
    def loop(site):
        train(site)
        if site.name == "bb":
            raise OSError("the disk is full")

    err = fails(command, capfd, loop)
    assert "site bb: after the run train() raised OSError: the disk is full" in err


def test_a_run_inside_a_loop_is_refused(command, capfd):
    def loop(site):
        longhaul.simulate(command.job(), train)

    assert "a run cannot be started inside train() of site aa" in fails(command, capfd, loop)


def test_what_is_trained_is_settled_when_it_is_attached(command, capfd):
    def unfrozen(site):
        model = frozen_model()
        opt = site.attach(model, torch.optim.SGD(model[2].parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            if site.steps == 2:
                model[0].requires_grad_(True)
            opt.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            opt.step()

    assert "was frozen when it was attached" in fails(command, capfd, unfrozen)

    def added(model, opt):
        opt.add_param_group({"params": [nn.Parameter(torch.ones(1))]})

    code, _ = command.simulate(command.job(), changed(2, added), out="added")
    assert code == 2 and "the optimiser has got other parameters" in capfd.readouterr().err

    def missing(site):
        model = small_model()
        site.attach(model, torch.optim.SGD(model[0].parameters(), 0.1))

    code, _ = command.simulate(command.job(), missing, out="missing")
    assert code == 2
    assert "parameter 2.weight requires a gradient, and the optimiser does not have it" in (
        capfd.readouterr().err)


def test_two_tensors_that_share_memory_are_refused(command, capfd):
    def loop(site):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model[1].weight.data = model[0].weight.data
        site.attach(model, torch.optim.SGD(model.parameters(), 0.1))

    assert "tensors 0.weight and 1.weight are two that share memory" in fails(
        command, capfd, loop)


def test_scores_see_all_of_the_model(command):
    seen = []

    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            model.steps = site.steps
            opt.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            opt.step()

    def look(model, site):
        seen.append(model.steps)
        return {"loss": 1.0, "samples": 1}

    assert command.simulate(command.job(rounds=6), loop, look)[0] == 0
    assert len(set(seen)) > 1


def test_adagrad_starts_anew(command):
    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.Adagrad(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            opt.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            opt.step()

    assert command.simulate(command.job(), loop)[0] == 0


def test_P3_a_count_of_batches_is_in_the_checkpoint(command):
    def loop(site):
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, momentum=None), nn.Linear(8, 2))
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            opt.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            opt.step()

    whole, cut = resumed(command, "fedavg", "steps = 3", "0.13", loop)
    assert whole == cut


def test_batches_that_are_mappings_are_counted(command):
    from collections import UserDict

    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for batch in site.batches([UserDict(x=torch.ones(5, 4), y=torch.ones(5).long())]):
            opt.zero_grad()
            functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
            opt.step()

    assert command.simulate(command.job(), loop)[1]["samples"]["computed"] == 4 * 3 * 3 * 5


def test_processes_of_the_loop_take_signals(command):
    import multiprocessing
    import time

    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            if site.steps == 1 and site.name == "aa":
                process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
                process.start()
                process.terminate()
                process.join(10)
                assert process.exitcode == -15
            opt.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            opt.step()

    assert command.simulate(command.job(), loop)[0] == 0
