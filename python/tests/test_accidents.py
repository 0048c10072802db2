"""Accidents of users' loops: each ends in one message with the right name, and no exit code 0."""

from __future__ import annotations

import json
import os
import signal
import time

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

import longhaul
from loops import loader, score, small_model, train
from test_loop import changed, fails, resumed


@pytest.mark.parametrize("change,name", [
    (lambda model: model.add_module("head", nn.Linear(2, 2)), "head.weight was added"),
    (lambda model: model[0].register_parameter("scale", nn.Parameter(torch.ones(1))),
     "0.scale was added"),
    (lambda model: model.register_buffer("mean", torch.ones(1)), "mean was added"),
    (lambda model: model.__setitem__(2, nn.Linear(8, 2)), "2.weight of the model is another")])
def test_P4_a_model_that_grows_is_named_at_the_next_step(command, capfd, change, name):
    def grown(model, opt):
        change(model)

    err = fails(command, capfd, changed(2, grown))
    assert f"site bb: tensor {name}" in err
    assert json.loads((command.folder / "run/summary.json").read_text())["rounds"] == 0


def test_a_model_that_changes_without_new_values_is_none_of_it(command):
    def changed_in_place(model, opt):
        model.register_buffer("counts", torch.ones(1, dtype=torch.long))
        model.add_module("last", nn.Identity())
        model.load_state_dict(model.state_dict())

    assert command.simulate(command.job(), changed(2, changed_in_place))[0] == 0


def endless(step):
    """A loop without site.batches that does step(site, optimiser) for ever."""
    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        while True:
            model(torch.ones(2, 4)).sum().backward()
            step(site, opt)

    return loop


@pytest.mark.parametrize("caught,samples,text", [
    (Exception, 0, "site aa: step(): a batch of 0 samples"),
    (BaseException, 2, "site aa: after the run train() raised RunEnded")])
def test_P4_an_error_that_the_loop_catches_still_ends_it(command, capfd, caught, samples, text):
    def step(site, opt):
        try:
            opt.step(samples=samples)
        except caught:
            pass

    err = fails(command, capfd, endless(step))
    assert text in err and "train() has caught this, and goes on" in err


def test_P4_a_loop_that_never_steps_is_told(command, capfd):
    def loop(site):
        model = small_model()
        site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        other = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in site.batches([(1, 2)] * 100):
            other.step()

    assert "step() of the optimiser that attach() returned was not called" in fails(
        command, capfd, loop)


def test_P4_a_train_that_calling_does_not_run(command, capfd):
    def generator(site):
        yield train(site)

    async def coroutine(site):
        train(site)

    for loop in (generator, coroutine):
        assert "site aa: train() is a generator or async" in fails(command, capfd, loop)


def test_batches_again_after_the_run_are_none(command):
    """for epoch in range(3): for x, y in site.batches(loader): ..."""
    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for _ in range(3):
            for x, y in site.batches(loader(site.name)):
                opt.zero_grad()
                functional.cross_entropy(model(x), y).backward()
                opt.step()

    assert command.simulate(command.job(), loop)[1]["rounds"] == 4


def test_P4_arrays_that_are_replaced_added_or_shared(command, capfd):
    def loop_of(arrays, change):
        def loop(site):
            mine = arrays()
            site.attach_arrays(mine)
            while True:
                change(mine)
                site.step()

        return loop

    def zeros():
        return {"w": numpy.zeros(4, numpy.float32)}

    def replace(mine):
        mine["w"] = mine["w"] + 1

    def add(mine):
        mine["b"] = numpy.zeros(1, numpy.float32)

    def overlapping():
        whole = numpy.zeros(8, numpy.float32)
        return {"a": whole[:6], "b": whole[2:]}

    assert "array w is another than when it was attached" in fails(
        command, capfd, loop_of(zeros, replace))
    assert "array b was added after site.attach_arrays()" in fails(
        command, capfd, loop_of(zeros, add))
    assert "a and b share memory" in fails(command, capfd, loop_of(overlapping, len))


def said(command, capfd, scored, *more: str) -> tuple[dict, str]:
    code, summary = command.simulate(command.job(), train, scored, more=[*more])
    assert code == 0
    return summary, capfd.readouterr().out


def test_what_nobody_scores_is_not_scored(command, capfd):
    for scored in (None, lambda model, site: {"loss": 0.0, "accuracy": 0, "samples": 0}):
        summary, out = said(command, capfd, scored, "--force")
        assert summary["final_accuracy"] is None and summary["final_loss"] is None
        assert "best_loss" not in summary and "site_scores" not in summary
        assert "  not scored\n" in out and "accuracy " not in out


def test_a_score_without_accuracy_has_none(command, capfd):
    summary, out = said(command, capfd, lambda model, site: {"loss": 3.0, "samples": 4})
    assert summary["final_accuracy"] is None and summary["final_loss"] == 0.75
    assert summary["best_accuracy"] is None
    assert [one["accuracy"] for one in summary["site_scores"]] == [None] * 3
    assert "  loss 0.7500\n" in out and "aa: loss 0.7500 on its 4 samples" in out
    assert "accuracy " not in out


def test_a_site_without_test_samples_is_not_scored(command, capfd):
    def scored(model, site):
        return {"loss": 0.0, "samples": 0} if site.name == "bb" else score(model, site)

    summary, out = said(command, capfd, scored)
    assert summary["final_accuracy"] > 0.5 and "    bb: not scored\n" in out
    assert summary["site_scores"][1] == {
        "site": "bb", "loss": None, "accuracy": None, "samples": 0}


def test_a_score_that_is_wrong_is_told_in_one_line(command, capfd):
    def broken(model, site):
        raise KeyError("no such thing")

    err = fails(command, capfd, train, score=broken)
    assert "Traceback" in err and "score() raised KeyError: 'no such thing' (" in err
    assert "At:" not in err

    def means(model, site):
        return {"loss": 0.3, "accuracy": 0.9, "samples": 40}

    assert "score(): accuracy is 0.9 of 40 samples; expected how many of them are right" in fails(
        command, capfd, train, score=means)


def test_P4_a_loop_that_forks_is_one_process(command, capfd):
    children = []

    def loop(site):
        model = small_model()
        opt = site.attach(model, torch.optim.SGD(model.parameters(), 0.1))
        for x, y in site.batches(loader(site.name)):
            if site.steps == 2 and site.name == "bb" and (child := os.fork()):
                children.append(child)
            opt.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            opt.step()

    assert command.simulate(command.job(), loop)[0] == 0
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 2
    assert f"step() was called in process {children[0]}, which train() has forked" in (
        capfd.readouterr().err)


def test_a_run_stays_in_its_folder_wherever_the_loop_goes(command, monkeypatch):
    monkeypatch.chdir(command.folder)
    elsewhere = command.folder / "elsewhere"
    elsewhere.mkdir()

    def gone(model, opt):
        os.chdir(elsewhere)

    assert command.here(["simulate", command.job(), "--out", "run", "--quiet"],
                        changed(2, gone)) == 0
    assert (command.folder / "run/summary.json").exists() and not list(elsewhere.iterdir())


def test_P3_a_schedule_that_is_not_in_the_checkpoint_is_told(command, capfd):
    def loop(site):
        model = small_model()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        torch.optim.lr_scheduler.StepLR(opt, 10)
        train_steps(site, model, site.attach(model, opt))

    def train_steps(site, model, opt):
        for x, y in site.batches(loader(site.name)):
            opt.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            opt.step()

    resumed(command, "fedavg", "steps = 3", "0.09", loop)
    assert "the checkpoint has no state of the learning-rate scheduler" in capfd.readouterr().err


STUCK = """
import os, time, numpy, longhaul

def train(site):
    weights = numpy.zeros(4, numpy.float32)
    site.attach_arrays({"w": weights})
    for _ in site.batches([range(8)]):
        if site.name == "bb" and site.steps == 3 and os.environ["STUCK"] == "in a step":
            print("stuck", flush=True)
            while True:
                sum(range(100))
        weights += 1
        site.step()
    if site.name == "bb":
        print("stuck", flush=True)
        time.sleep(1000)

longhaul.main(train)
"""


def stuck(command, monkeypatch, where: str):
    monkeypatch.setenv("STUCK", where)
    child = command.start(STUCK, ["simulate", command.job(), "--out", where, "--quiet"])
    assert child.stdout.readline() == "stuck\n"
    return child


def test_a_second_signal_ends_a_run_whose_loop_is_stuck(command, monkeypatch):
    child = stuck(command, monkeypatch, "in a step")
    child.send_signal(signal.SIGTERM)
    assert "site bb: stops, and waits for one step of its loop" in child.stderr.readline()
    time.sleep(1.1)  # a signal that comes sooner belongs to the first
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=10)
    assert child.returncode == -signal.SIGTERM


def test_ctrl_c_ends_a_loop_that_is_stuck_after_the_run(command, monkeypatch):
    child = stuck(command, monkeypatch, "after the run")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=10)
    assert child.returncode == 130


def test_a_script_without_a_guard_can_spawn(command):
    """Its processes import the script, and longhaul.main() with it."""
    code, out, err = command.process("""
import multiprocessing, numpy, longhaul

def train(site):
    if site.name == "bb":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.map(abs, [-1]) == [1]
    site.attach_arrays({"w": numpy.zeros(4, numpy.float32)})
    for _ in site.batches([range(8)]):
        site.step()

longhaul.main(train)
""", ["simulate", command.job(), "--out", "run", "--quiet"])
    assert code == 0, out + err


def test_a_run_after_one_that_was_interrupted_runs(command):
    """In a notebook."""
    def interrupted(model, opt):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        longhaul.simulate(command.job(rounds=1000), changed(2, interrupted))
    assert longhaul.simulate(command.job(), train).rounds == 4
