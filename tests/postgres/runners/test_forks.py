"""Forks of a program with runners: they stay with the parent."""

from __future__ import annotations

from collections.abc import Callable

from alkstore_postgres import PostgresStore
from tests.support.programs import Program


def test_after_a_fork_runners_stay_with_the_parent_and_say_so(
    run: Callable[[str], Program], store: PostgresStore
) -> None:
    """Field cases B27 and B80."""
    program = run("""
worker = store.start_worker("emails", lambda job: None)
scheduler = store.start_scheduler()
while scheduler.state != "leading": time.sleep(0.01)
child = os.fork()
if child == 0:
    assert worker.state == scheduler.state == "stopped"
    assert "process" in worker.health().reason
    assert worker.stop() and scheduler.join()
    assert store.start_scheduler() is not scheduler
    store.queue("other").enqueue("from the child")
    store.close()
    os._exit(0)
status = os.waitpid(child, 0)[1]
assert scheduler.state == "leading" and worker.state == "working"
queue.enqueue("from the parent")
while queue.size(): time.sleep(0.01)
store.close()
sys.exit(status)
""")
    assert program.end(20)[:2] == (0, "")
    assert store.queue("other").size() == 1


def test_a_handler_may_fork(run: Callable[[str], Program]) -> None:
    program = run("""
def handler(job):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
worker = store.start_worker("emails", handler)
queue.enqueue(1)
while queue.size(): time.sleep(0.01)
assert worker.stop(5)
""")
    status, errors, _ = program.end(20)
    assert (status, errors) == (0, "")
