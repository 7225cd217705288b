"""The block of `Store.transaction` is that of one transaction: entered again, it says so."""

from __future__ import annotations

import pytest

from alkstore import NoTransaction, Store


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_the_block_of_a_transaction_that_has_ended_is_not_entered_again(
    store: Store, ends: str
) -> None:
    block = store.transaction()
    if ends == "commit":
        with block as tx:
            store.enqueue_tx(tx, "mail", 1)
    else:
        with pytest.raises(ZeroDivisionError), block:
            _ = 1 / 0
    with pytest.raises(NoTransaction, match="was entered before"), block:
        pytest.fail("the block of a transaction that has ended ran")
    assert store.queue("mail").size() == (ends == "commit")


def test_the_block_of_a_transaction_does_not_nest_in_itself_and_goes_on(store: Store) -> None:
    block = store.transaction()
    with block as tx:
        with pytest.raises(NoTransaction, match="was entered before"), block:
            pytest.fail("a transaction was entered twice")
        store.enqueue_tx(tx, "mail", 1)
    assert store.queue("mail").size() == 1


def test_a_block_that_could_not_begin_is_not_entered_again(store: Store) -> None:
    block = store.transaction()
    store.close()
    with pytest.raises(Exception, match="closed"), block:
        pytest.fail("a transaction of a closed store began")
    with pytest.raises(NoTransaction, match="was entered before"), block:
        pytest.fail("a transaction of a closed store began")
