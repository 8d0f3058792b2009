"""A shop that books drone deliveries with Sagalog. It relies only on events/FORMAT.md and on librdkafka.

    shop.py submit BROKERS NAMESPACE PREFIX          every way to write a submission, repeats, and conflicts
    shop.py transact BROKERS NAMESPACE PREFIX        an order and its submission in one transaction
    shop.py open BROKERS NAMESPACE PREFIX TIMEOUT    leaves a transaction open until "commit" or "abort" on standard input,
                                                     and another submission behind it, or none if "alone" follows

PREFIX begins the IDs of its tasks. Each line of its output is a JSON object about something that it did."""

import json
import sys
import uuid

from confluent_kafka import KafkaException, Producer

from history import PATIENCE, History, text

# A task ID may have slashes, spaces, quotes, percent signs, letters of any script, and characters beyond 16 bits.
IDS = ["order-1", "2026/07 order 1", "Grüße an/Zoë", "注文 №7/東京", "заказ \"8\" 100%", "🚁/٣"]
ORDERS = "orders"  # the shop's own topic, which the engine does not know
PLENTY = 16  # enough that some are in a wrong partition, whatever the partitioner does with their keys


def say(**what):
    print(json.dumps(what, ensure_ascii=False), flush=True)


def content(number):
    return {"workflow": "drone-delivery", "labels": {"shop": "python"}, "input": {
        "ownerId": f"owner-{number}", "packageInfo": {"size": "small", "weight": 1.5},
        "pickup": {"region": "north"}, "dropoff": {"region": "north"}}}


def plain(task, body):
    return json.dumps(body).encode(), []


def binary(task, body):
    return json.dumps(body).encode(), [
        ("ce_specversion", b"1.0"), ("ce_id", str(uuid.uuid4()).encode()), ("ce_source", b"/shop"),
        ("ce_type", b"sagalog.submission"), ("ce_subject", task.encode()), ("content-type", b"application/json")]


def structured(task, body):
    event = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "/shop", "type": "sagalog.submission",
             "subject": task, "data": body}
    return json.dumps(event).encode(), [("content-type", b"application/cloudevents+json; charset=utf-8")]


FORMS = {"plain": plain, "binary": binary, "structured": structured}


class Sender:
    """A producer that waits for the acknowledgement of each record and returns its place."""

    def __init__(self, brokers, **config):
        self.producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, **config})

    def send(self, topic, task, value, headers=(), **where):
        acks = []
        self.producer.produce(topic, key=task.encode(), value=value, headers=list(headers),
                              on_delivery=lambda error, message: acks.append((error, message)), **where)
        self.producer.flush(PATIENCE)
        if not acks:
            raise TimeoutError(f"no acknowledgement from {topic}")
        error, message = acks[0]
        if error:
            raise KafkaException(error)
        return message.partition(), message.offset()


def submit(brokers, namespace, prefix):
    sender = Sender(brokers)  # with librdkafka's default partitioner, which differs from the engine's
    history = History(brokers, namespace)

    def hand_in(act, task, body, form):
        value, headers = FORMS[form](task, body)
        partition, offset = sender.send(history.submissions, task, value, headers)
        outcome, at, fact = history.outcome(partition, offset)
        said = dict(act=act, form=form, task=task, outcome=outcome, forwarded=at != f"{partition}/{offset}")
        if outcome == "InputRejected":
            letter = history.letter(at)
            said.update(reason=text(letter.headers(), "__dlq.errors.reason"), message=text(letter.headers(), "__dlq.errors.message"),
                        topic=text(letter.headers(), "__dlq.errors.topic"), untouched=letter.value() == value and letter.key() == task.encode())
        say(**said)

    tasks = {f"{prefix}{form}/{name}": (number, form) for form in FORMS for number, name in enumerate(IDS)}
    tasks |= {f"{prefix}more-{n}": (n, "plain") for n in range(PLENTY)}
    for task, (number, form) in tasks.items():
        hand_in("first", task, content(number), form)
    for task in tasks:
        say(act="end", task=task, facts=history.end(task))
    forms = list(FORMS)
    for n, (task, (number, form)) in enumerate(tasks.items()):
        if task.startswith(f"{prefix}more-"):
            continue
        hand_in("again", task, content(number), forms[n % 3])
        hand_in("other", task, content(number + 100), forms[(n + 1) % 3])
    hand_in("typo", f"{prefix}typo", content(1) | {"lables": {}}, "plain")
    for task in tasks:
        say(act="after", task=task, facts=history.tasks[task])
    say(act="done", void=history.void)
    history.close()


class Books(Sender):
    """Writes an order and its submission in one transaction, to the partition that FORMAT.md calls home."""

    def __init__(self, brokers, prefix, **config):
        super().__init__(brokers, **{"transactional.id": f"{prefix}books", "partitioner": "murmur2_random", **config})
        self.producer.init_transactions(PATIENCE)

    def write(self, submissions, task):
        self.producer.begin_transaction()
        self.send(ORDERS, task, json.dumps({"order": task, "state": "placed"}).encode())
        return self.send(submissions, task, *binary(task, content(1)))


def transact(brokers, namespace, prefix):
    books, other = Books(brokers, prefix), Sender(brokers)
    history = History(brokers, namespace)
    for n in range(4):
        kept, dropped = f"{prefix}kept-{n}", f"{prefix}dropped-{n}"
        partition, offset = books.write(history.submissions, kept)
        books.producer.commit_transaction(PATIENCE)
        outcome, _, _ = history.outcome(partition, offset)
        say(act="committed", task=kept, outcome=outcome, facts=history.end(kept))

        partition, offset = books.write(history.submissions, dropped)
        books.producer.abort_transaction(PATIENCE)
        say(act="aborted", task=dropped, partition=partition, offset=offset)

        # This comes after the marker, from a producer without transactions. Nothing is held back any more.
        behind = f"{prefix}behind-{n}"
        value, headers = plain(behind, content(2))
        outcome, _, _ = history.outcome(*other.send(history.submissions, behind, value, headers, partition=partition))
        say(act="behind", task=behind, outcome=outcome, facts=history.end(behind))
    # The aborted submission again, now committed, is the first one that counts. Then it is repeated in a transaction.
    again = f"{prefix}dropped-0"
    for _ in range(2):
        outcome, _, _ = history.outcome(*commit(books, history, again))
        say(act="retried", task=again, outcome=outcome, facts=history.end(again))
    # The last record of the partition is now a marker of an abort.
    last = f"{prefix}last"
    partition, offset = books.write(history.submissions, last)
    books.producer.abort_transaction(PATIENCE)
    say(act="aborted", task=last, partition=partition, offset=offset)
    say(act="done", void=history.void)
    history.close()


def commit(books, history, task):
    place = books.write(history.submissions, task)
    books.producer.commit_transaction(PATIENCE)
    return place


def leave_open(brokers, namespace, prefix, timeout, alone=""):
    books = Books(brokers, prefix, **{"transaction.timeout.ms": int(timeout)})
    submissions = f"{namespace}.submissions"
    inside, behind = f"{prefix}inside", f"{prefix}behind"
    partition, offset = books.write(submissions, inside)
    later = offset
    if not alone:
        value, headers = plain(behind, content(2))
        _, later = Sender(brokers).send(submissions, behind, value, headers, partition=partition)
    say(act="open", task=inside, behind=behind, partition=partition, offset=offset, later=later)
    end = sys.stdin.readline().strip()
    if end == "commit":
        books.producer.commit_transaction(PATIENCE)
    else:
        books.producer.abort_transaction(PATIENCE)
    say(act=end)


if __name__ == "__main__":
    {"submit": submit, "transact": transact, "open": leave_open}[sys.argv[1]](*sys.argv[2:])
