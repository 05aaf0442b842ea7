"""Events reach the handlers of their type, in the order of subscription."""

from msgspec import Struct

from wharfinger.emit import Subscribers, ignore


class Opened(Struct, frozen=True):
    name: str


class Closed(Struct, frozen=True):
    name: str


def test_each_handler_of_the_type_is_called_in_order_and_no_other():
    seen, subscribers = [], Subscribers()
    subscribers.subscribe({Opened: lambda event: seen.append(("first", event)), Closed: seen.append})
    subscribers.subscribe({Opened: lambda event: seen.append(("second", event))})

    subscribers.emit(Opened("a"))

    assert seen == [("first", Opened("a")), ("second", Opened("a"))]


def test_an_event_without_subscribers_is_ignored():
    Subscribers().emit(Opened("a"))
    ignore(Opened("a"))


def test_a_handler_that_subscribes_another_does_not_call_it_for_the_same_event():
    seen, subscribers = [], Subscribers()
    subscribers.subscribe({Opened: lambda event: subscribers.subscribe({Opened: seen.append})})

    subscribers.emit(Opened("a"))
    assert seen == []
    subscribers.emit(Opened("b"))
    assert seen == [Opened("b")]
