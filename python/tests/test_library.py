"""The library for notebooks: values in place of texts, exceptions in place of exit codes."""

from __future__ import annotations

import concurrent.futures

import pytest

import longhaul
import loops

JOB = {"job": {"name": "own", "seed": 3}, "stop": {"max_rounds": 4}, "report": {"every_rounds": 2},
       "sync": {"kind": "fedavg", "steps": 3}, "overlay": {"kind": "ring"},
       "wan": {"mbps": 100, "delay_ms": 5},
       "site": [{"name": name, "step_ms": 10} for name in loops.SITES]}


def test_a_job_as_dict_text_and_path_is_the_same(command):
    path = command.job()
    hashes = {longhaul.simulate(job, loops.train, loops.score).params_hash
              for job in (JOB, open(path).read().replace("step_ms = 15", "step_ms = 10"))}
    assert len(hashes) == 1
    summary = longhaul.simulate(path, loops.train, loops.score, set={"sync.kind": "diloco"})
    assert summary.sync == "diloco" and summary.rounds == 4
    assert "diloco" in summary._repr_html_()
    with pytest.raises(AttributeError, match="a summary has no 'acuracy'"):
        summary.acuracy
    assert longhaul.read_run(summary.folder) == summary


def test_models_are_what_train_returns(command):
    summary = longhaul.simulate(JOB, loops.train)
    weights = [summary.models[name][0].weight for name in loops.SITES]
    assert all((one == weights[0]).all() for one in weights)  # fedavg ends with the mean


def test_errors_are_exceptions(command):
    with pytest.raises(longhaul.JobError, match="sync.*kind"):
        longhaul.simulate(JOB, loops.train, set={"sync.kind": "fedvag"})
    with pytest.raises(longhaul.JobError, match="site bb: train\\(\\) raised KeyError"):
        longhaul.simulate(JOB, lambda site: {}["x"] if site.name == "bb" else loops.train(site))
    with pytest.raises(longhaul.JobError, match="no such file"):
        longhaul.read_run(command.folder / "nothing")
    with pytest.raises(longhaul.JobError, match="expected a table"):
        longhaul.simulate({"sync": 3}, loops.train)


def test_compare_ranks_strategies(command):
    job = {**JOB, "sync": {"kind": "fedavg"}, "for": {"fedavg": {"sync": {"steps": 3}}}}
    table = longhaul.compare(job, loops.train, loops.score, sync=["fedavg", "bsp"], seeds=2,
                             set={"stop.target_accuracy": 0.6, "stop.max_rounds": 8})
    assert [row["runs"] for row in table.rows] == [2, 2]
    assert {row["label"] for row in table.rows} == {"fedavg", "bsp"}
    assert "<table>" in table._repr_html_() and "fedavg" in str(table)


def test_compare_by_an_executor_is_the_same(command):
    here = longhaul.compare(JOB, loops.train, loops.score, sync=["fedavg"], seeds=2)
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        there = longhaul.compare(JOB, loops.train, loops.score, sync=["fedavg"], seeds=2,
                                 executor=pool)
    assert [run.params_hash for run in there.runs] == [run.params_hash for run in here.runs]


def test_explain_and_bound():
    assert "diloco" in longhaul.explain("diloco")
    assert longhaul.bound(JOB)


def test_jobs_are_taken_as_people_write_them(command):
    import numpy

    folder = command.folder / "lr=0.1"
    folder.mkdir()
    path = folder / "job.toml"
    path.write_text(open(command.job()).read())
    assert longhaul.simulate(str(path), loops.train).rounds == 4
    job = {**JOB, "stop": {"max_rounds": numpy.int64(3)}, "site": tuple(JOB["site"])}
    assert longhaul.simulate(job, loops.train).rounds == 3
    assert "rank" in longhaul.explain(job)
    with pytest.raises(longhaul.JobError, match="expected a path, a TOML text or a dict"):
        longhaul.simulate(5, loops.train)
    with pytest.raises(longhaul.JobError, match="None: expected a number"):
        longhaul.simulate({**JOB, "stop": {"max_rounds": None}}, loops.train)


def test_the_cause_of_an_error_is_the_users_own(command):
    with pytest.raises(longhaul.JobError) as caught:
        longhaul.simulate(JOB, lambda site: {}["x"])
    assert isinstance(caught.value.__cause__, KeyError)


def test_runs_in_two_threads_do_not_mix(command):
    def scored(loss):
        return lambda model, site: {"loss": loss, "samples": 1}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(longhaul.simulate, JOB, loops.train, scored(loss))
                for loss in (1.0, 2.0)]
        assert [run.result(60).final_loss for run in runs] == [1.0, 2.0]
