"""plan and compare of a loop of one's own: what is tried, what is left out, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("own_plan.py")
JOB = """
stop = {max_rounds = 60, target_accuracy = 0.93}
report = {every_rounds = 1}
sync = {kind = "fedavg", steps = 4}
wan = {mbps = 1, delay_ms = 30}
optimizer = {rate = 0.02}
site = [{name = "aa", step_ms = 10}, {name = "bb", step_ms = 15}]
"""
PLAN = ["plan", "job.toml", "--budget-samples", "60000", "--jobs", "2", "--json"]
COMPARE = ["compare", "job.toml", "--sync", "fedavg,diloco"]
# Each plan predicts hundreds of combinations first, which takes a sanitizer's build long.
nightly = pytest.mark.skipif("LONGHAUL_ALL" not in os.environ, reason="takes minutes")


def interrupted_at(command: Any, part: str, *words: str) -> dict[str, Any]:
    """What plan says after Ctrl-C at the first line of its errors that has `part`."""
    child = command.start(SCRIPT, [*PLAN, *words])
    assert any(part in line for line in child.stderr)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, out + err
    assert "--resume continues" in err
    found: dict[str, Any] = json.loads(out)
    return found


def test_plan_tries_rates_and_what_the_loop_can_do(command, monkeypatch):
    monkeypatch.setenv("LOOP", "rate")
    command.job(text=JOB + 'codec = {kind = "sign"}\n')  # few strategies allow it: less to predict
    plan = interrupted_at(command, "6 of ")
    ran = [trial for trial in plan["ranking"] if trial["ran"]]
    assert ran and all(trial["score"] > 0 for trial in ran if trial["rounds"] > 0)
    rates = {trial["label"].partition("-rate=")[2] for trial in plan["ranking"]}
    assert rates == {"", "0.005", "0.08"}
    # Every strategy is a candidate, or is named with the reason.
    assert "p3" in plan["refused"] and "sfb" in plan["refused"]
    assert "backward part" in plan["refused"]["p3"]
    assert not {trial["sync"] for trial in plan["ranking"]} & set(plan["refused"])
    code, _, err = command.process(SCRIPT, [*PLAN, "--resume", "--set", "sync.steps=9"])
    assert code == 2 and "[sync] steps: was 4, is 9" in err
    if "LONGHAUL_ALL" not in os.environ:
        return
    again = interrupted_at(command, "8 of ", "--resume")
    assert sum(trial["ran"] for trial in again["ranking"]) >= len(ran)


@nightly
def test_a_loop_without_gradients_is_not_asked_for_them(command, monkeypatch):
    monkeypatch.setenv("LOOP", "values")
    command.job(text=JOB)
    plan = interrupted_at(command, "6 of ")
    assert "cannot do: gradient" in plan["refused"]["bsp"]
    tried = {trial["label"] for trial in plan["ranking"]}
    assert any(label.startswith("fedavg-") for label in tried)
    assert not any("-rate=" in label for label in tried)


@pytest.mark.parametrize("when, words", [
    ("early", PLAN), ("late", COMPARE), pytest.param("late", PLAN, marks=nightly)])
def test_an_error_of_the_loop_has_one_traceback(command, monkeypatch, when, words):
    monkeypatch.setenv("LOOP", when)
    command.job(text=JOB)
    code, out, err = command.process(SCRIPT, words)
    assert code == 2, out + err
    assert err.count("Traceback (most recent call last)") == 1, err
    assert err.count('raise ValueError("a bug of mine")') == 1, err
    assert "train() raised ValueError: a bug of mine (" in err


@nightly
def test_a_loop_that_ends_its_process_is_named(command, monkeypatch):
    monkeypatch.setenv("LOOP", "exit")
    command.job(text=JOB)
    code, _, err = command.process(SCRIPT, PLAN)
    assert code == 2 and "its process ended without a result, with exit code 0" in err


def test_what_plan_needs_of_a_loop(command, monkeypatch):
    command.job(text=JOB)
    code, _, err = command.process(SCRIPT, ["plan", "job.toml", "--budget-epochs", "3"])
    assert code == 2 and "--budget-samples" in err
    monkeypatch.setenv("LOOP", "no score")
    code, _, err = command.process(SCRIPT, PLAN)
    assert code == 2 and "longhaul.main(train, score)" in err
    monkeypatch.setenv("LOOP", "no accuracy")
    code, _, err = command.process(SCRIPT, ["simulate", "job.toml"])
    assert code == 2 and 'score() returned no "accuracy"' in err
    monkeypatch.setenv("LOOP", "rate")
    command.job(text=JOB.replace("optimizer = {rate = 0.02}\n", ""))
    code, _, err = command.process(SCRIPT, ["simulate", "job.toml", "--force"])
    assert code == 2 and "the job file has no [optimizer] rate" in err


@nightly
def test_compare_tunes_the_rate_of_a_loop_that_takes_it(command, monkeypatch):
    command.job(text=JOB)
    words = ["compare", "job.toml", "--sync", "fedavg", "--tune", "--seeds", "1", "--json",
             "--quiet", "--jobs", "2"]
    code, _, err = command.process(SCRIPT, words)
    assert code == 2 and "site.rate" in err
    monkeypatch.setenv("LOOP", "rate")
    code, out, err = command.process(SCRIPT, words)
    assert code == 0, err
    (tuned,) = json.loads(out)["tuned"]
    assert len(tuned["tried"]) == 5 and tuned["rate"] in tuned["tried"]


@nightly
def test_batches_that_the_job_does_not_know_stay_within_the_budget(command, monkeypatch):
    monkeypatch.setenv("LOOP", "rate")
    monkeypatch.setenv("BATCH", "600")
    command.job(text=JOB)
    code, out, err = command.process(
        SCRIPT, ["plan", "job.toml", "--budget-samples", "20000", "--json", "--quiet",
                 "--set", "sync.steps=50"], limit_s=900)
    assert code in (0, 1), err
    assert 0 < json.loads(out)["samples"] <= 20000


@nightly
def test_plan_recommends_a_job_that_reaches_its_target(command, monkeypatch):
    monkeypatch.setenv("LOOP", "rate")
    command.job(text=JOB)
    code, out, err = command.process(SCRIPT, [*PLAN, "--quiet", "--write", "best.toml"],
                                     limit_s=900)
    assert code == 0, out + err
    plan = json.loads(out)
    assert plan["samples"] <= 60000
    code, out, err = command.process(SCRIPT, ["simulate", "best.toml", "--json", "--quiet"])
    assert code == 0, err
    run = json.loads(out)
    assert run["time_to_target_s"] is not None and run["sync"] == plan["finalists"][0]["sync"]
