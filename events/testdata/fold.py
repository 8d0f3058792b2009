"""Folds a partition of <ns>.events and prints the state hash behind every record. Written from FORMAT.md alone, as the
second implementation of it: `kcat -C -J -e -t sagalog.events -p 3 | python3 fold.py`."""
import datetime
import hashlib
import json
import re
import sys

scan = json.JSONDecoder().raw_decode


def members(text):
    """The members of a compact JSON object as raw texts, so that user data keeps its bytes."""
    found, at = {}, 1
    while text[at] != "}":
        key, at = scan(text, at + (text[at] == ","))
        _, end = scan(text, at + 1)
        found[key] = text[at + 1:end]
        at = end
    return found


def elements(text):
    found, at = [], 1
    while text[at] != "]":
        at += text[at] == ","
        _, end = scan(text, at)
        found.append(text[at:end])
        at = end
    return found


LEVEL = 1
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def quote(text):
    return '"' + "".join(SHORT.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def span(text):
    """A duration in whole milliseconds."""
    parts = re.findall(r"([0-9.]+)([a-z]+)", text)
    return int(sum(float(n) * UNITS[unit] for n, unit in parts)) // 10**6


def duration(milliseconds):
    """A duration as text, without trailing zero units."""
    if milliseconds < 1000:
        return quote(f"{milliseconds}ms")
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s")]
    while parts[-1][0] in (0, "0"):
        parts.pop()
    while parts[0][0] == 0:
        parts.pop(0)
    return quote("".join(f"{n}{unit}" for n, unit in parts))


LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999000, datetime.timezone.utc)


def instant(text):
    return datetime.datetime.fromisoformat(json.loads(text)) if text not in ABSENT else datetime.datetime.fromtimestamp(0, datetime.timezone.utc)


def instant_text(t):
    return quote(t.strftime("%Y-%m-%dT%H:%M:%S.") + f"{t.microsecond // 1000:03d}Z")


def less(text, milliseconds):
    return instant_text(instant(text) - datetime.timedelta(milliseconds=milliseconds))
def apart(later, earlier):
    """Milliseconds between two instants."""
    a, b = (datetime.datetime.fromisoformat(json.loads(t)) for t in (later, earlier))
    return round((a - b) / datetime.timedelta(milliseconds=1))


def cut(entity, name, to):
    if entity.get(name, "0") != "0":
        entity[name] = min(entity[name], to)


def lasting(entity, name, since, to):
    """An instant that was set at the wrong time becomes as far from the right time."""
    x, at = entity.get(name, "0"), entity.get(since, "0")
    if "0" not in (x, at) and x > to and at > to:
        entity[name] = less(to, -max(apart(x, at), 0))


def rank(position):
    """The order of positions."""
    epoch, _, n = position.rpartition("/")
    return int(epoch.split("-")[0] or 0) if epoch else 0, int(n or 0) if epoch else -1


def normal(text):
    """Compact JSON as Sagalog writes it: of texts the escapes, of everything else the bytes."""
    if text[0] == "{":
        return "{" + ",".join(quote(k) + ":" + normal(v) for k, v in members(text).items()) + "}"
    if text[0] == "[":
        return "[" + ",".join(map(normal, elements(text))) + "]"
    return quote(json.loads(text)) if text[0] == '"' else text


ABSENT = {"0", '""', "false", "{}", "[]", ""}


def obj(pairs):
    """An object of (member, text); a member that is absent weighs nothing, unless it is marked by '!'."""
    kept = ((k.rstrip("!"), v) for k, v in pairs if k.endswith("!") or v not in ABSENT)
    return "{" + ",".join(f'"{k}":{v}' for k, v in kept) + "}"


def encoded(text):
    return re.sub(r"(\\\\)|\\ufffd", lambda m: m[1] or "\ufffd", text)


def large(text):
    """Whether a value or a step is an entity of its own."""
    return len(encoded(text).encode()) > 1024


RAW = {"input", "output", "body", "detail", "with", "payload"}


class Entity(dict):
    """Members as JSON texts, zero where nothing was set."""
    order = ""

    def __missing__(self, key):
        return '""' if key.endswith("!") else "0"

    def take(self, source, *names):
        for n in names:
            self[n] = source.get(n, "0")

    def keep(self, source, *names):
        self.update({n: source[n] for n in names if n in source})

    def add(self, name, n=1):
        self[name] = str(int(self.get(name, "0")) + n)

    def uncount(self):
        self.add("tries", -1)
        if self["tries"] == "0":
            self.clear_of("tries")

    def clear_of(self, *names):
        for n in names:
            self.pop(n, None)

    def unset(self, name):
        """An instant that is empty is absent."""
        if self[name] == '""':
            self.clear_of(name)

    def value(self, name):
        v = self.get(name, "0")
        if isinstance(v, Entity):
            return v.text()
        if isinstance(v, list):
            return "[" + ",".join(e.text() if isinstance(e, Entity) else e for e in v) + "]"
        if name in RAW:
            return v
        if name in ("labels", "inputs", "delayed") and v != "0":
            m = members(v) if isinstance(v, str) else v
            keys = sorted(m, key=lambda k: k.encode())
            return "{" + ",".join(quote(k) + ":" + (m[k].text() if isinstance(m[k], Entity) else normal(m[k])) for k in keys) + "}"
        return normal(v)

    def text(self):
        return obj((n, self.value(n.rstrip("!"))) for n in self.order.split())


class Partition(Entity):
    order = "partition! epoch owner since next_sequence broken time jumped_at correcting inputs watermark delayed settings settings_offset forgotten_before scheduled_forgotten_before reader schedules_offset limits_offset tasks carry carried carried_at since_carry since_hash closed"


class Carry(Entity):
    order = "begun! at! parts left task half records tasks"


class Closed(Entity):
    order = "to! at!"


class Carried(Entity):
    order = "begun! at!"


class Passed(Entity):
    order = "next! hash"


class Definition(Entity):
    order = "workflow! hash! version! body!"


class Request(Entity):
    order = "id! kind! task! step reason attempt operation output with error effect signal payload by schedule_began"


class Paused(Entity):
    order = "by since! reason"


class RequestRow(Entity):
    order = "verb fact refused kept"


class Kept(Entity):
    order = "request! signal! payload fact!"


class Link(Entity):
    order = "task! incarnation! run! path operation n!"

    def name(self):
        text = (json.loads(self.get(n, '""')) for n in ("task", "incarnation", "run", "n", "operation", "path"))
        return "\0".join(map(str, text))


class Concurrency(Entity):
    order = "limit! max! parked! n state at blocked_at"


class StepPermit(Entity):
    order = "path! operation! limit! run! n! state! at! used quiet_at"

    def link(self, t):
        return Link(task=t["id"], incarnation=t["incarnation"], run=self["run"], path=self["path"], operation=self["operation"], n=self["n"])


class Limit(Entity):
    order = "name! max! version! offset rate paced_from paced paused"

    def each(self):
        """The time of one permit in nanoseconds, 0 without a rate."""
        if self["rate"] == "0":
            return 0
        n, unit = json.loads(self["rate"]).split("/")
        return UNITS[unit] // int(n)

    def due(self):
        """When the next permit is due by the rate, "0" at once."""
        return "0" if self["paced_from"] == "0" else less(self["paced_from"], -(int(self["paced"]) * self.each() // 10**6))

    def pace(self, time):
        if self["rate"] != "0":
            if self.due() == "0" or time >= self.due():
                self.update(paced_from=time, paced="0")
            self["paced"] = str(int(self["paced"]) + 1)

    def change(self, rate, time):
        if rate != self["rate"]:
            self.update(paced_from=self.due() if rate != "0" else "0", paced="0", rate=rate)
            self.correct(time)

    def correct(self, to):
        latest = less(to, -(self.each() // 10**6))
        if self.due() != "0" and self.due() > latest:
            self.update(paced_from=latest, paced="0")


class Permit(Entity):
    order = "limit! link! priority asked! granted_at ends_at"


class Held(Entity):
    order = "request! expires_at! cause! cause_hash"


class Schedule(Entity):
    order = "name! offset! body! began! next next_at previous paused queued cancels running fires fired skipped missed failed in_row"

    def remembers(self, due):
        return any(f["due"] == due for f in self["running"] + self["fires"])

    def advance(self, body, time):
        self.update(next=body.get("next", "0"), next_at=time, in_row=body.get("in_row", "0"))

    def fire(self, body, time):
        assert not self.remembers(body["due"]) and ("paused" not in self or "request" in body)
        for name in "running", "fires":
            self[name].append(Fire(due=body["due"], task=body["task"], at=time, request=body.get("request", "0")))
        self["fires"] = self["fires"][-100:]
        self.dequeue(body["due"])
        self["previous"] = max(self.get("previous", '"'), body["due"])
        self.advance(body, time)
        self.add("fired")

    def passes(self, body, time):
        self.advance(body, time)
        self.dequeue(body["due"])
        count, why = int(body["count"]), json.loads(body["why"])
        if why == "queued":
            self.update(queued=body["due"], cancels=body.get("cancels", "false"))
        elif why in ("overlap", "missed", "failed"):
            self.add({"overlap": "skipped"}.get(why, why), count)

    def dequeue(self, due):
        if self["queued"] == due:
            self.clear_of("queued", "cancels")

    def cancel(self, body):
        asked = [f for f in self["running"] if f["task"] == body["task"] and "cancelled_for" not in f]
        assert asked and self["queued"] == body["due"] and self["cancels"] == "true"
        asked[0]["cancelled_for"] = body["due"]

    def end(self, body):
        assert any(f["task"] == body["task"] for f in self["running"])
        self["running"] = [f for f in self["running"] if f["task"] != body["task"]]
        for f in self["fires"]:
            if f["task"] == body["task"]:
                f.update(state=body["state"], reason=body.get("reason", "0"))
        if body["state"] == '"rejected"':
            self.add("failed")


class Fire(Entity):
    order = "due! task! at! request cancelled_for state reason"


class Task(Entity):
    order = """id! incarnation! run! workflow! version! definition! state! priority fair_by labels input output content! submitted_at! updated_at!
        ended_at deadline deadline_within not_before delay failure_count reason facts! park_due park_reason parked_from parked_at reopened_at paused halted_at parked_reason rerun reminders remind_at soft_at soft_from remember_for permit step_permits step_links steps_quiet_at pivot_passed deadline_passed quiet_at
        completions schedule schedule_began parent children_released traceparent reply_to reply_key reply_began last steps rows"""

    def step(self, path):
        for s in self["steps"]:
            if s["path"] == path:
                return s
        s = Step(path=path, state='"not_started"')
        if int(self["run"]) > 1:
            s["run"] = self["run"]
        self["steps"].append(s)
        return s

    def items(self, path):
        """The items of a step."""
        return [s for s in self["steps"] if s["path"].startswith(path[:-1] + "[")]

    def redone(self):
        steps = elements(self["rerun"]["steps"])
        return [s for s in self["steps"] if s["path"] in steps or re.sub(r"\[\d+\]", "", s["path"]) in steps]

    def count_items(self):
        for s in self["steps"]:
            if "fan_out" in s:
                f, items = s["fan_out"], self.items(s["path"])
                f.clear_of("begun", "completed", "failed", "skipped", "undone")
                f["begun"] = str(sum(x["state"] != '"not_started"' for x in items))
                for x in items:
                    if x.counted():
                        f.add(x.counted())

    def abandon_rerun(self, reason):
        if "rerun" not in self:
            return False
        self.clear_of("rerun")
        self["reason"] = reason
        return True

    def turn_back(self, reason):
        if self["state"] == '"undoing"' or self.get("parked_from") == '"undoing"':
            return
        self.update(state='"undoing"', reason=reason)
        self.clear_of("parked_from", "parked_at", "park_due", "park_reason", "reminders", "remind_at", "not_before", "delay")
        if "paused" not in self:
            self.clear_of("halted_at")
        for s in self["steps"]:
            if s["state"] == '"waiting"':
                s["state"] = '"failed"'
                s.clear_of("retry_at", "wait")

    def halt(self, time):
        self.setdefault("halted_at", time)

    def go_on(self, time):
        if self["state"] == '"error"' or "paused" in self or "halted_at" not in self:
            return
        if instant(self["deadline"]) > instant(self["halted_at"]):
            since = max(instant(self["halted_at"]), instant(self.get("not_before", "0")))
            halted = max(instant(time) - since, datetime.timedelta())
            self["deadline"] = instant_text(min(instant(self["deadline"]), LAST - halted) + halted)
            self.clear_of("deadline_passed")
            self["reopened_at"] = time
        self.clear_of("halted_at")

    def park_due_for(self, step, reason):
        if self["state"] != '"error"':
            self.update(park_due=step, park_reason=reason)

    def judge(self, verb, request, refused='""'):
        if request in ('""', None):
            return
        self["requests"].setdefault(request, RequestRow(verb=verb, fact=self["last"], refused=refused))
        self["held"] = [h for h in self["held"] if h["id"] != request]


    def entities(self, ident):
        """The head and the other entities of the task."""
        rows, head, steps = Rows(steps=0, requests=0), Task(self), []
        for name in "input", "output":
            if large(self[name]):
                yield name, ident, self[name]
                rows[name] = "true"
                head.clear_of(name)
        for n, s in enumerate(self["steps"]):
            if n < 8 and not large(s.text()):
                steps.append(s)
                continue
            yield "step", ident + "\0" + json.loads(s["path"]), obj([("ordinal!", str(n + 1)), ("step!", s.text())])
            rows["steps"] += 1
        for r in self["held"]:
            yield "request", ident + "\0" + json.loads(r["id"]), obj([("held", r.text())])
        for r in self["requests"]:
            yield "request", ident + "\0" + json.loads(r), self["requests"][r].text()
        rows.update(steps=str(rows["steps"]), requests=str(len(self["held"]) + len(self["requests"])))
        head.update(steps=steps, rows=rows)
        yield "task", ident, head.text()


class Rows(Entity):
    order = "input output steps requests"


class Step(Entity):
    order = """path! agent function state! attempt started_at complete_by ended_at retry_at input output error reason failure_count tries
        cool_downs touched completion pivot undoable undo by_child fan_out wait with heartbeat cap_by progress progressed_at run earlier_attempts earlier_undos left continued start_by timed_from soft_at soft_from undo_quiet_at undo_quiet_from"""

    def attempted(self):
        return int(self.get("attempt", "0")) > int(self.get("earlier_attempts", "0"))

    def failed(self):
        return self["state"] in ('"failed"', '"timed_out"') and "continued" not in self

    def counted(self):
        """What counts the item in the fan_out of its step; None while it is open."""
        if "continued" in self:
            undone = self.get("undo", {}).get("state") == '"undone"'
            return None if self["undoable"] == self["touched"] == "true" and not undone else "failed"
        state = json.loads(self["state"])
        return state if state in ("completed", "skipped", "undone") else None


    def called(self, body, time):
        """An attempt begins, done by the child of the fact if it has one."""
        if "child" not in body:
            if "by_child" in self:
                self["by_child"].clear_of("asked_at")
            return
        c = members(body["child"])
        if self["state"] == '"undoing"':
            assert self["by_child"].to_undo()["task"] == c["task"]
        else:
            x = self.setdefault("by_child", ByChild(tries=[]))
            x["tries"].append(Try(task=c["task"], n=self["attempt"]))
            x.clear_of("cancelled", "late")
            x["detach"] = c.get("detach", "false")
        self["by_child"]["asked_at"] = time

    def undone_of(self, body, time):
        """What one child of the step did is undone; returns whether that of an earlier try must be asked."""
        children = self.get("by_child")
        by_hand = "request" in body
        if children is None or ("child" not in body if by_hand else "asked_at" not in children):
            return False
        if by_hand:
            asked = children.to_undo()
            assert asked["task"] == body["child"] and "settled" not in asked and self["undo"]["state"] == '"failed"'
        if not children.settle():
            return False
        self.tried()
        self["state"] = '"undoing"'
        self["undo"].update(state='"waiting"', ended_at=time, retry_at=time)
        self["undo"].clear_of("error", "with", "tries", "start_by", "timed_from")
        return True

    def tried(self):
        """An attempt ends."""
        x = self.get("by_child", {})
        if "asked_at" in x:
            x.clear_of("asked_at")
            if x["detach"] == "true":
                x["tries"].pop()


class ByChild(Entity):
    order = "tries asked_at cancelled late detach"

    def to_undo(self):
        return next((x for x in reversed(self["tries"]) if "settled" not in x), self["tries"][-1])

    def settle(self):
        """Nothing of the latest try is left to undo of which something was; returns whether an earlier one is left."""
        self.to_undo()["settled"] = "true"
        return "settled" not in self.to_undo()

    def settle_all(self):
        for x in self["tries"]:
            x["settled"] = "true"


class Try(Entity):
    order = "task! n! settled"


class Parent(Entity):
    order = "link! depth! detach undo refused released told_at"

    def awaits(self):
        """The link that learns how the child ends."""
        link = Link(members(self["link"]))
        if self["undo"] != "0":
            link.update(operation='"undo"', n=self["undo"])
        return None if self["detach"] == "true" else link.text()

    def names(self, link):
        a, b = members(self["link"]), members(link)
        return all(a[n] == b[n] for n in ("task", "incarnation", "path"))


class Rerun(Entity):
    order = "steps! input"


class FanOut(Entity):
    order = "count! tolerate collect! begun completed failed skipped undone"


class Wait(Entity):
    order = "until within signals"


class UndoState(Entity):
    order = "state! agent function attempt started_at complete_by ended_at retry_at error failure_count tries with skipped start_by timed_from"


class Error(Entity):
    order = "class! code message! detail"


TIMEOUT = '{"class":"timeout","message":"no report before the complete-by time"}'
SILENT = '{"class":"timeout","message":"its heartbeat was missed: neither progress nor a report came in time"}'
LAPSED = '{"class":"timeout","message":"its time was over"}'


class State:
    def __init__(self, partition):
        self.partition = Partition(partition=str(partition), inputs={}, delayed={})
        self.tasks, self.held, self.definitions, self.limits, self.schedules = {}, {}, {}, {}, {}
        self.ordinal, self.ident, self.next, self.broken = 0, "", 0, False

    def hash(self):
        p = self.partition
        p.update(next_sequence=str(self.next), broken="true" if self.broken else "false")
        entities = [("partition", "", p.text())] + [e for k, t in self.tasks.items() for e in t.entities(k)]
        entities += [("definition", k, d.text()) for k, d in self.definitions.items()]
        entities += [("schedule", k, s.text()) for k, s in self.schedules.items()]
        entities += [("held", t + "\0" + r, h.text()) for (t, r), h in self.held.items()]
        for name, (limit, permits) in self.limits.items():
            entities += [("limit", name, limit.text())] + [("permit", name + "\0" + k, x.text()) for k, x in permits.items()]
        total = 0
        for kind, ident, text in entities:
            digest = hashlib.sha256("\0".join((kind, ident, encoded(text))).encode()).digest()
            total += int.from_bytes(digest[:16], "big")
        return f"{total % (1 << 128):032x}"

    def apply(self, record):
        h = dict(zip(record["headers"][0::2], record["headers"][1::2]))
        kind, body = h["ce_type"].removeprefix("sagalog."), members(record["payload"])
        p, time = self.partition, quote(h["ce_time"])
        if kind == "PartitionClaimed":
            claim = json.loads(record["payload"])
            if claim["prev"] != self.ident or claim["id"] in ("", self.ident) or claim["reader"] < int(p["reader"]):
                return
            self.ordinal, self.ident, self.next, self.broken = self.ordinal + 1, claim["id"], 0, False
            if self.ordinal == 1:
                p["carried_at"] = time
            p.update(epoch=quote(f"{self.ordinal}-{self.ident}"), owner=body["owner"])
            self.advance(time)
            p["since"] = p["time"]
            return
        h["position"] = h["ce_id"].partition("/")[2]
        epoch, _, n = h["position"].rpartition("/")
        current, n = self.ordinal > 0 and epoch == f"{self.ordinal}-{self.ident}", int(n)
        if not current or self.broken or n != self.next:
            self.broken = self.broken or (current and n > self.next)
            return
        h["task"] = record["key"] or ""
        if kind == "TimeCorrected" and not h["task"] and "settled" not in body:
            self.correct(body["to"], time)
        else:
            self.fold(kind, body, h, time)
        self.next += 1
        p.add("since_hash")
        if kind == "StateHash":
            p.clear_of("since_hash")
        elif kind not in ("CarryBegun", "EntityCarried", "CarryEnded"):
            p.add("since_carry")
        self.advance(time)
        cause = h.get("ce_cause", "").split("/")
        if cause[0] in "sr" and len(cause) == 3 and cause[1] == p["partition"]:
            last = int(body.get("last", "0")) if kind == "InputRejected" else 0
            several = last > int(cause[2])
            self.passed({"s": "submissions", "r": "reports"}[cause[0]], max(int(cause[2]), last) + 1, '""' if several else quote(h.get("ce_causehash", "")))
        if "sagalog-watermark" in h and self.after(h["sagalog-watermark"]):
            p["watermark"] = quote(h["sagalog-watermark"])

    def advance(self, time):
        p = self.partition
        if "time" in p and less(time, UNITS["h"] // 10**6) > p["time"]:
            p["jumped_at"] = time
        p["time"] = max(p.get("time", ""), time)

    def correct(self, to, time):
        p = self.partition
        assert p["correcting"] == "0" and time == to and apart(p["time"], to) > UNITS["m"] // 10**6
        p.update(time=to, correcting=to)
        for name in "since", "jumped_at", "forgotten_before", "scheduled_forgotten_before", "carried_at":
            cut(p, name, to)
        for c in p.get("carried", []) + ([p["carry"]] if "carry" in p else []):
            cut(c, "at", to)
        for held in self.held.values():
            hold = span("24h") if held["request"]["kind"] == '"signal"' else span(members(p["settings"])["held_for"])
            cut(held, "expires_at", less(to, -hold))
        for limit, permits in self.limits.values():
            if "paused" in limit:
                cut(limit["paused"], "since", to)
            limit.correct(to)
            for x in permits.values():
                lasting(x, "ends_at", "granted_at", to)
                cut(x, "granted_at", to)

    def after(self, position):
        return rank(json.loads(self.partition.get("watermark", '""'))) < rank(position)

    def passed(self, topic, after, digest):
        known = self.partition["inputs"].get(topic)
        if known is None or int(known["next"]) < after:
            if after > 0:
                self.partition["inputs"][topic] = Passed(next=str(after), hash=digest)

    def fold(self, kind, body, h, time):
        p, subject = self.partition, h["task"]
        if kind == "VersionBarrier":
            assert int(body["reader"]) <= LEVEL, f"this takes level {body['reader']}, and this reader understands level {LEVEL}"
            p["reader"] = str(max(int(p["reader"]), int(body["reader"])))
        elif kind == "SettingsAdopted":
            offset = body.get("offset", "0")
            assert int(offset) >= int(p["settings_offset"])
            was, now = (span(members(s)["remember_for"]) if s != "0" else 0 for s in (p["settings"], body["settings"]))
            if offset != "0" and 0 < was < now:
                p["forgotten_before"] = max(p.get("forgotten_before", ""), less(time, was))
            p.update(settings=body["settings"], settings_offset=offset)
        elif kind == "DefinitionAdopted":
            self.definitions[json.loads(body["hash"])] = Definition(body)
        elif kind == "Submitted":
            at = quote(h["position"])
            t = Task(id=quote(subject), incarnation=at, run="1", state='"pending"', definition=body["hash"], submitted_at=time, updated_at=time,
                     facts="1", held=[], requests={}, steps=[], step_permits=[], traceparent=quote(h.get("ce_traceparent", "")),
                     last=at)
            t.take(body, "workflow", "version", "priority", "fair_by", "remember_for", "labels", "input", "content", "deadline", "schedule", "schedule_began")
            if "parent" in body:
                t["parent"] = Parent(members(body["parent"]))
            if "concurrency" in body:
                t["permit"] = Concurrency(members(body["concurrency"]))
            begins = max(time, body.get("not_before", ""))
            if body.get("deadline", "") > begins:
                t["deadline_within"] = duration(min(apart(body["deadline"], begins), 87600 * 3_600_000))
            self.soft(t, body, begins)
            t.keep(body, "not_before", "delay", "reply_to", "reply_key")
            for key in sorted((k for k in self.held if k[0] == subject), key=lambda k: k[1].encode()):
                t["held"].append(self.held.pop(key)["request"])
            self.tasks[subject] = t
            p.add("tasks")
        elif kind == "ChildRefused":
            assert subject not in self.tasks
            at, parent = quote(h["position"]), Parent(members(body["parent"]))
            parent.update(refused=body["reason"], told_at=time)
            self.tasks[subject] = Task(
                id=quote(subject), incarnation=at, run="1", version="0", state='"rejected"', submitted_at=time, updated_at=time, ended_at=time, facts="1",
                reason=body.get("detail", "0"), parent=parent, held=[], requests={}, steps=[], step_permits=[], traceparent=quote(h.get("ce_traceparent", "")), last=at)
            self.tasks[subject].update(workflow=body.get("workflow", '""'), definition='""', content=body.get("content", '""'), remember_for=body["remember_for"])
            p.add("tasks")
        elif kind == "ChildAnswered" and subject not in self.tasks:
            pass
        elif kind.startswith("Schedule"):
            self.of_schedule(kind, body, time)
        elif kind == "RequestHeld":
            r = Request(members(body["request"]), task=quote(subject))
            held = Held(request=r, expires_at=body["expires_at"], cause=quote(h.get("ce_cause", "")), cause_hash=quote(h.get("ce_causehash", "")))
            self.held[subject, json.loads(r["id"])] = held
        elif kind == "InputRejected":
            self.held.pop((subject, json.loads(body.get("held", '""'))), None)
            if "scheduled_forgotten_before" in body:
                p["scheduled_forgotten_before"] = max(p.get("scheduled_forgotten_before", ""), body["scheduled_forgotten_before"])
        elif kind == "InputsPassed":
            for topic, passed in members(body.get("inputs", "{}")).items():
                passed = members(passed)
                self.passed(topic, int(passed["next"]), passed.get("hash", '""'))
        elif kind == "InputLossAccepted":
            topic = json.loads(body["input"])
            known = p["inputs"].get(topic)
            assert int(body["from"]) == (int(known["next"]) if known else 0) and int(body["to"]) >= int(body["from"])
            p["inputs"][topic] = Passed(next=body["to"])
        elif kind == "TasksSwept":
            for t in json.loads(body["tasks"]):
                self.sweep(t)
            for name in "forgotten_before", "scheduled_forgotten_before":
                if name in body:
                    p[name] = max(p.get(name, ""), body[name])
        elif kind in ("CarryBegun", "EntityCarried", "CarryEnded"):
            self.carry(kind, body, subject, h, time)
        elif kind == "EffectFailed":
            for member, name in (("failed", "StepFailed"), ("undo_failed", "CompensationFailed")):
                if member in body:
                    self.of_task(name, members(body[member]), h, time)
            if "schedule_ended" in body:
                self.of_schedule("ScheduleTaskEnded", members(body["schedule_ended"]), time)
        elif kind == "EffectsDelayed":
            p["delayed"][json.loads(body["destination"])] = body.get("after", '""')
        elif kind == "EffectsCaughtUp":
            p["delayed"].pop(json.loads(body["destination"]), None)
        elif kind == "NamespaceClosed":
            p.clear_of("closed")
            if "over" not in body:
                p["closed"] = Closed(to=body.get("to", '""'), at=max(time, p["time"]))
        elif kind == "TimeCorrected" and "settled" in body:
            assert p.pop("correcting") == body["to"]
        elif kind == "PermitsDecided":
            self.permits(json.loads(body["limit"]), body, quote(h["position"]), time)
        elif kind == "LimitAdopted":
            name = json.loads(body["limit"])
            lasts = "max" in body or "rate" in body
            assert int(body["offset"]) > int(p["limits_offset"]) and (lasts or name in self.limits)
            p["limits_offset"] = body["offset"]
            limit, permits = self.limits.setdefault(name, (Limit(name=body["limit"]), {}))
            limit.update(max=body.get("max", "0"), offset=body["offset"] if lasts else "0")
            limit.change(body.get("rate", "0"), time)
            self.leave(name)
        elif kind == "LimitPaused":
            limit, _ = self.limits.setdefault(json.loads(body["limit"]), (Limit(name=body["limit"]), {}))
            assert "paused" not in limit
            limit["paused"] = Paused(by=body.get("by", "0"), since=time, reason=body.get("reason", "0"))
        elif kind == "LimitResumed":
            limit, permits = self.limits[json.loads(body["limit"])]
            del limit["paused"]
            self.leave(json.loads(body["limit"]))
        elif kind not in ("InputForwarded", "StateHash", "PermitReturned", "ChildReturned"):
            self.of_task(kind, body, h, time)

    def sweep(self, task):
        p, known = self.partition, self.tasks.pop(task, None)
        p.add("tasks", -1)
        if "carry" in p and (known is None or rank(json.loads(known["incarnation"])) < rank(json.loads(p["carry"]["begun"])) and task.encode() > json.loads(p["carry"].get("task", '""')).encode()):
            p["carry"].add("left", -1)

    def carry(self, kind, body, subject, h, time):
        p = self.partition
        if kind == "CarryBegun":
            at = max(time, p["time"])
            p["carry"] = Carry(begun=quote(h["position"]), at=at, parts=body.get("parts", "0"), left=p["tasks"])
            return
        c = p["carry"]
        if kind == "EntityCarried":
            c.add("records")
            c.add("half")
            if subject:
                c["task"] = quote(subject)
            if "last" in body:
                c.clear_of("half")
                if subject:
                    c.add("left", -1)
                    c.add("tasks")
                else:
                    c.add("parts", -1)
            return
        assert c["left"] == "0" and c["records"] == body["records"] and c["tasks"] == body.get("tasks", "0")
        assert json.loads(body["hash"]) == self.hash()
        done = p.get("carried", []) + [Carried(begun=c["begun"], at=c["at"])]
        keep = span(members(p["settings"])["keep_log"]) if p["settings"] != "0" else 0
        young = next((i for i, x in enumerate(done) if apart(p["time"], x["at"]) < keep), 0)
        p.update(carried=done[max(young - 1, len(done) - 16, 0):], carried_at=c["at"])
        p.clear_of("carry", "since_carry")

    def leave(self, name):
        limit, permits = self.limits[name]
        if not permits and "paused" not in limit and limit["offset"] == "0":
            del self.limits[name]

    def permits(self, name, body, at, time):
        def link(text):
            return Link(members(text))

        if "asked" in body:
            ask = members(body["asked"])
            limit, permits = self.limits.setdefault(name, (Limit(name=body["limit"]), {}))
            if int(ask.get("version", "0")) > int(limit["version"]):
                limit.take(ask, "max", "version")
            x = Permit(limit=body["limit"], link=link(ask["link"]), asked=at)
            x.keep(ask, "priority")
            permits[x["link"].name()] = x
        limit, permits = self.limits[name]
        if "ending" in body:
            end = members(body["ending"])
            permits[link(end["link"]).name()].update(granted_at=time, ends_at=end["quiet_at"])
        if "released" in body:
            del permits[link(body["released"]).name()]
        if "granted" in body:
            x = permits[link(body["granted"]).name()]
            if x["granted_at"] == "0":
                limit.pace(time)
            x["granted_at"] = time
        self.leave(name)

    def step_permit(self, t, path, operation):
        return next((x for x in t["step_permits"] if x["path"] == path and x["operation"] == operation), None)

    def of_step(self, t, body):
        """The permit of the attempt that the link names, None if the link names none."""
        link = members(body["link"])
        return self.step_permit(t, link["path"], link["operation"]) if "path" in link else None

    def use_permit(self, kind, t, body):
        undo = kind.startswith("Compensation") or body.get("operation") == '"undo"'
        x = self.step_permit(t, body.get("step"), '"undo"' if undo else '"do"')
        if kind in ("TaskProcessed", "TaskUndone", "TaskTerminated", "RunBegun"):
            assert not t["step_permits"]
        elif x is None:
            return
        elif kind in ("StepStarted", "CompensationStarted"):
            assert x["state"] == '"granted"' and x["used"] == "0"
            x["used"] = "true"
        elif kind in ("StepCompleted", "StepFailed", "Compensated", "CompensationFailed", "Timeout") and x["used"] != "0" and "quiet_at" in body:
            x["quiet_at"] = max(x.get("quiet_at", ""), body["quiet_at"])

    def PermitAsked(self, t, body, time):
        link = members(body["link"])
        if "path" in link:
            x = self.of_step(t, body)
            if x is None:
                t["step_links"] = link["n"]
                x = StepPermit(path=link["path"], operation=link["operation"], limit=body["limit"], run=link["run"], n=link["n"], state='"asked"')
                t["step_permits"].append(x)
            x["at"] = time
            return
        t["permit"].update(n=members(body["link"])["n"], state='"asked"', at=time)

    def PermitGranted(self, t, body, time):
        x = self.of_step(t, body)
        if x is not None:
            x.update(state='"granted"', at=time)
            return
        t["permit"].update(state='"granted"', at=time)

    def PermitBlocked(self, t, body, time):
        t["permit"]["blocked_at"] = time

    def PermitReleased(self, t, body, time):
        x = self.of_step(t, body)
        if x is not None:
            if "quiet_at" in x:
                t["steps_quiet_at"] = max(t.get("steps_quiet_at", ""), x["quiet_at"])
            t["step_permits"].remove(x)
            return
        t["permit"].clear_of("state", "at")

    def ends(self, t, body, time):
        assert (body.get("schedule", "0"), body.get("schedule_began", "0")) == (t["schedule"], t["schedule_began"])
        assert body.get("answers") == (t["parent"].awaits() if "parent" in t else None)
        if "release" in body:
            self.PermitReleased(t, members(body["release"]), time)

    def ChildAsked(self, t, body, time):
        link = members(body["link"])
        x = t.step(link["path"])["by_child"]
        asked = x.to_undo() if link["operation"] == '"undo"' else x["tries"][-1]
        assert "asked_at" in x and asked["task"] == body["child"]
        x["asked_at"] = time
        if "cancel" not in body:
            t.add("facts", -1)
        if link["operation"] == '"do"':
            x.keep(body, "cancel", "late")
            if "cancel" in x:
                x["cancelled"] = x.pop("cancel")

    def ChildAnswered(self, t, body, time):
        answer = members(body["answer"])
        link = members(answer["link"])
        t.add("facts", -1)
        if "parent" not in t or not t["parent"].names(answer["link"]):
            return
        p = t["parent"]
        p["told_at"] = time
        if link["operation"] == '"undo"' and int(link["n"]) > int(p["undo"]):
            p["undo"] = link["n"]
            p["refused"] = answer.get("reason", "0") if answer["state"] == '"refused"' else "0"

    def ChildUndoRequested(self, t, body, time):
        p, link = t["parent"], members(body["link"])
        assert p.names(body["link"]) and p["released"] == "0" and link["operation"] == '"undo"' and int(link["n"]) > int(p["undo"])
        p.update(undo=link["n"], refused="0")
        if "paused" in t:
            t.clear_of("paused")
            t.go_on(time)
        if "ended_at" in t:
            assert t["state"] == '"processed"' and "children_released" not in t
            for s in t["steps"]:
                lasting(s, "undo_quiet_at", "undo_quiet_from", time)
                cut(s, "undo_quiet_from", time)
            for name in "quiet_at", "steps_quiet_at":
                lasting(t, name, "ended_at", time)
            t.update(updated_at=time, state='"processing"')
            t.clear_of("ended_at", "output", "soft_at", "soft_from")
        reason = body.get("reason", '"its parent is undone"')
        t.abandon_rerun(reason)
        t.turn_back(reason)

    def ChildReleased(self, t, body, time):
        assert t["parent"]["link"] == body["link"] and t["parent"]["released"] == "0"
        t["parent"]["released"] = "true"

    def ChildrenReleased(self, t, body, time):
        assert "ended_at" in t
        t["children_released"] = "true"
        for c in map(members, elements(body["children"])):
            link = members(c["link"])
            s = t.step(link["path"])
            s["by_child"]["tries"] = [x for x in s["by_child"]["tries"] if x["n"] != link["n"]]
            if not s["by_child"]["tries"]:
                s.clear_of("by_child")

    def of_schedule(self, kind, body, time):
        p, name = self.partition, json.loads(body["schedule"])
        s = self.schedules.get(name)
        if kind == "ScheduleAdopted":
            again = s is not None and s["offset"] == body["offset"]
            assert (int(body["offset"]) > int(p["schedules_offset"]) or again) and (s is not None or "body" in body)
            p["schedules_offset"] = str(max(int(p["schedules_offset"]), int(body["offset"])))
            if "body" not in body:
                del self.schedules[name]
                return
            s = self.schedules.setdefault(name, Schedule(name=body["schedule"], began=body["offset"], running=[], fires=[]))
            s.update(offset=body["offset"], body=body["body"], next=body.get("next", "0"), next_at=time)
        elif kind == "ScheduleFired":
            s.fire(body, time)
        elif kind == "SchedulePassed":
            s.passes(body, time)
        elif kind == "ScheduleTaskEnded":
            s.end(body)
        elif kind == "ScheduleCancelRequested":
            s.cancel(body)
        elif kind == "SchedulePaused":
            assert "paused" not in s
            s["paused"] = Paused(by=body.get("by", "0"), since=time, reason=body.get("reason", "0"))
        elif kind == "ScheduleResumed":
            del s["paused"]
            s.update(next=body.get("next", "0"), next_at=time)

    def of_task(self, kind, body, h, time):
        t = self.tasks[h["task"]]
        t.add("facts")
        t.update(updated_at=max(t["updated_at"], time), last=quote(h["position"]))
        self.use_permit(kind, t, body)
        facts = int(t["facts"]) - 1
        getattr(self, kind)(t, body, time)
        path = members(body["link"]).get("path", '""') if kind in ("ChildAsked", "PermitAsked", "PermitGranted", "PermitReleased") else body.get("step", '""')
        if kind != "TaskParked" and any("fan_out" in s and path.startswith(s["path"][:-1] + "[") for s in t["steps"]):
            t["facts"] = str(facts)
        t.count_items()

    def FanOutStarted(self, t, body, time):
        self.begin(t)
        s = t.step(body["step"])
        s["fan_out"] = FanOut()
        s["fan_out"].keep(body, "count", "tolerate", "collect")
        s.update(state='"waiting"', started_at=time)
        self.soft(s, body, time)
        s.clear_of("ended_at", "retry_at", "output")

    def StepQueued(self, t, body, time):
        s = t.step(body["step"])
        s["state"] = '"waiting"'
        self.limit(s, body, time)

    def limit(self, w, body, time):
        if w.get("start_by") != body.get("start_by"):
            w.clear_of("start_by", "timed_from")
            if "start_by" in body:
                w.update(start_by=body["start_by"], timed_from=time)

    @staticmethod
    def soft(w, body, since):
        if "remind_after" in body:
            w.update(soft_at=less(since, -span(body["remind_after"])), soft_from=since)

    def SoftLimitPassed(self, t, body, time):
        w = t.step(body["step"]) if "step" in body else t
        assert (w["soft_at"], w["soft_from"]) == (body["soft_at"], body["since"])
        w.clear_of("soft_at", "soft_from")

    @staticmethod
    def begin(t):
        if "reply_to" in t and "reply_began" not in t:
            t["reply_began"] = t["last"]
        t["state"] = '"processing"'

    def StepStarted(self, t, body, time):
        self.begin(t)
        s = t.step(body["step"])
        s.take(body, "agent", "function", "attempt", "input", "complete_by", "pivot", "undoable", "heartbeat", "cap_by")
        s.unset("complete_by")
        s.update(state='"running"', started_at=time)
        s.clear_of("ended_at", "retry_at", "output", "undo_quiet_at", "undo_quiet_from")
        self.limit(s, body, time)
        self.soft(s, body, time)
        s.add("tries")
        s.called(body, time)

    def StepProgressed(self, t, body, time):
        t.add("facts", -1)
        s = t.step(body["step"])
        s.take(body, "complete_by")
        s.keep(body, "progress")
        s["progressed_at"] = time

    def WaitStarted(self, t, body, time):
        self.begin(t)
        s = t.step(body["step"])
        s["wait"] = Wait()
        s["wait"].keep(body, "until", "within", "signals")
        s.update(state='"waiting"', started_at=time)
        self.soft(s, body, time)
        s.clear_of("ended_at", "retry_at", "output")

    def StepCompleted(self, t, body, time):
        s = t.step(body["step"])
        failed = s.failed()
        s.clear_of("wait")
        self.taken(t, body)
        t.add("completions")
        s.take(body, "output")
        s.update(state='"completed"', ended_at=time, completion=t["completions"], touched="true" if s.attempted() else "false")
        s.clear_of("error", "reason", "with")
        s.tried()
        if "quiet_at" in body:
            t["quiet_at"] = max(t.get("quiet_at", ""), body["quiet_at"])
        if s["pivot"] == "true":
            t["pivot_passed"] = "true"
        if "request" in body:
            s.clear_of("retry_at")
            self.by_hand(t, '"complete"', body, failed, time)

    def by_hand(self, t, verb, body, failed, time):
        t.judge(verb, body["request"])
        if t.get("park_due") == body["step"]:
            t.clear_of("park_due", "park_reason")
        back = '"undoing"' in (t["state"], t.get("parked_from"))
        if failed and not any(s["state"] == '"undo_failed"' or not back and s.failed() for s in t["steps"]):
            self.unpark(t, time)

    def StepFailed(self, t, body, time, state='"failed"'):
        s = t.step(body["step"])
        t.judge('"fail"', body.get("request"))
        if body["attempt"] != "0" and body.get("effect") != '"none"':
            s["touched"] = "true"
        elif body["attempt"] != "0" and "asked_at" in s.get("by_child", {}):
            s["by_child"].settle()
        s.keep(body, "output")
        if "quiet_at" in body:
            t["quiet_at"] = max(t.get("quiet_at", ""), body["quiet_at"])
        verdict = members(body["verdict"])
        s.update(state=state, ended_at=time, error=Error(members(body["error"])), reason=verdict["reason"])
        s.clear_of("wait")
        self.taken(t, body)
        s.add("failure_count")
        t.add("failure_count")
        s.tried()
        action = json.loads(verdict["action"])
        if action in ("retry", "cool_down"):
            s.update(state='"waiting"', retry_at=verdict.get("at", "0"))
        if action == "retry" and "uncounted" in verdict and "tries" in s:
            s.uncount()
        if action == "cool_down":
            s.clear_of("tries")
            s.add("cool_downs")
        if action == "undo":
            t.turn_back(verdict["reason"])
        if action == "park":
            t.park_due_for(body["step"], verdict["reason"])
        if action == "continue":
            s["continued"] = "true"
            if "[" not in body["step"] or s["error"]["class"] == '"timeout"':
                s["state"] = '"timed_out"'

    def Timeout(self, t, body, time):
        error, s = TIMEOUT if body["attempt"] != "0" else LAPSED, t.step(body["step"])
        if body["attempt"] != "0" and body["operation"] == '"do"' and instant(s["complete_by"]) < instant(s.get("cap_by", "0")):
            error = SILENT
        body = dict(body, error=error)
        if body["operation"] == '"undo"':
            return self.CompensationFailed(t, body, time)
        if body["attempt"] == "0":
            t.step(body["step"]).clear_of("retry_at")
        self.StepFailed(t, body, time, '"timed_out"')

    def StepSkipped(self, t, body, time):
        s = t.step(body["step"])
        if body["why"] == '"operator"':
            if "left" in body:
                u = s["undo"]
                failed = u["state"] == '"failed"'
                s["left"] = "true"
                if not s.undone_of(body, time):
                    u.update(state='"undone"', ended_at=time, skipped="true")
                    u.clear_of("retry_at", "with")
                    s["state"] = '"undone"'
                    s.get("by_child", ByChild(tries=[])).settle_all()
            else:
                failed = s.failed()
                s.take(body, "output")
                s.update(state='"skipped"', ended_at=time, reason=body["why"])
                s.clear_of("retry_at", "with", "wait")
            return self.by_hand(t, '"skip"', body, failed, time)
        kept = {k: s[k] for k in ("attempt", "run", "earlier_attempts", "earlier_undos", "left", "by_child", "undo_quiet_at", "undo_quiet_from") if k in s}
        s.clear()
        s.update(kept, path=body["step"], state='"skipped"', ended_at=time, reason=body["why"])

    def CompensationStarted(self, t, body, time):
        s = t.step(body["step"])
        s["state"] = '"undoing"'
        u = s.setdefault("undo", UndoState(attempt=s.get("earlier_undos", "0")))
        u.take(body, "agent", "function", "attempt", "complete_by")
        u.unset("complete_by")
        u.update(state='"running"', started_at=time)
        u.clear_of("ended_at", "retry_at")
        self.limit(u, body, time)
        u.add("tries")
        s.called(body, time)

    def Compensated(self, t, body, time):
        s = t.step(body["step"])
        failed = s["undo"]["state"] == '"failed"'
        self.doubt(s, body)
        children = s.get("by_child")
        assert "left" not in body if "request" in body else "child" not in body
        s.keep(body, "left")
        if not s.undone_of(body, time):
            if children is not None:
                children.settle_all()
            s["state"] = '"undone"'
            s.tried()
            s["undo"].update(state='"undone"', ended_at=time)
            s["undo"].clear_of("error", "retry_at", "with")
        if "request" in body:
            self.by_hand(t, '"complete"', body, failed, time)

    @staticmethod
    def doubt(s, body):
        if body.get("quiet_at", "") > s.get("undo_quiet_at", ""):
            s.update(undo_quiet_at=body["quiet_at"], undo_quiet_from=s["undo"]["started_at"])

    def CompensationFailed(self, t, body, time):
        s = t.step(body["step"])
        t.judge('"fail"', body.get("request"))
        u = s.setdefault("undo", UndoState())
        self.doubt(s, body)
        s.tried()
        verdict = members(body["verdict"])
        u.update(state='"failed"', ended_at=time, error=Error(members(body["error"])))
        u.add("failure_count")
        t.add("failure_count")
        action = json.loads(verdict["action"])
        if action in ("retry", "cool_down"):
            u.update(state='"waiting"', retry_at=verdict.get("at", "0"))
            if action == "retry" and "uncounted" in verdict and "tries" in u:
                u.uncount()
            if action == "cool_down":
                u.clear_of("tries")
        else:
            s["state"] = '"undo_failed"'
            t.park_due_for(body["step"], verdict["reason"])

    def SignalReceived(self, t, body, time):
        t.judge('"signal"', body["request"])
        kept = Kept(fact=t["last"])
        kept.keep(body, "request", "signal", "payload")
        t["requests"][body["request"]]["kept"] = kept

    def taken(self, t, body):
        if "signal" in body:
            t["requests"][body["signal"]].clear_of("kept")

    def CancelRequested(self, t, body, time):
        t.judge('"cancel"', body["request"])
        paused, reason = "paused" in t, body.get("reason", '"cancelled"')
        t.clear_of("paused")
        if t.abandon_rerun(reason) and paused:
            t.go_on(time)
        t.turn_back(reason)

    def RequestRefused(self, t, body, time):
        t.add("facts", -1)
        t.judge(body["verb"], body["request"], body["reason"])

    def NotBeforePassed(self, t, body, time):
        assert t["not_before"] == body["not_before"] and "paused" not in t and t["state"] != '"error"'
        t.clear_of("not_before", "delay")

    def DeadlinePassed(self, t, body, time):
        t["deadline_passed"] = "true"
        if body["action"] == '"undo"':
            t.turn_back('"the deadline passed"')

    def TaskProcessed(self, t, body, time):
        self.ends(t, body, time)
        t.update(state='"processed"', ended_at=time)
        t.clear_of("reason")
        t.take(body, "output")

    def TaskUndone(self, t, body, time):
        self.ends(t, body, time)
        t.update(state='"undone"', ended_at=time, reason=body.get("reason", t["reason"]))

    def TaskParked(self, t, body, time):
        if t["state"] != '"error"':
            if t["state"] == '"undoing"':
                t["parked_reason"] = t["reason"]
            t.update(parked_from=t["state"], parked_at=time, state='"error"')
            self.remind(t, time)
            t.halt(time)
        t["reason"] = body["reason"]
        t.clear_of("park_due", "park_reason")

    def TaskPaused(self, t, body, time):
        assert "paused" not in t
        t.judge('"pause"', body["request"])
        t["paused"] = Paused(since=time)
        t["paused"].take(body, "by", "reason")
        t.halt(time)

    def TaskResumed(self, t, body, time):
        assert "paused" in t
        t.judge('"resume"', body["request"])
        t.clear_of("paused")
        t.go_on(time)

    def TaskTerminated(self, t, body, time):
        self.ends(t, body, time)
        t.judge('"terminate"', body["request"])
        t.update(state='"terminated"', ended_at=time, reason=body.get("reason", '"terminated"'))
        t.clear_of("paused", "halted_at", "parked_from", "parked_at", "parked_reason", "park_due", "park_reason", "reminders", "remind_at", "not_before", "delay", "rerun")

    def TaskRerun(self, t, body, time):
        t.judge('"rerun"', body["request"])
        t["rerun"] = Rerun()
        t["rerun"].keep(body, "steps", "input")
        for s in t.redone():
            if s["state"] == '"waiting"':
                s["state"] = '"failed"'
                s.clear_of("retry_at", "wait")
            lasting(s, "undo_quiet_at", "undo_quiet_from", time)
            cut(s, "undo_quiet_from", time)
            if "undo" in s and s["undo"]["state"] in ('"failed"', '"waiting"'):
                s["state"] = '"undoing"'
                s["undo"].update(state='"waiting"', retry_at=time)
                s["undo"].clear_of("tries", "start_by", "timed_from")
        if "ended_at" in t:
            t["updated_at"] = time
        for name in "quiet_at", "steps_quiet_at":
            lasting(t, name, "ended_at", time)
        t.update(state='"undoing"', reason=body.get("reason", '"rerun"'))
        t.clear_of("ended_at", "output", "parked_from", "parked_at", "parked_reason", "park_due", "park_reason", "reminders", "remind_at", "halted_at", "soft_at", "soft_from")

    def RunBegun(self, t, body, time):
        for s in t.redone():
            path = s["path"]
            attempt = s.get("attempt", "0")
            undos = s["undo"].get("attempt", "0") if "undo" in s else s.get("earlier_undos", "0")
            kept = {k: s[k] for k in ("left", "by_child", "undo_quiet_at", "undo_quiet_from") if k in s}
            s.clear()
            s.update(kept, path=path, state='"not_started"' if "[" in path else '"waiting"', run=body["run"], attempt=attempt, earlier_attempts=attempt, earlier_undos=undos)
        t.keep(t["rerun"], "input")
        if t["deadline"] != "0":
            within = datetime.timedelta(milliseconds=span(t.get("deadline_within", '"0"')))
            t["deadline"] = instant_text(min(instant(time), LAST - within) + within)
            t["reopened_at"] = time
            t.clear_of("deadline_passed")
        self.soft(t, body, time)
        t["run"] = body["run"]
        t["state"] = '"processing"'
        t.clear_of("rerun", "reason")

    def TaskReminded(self, t, body, time):
        assert t["state"] == '"error"' and int(body["reminder"]) == int(t.get("reminders", 0)) + 1
        t["reminders"] = body["reminder"]
        self.remind(t, time)

    def remind(self, t, time):
        s = self.partition["settings"]
        wait = span(members(s)["remind_after"]) if s != "0" else 0
        t.clear_of("remind_at")
        if wait > 0 and int(t.get("reminders", 0)) < 10:
            t["remind_at"] = less(time, -wait)

    def TaskReopened(self, t, body, time):
        for path in elements(body["steps"]) if body["steps"] != "null" else []:
            s = t.step(path)
            u = s.get("undo")
            if s["state"] == '"undo_failed"' or (u is not None and u["state"] == '"waiting"'):
                s["state"] = '"undoing"'
                u.update(state='"waiting"', retry_at=time)
                u.clear_of("tries", "start_by", "timed_from")
                u.update({"with": body["with"]} if "with" in body else {})
            else:
                s.update(state='"waiting"', retry_at=time)
                s.clear_of("tries", "cool_downs", "start_by", "timed_from")
                s.update({"with": body["with"]} if "with" in body else {})
        t.judge('"retry"', body["request"])
        self.unpark(t, time)

    def unpark(self, t, time):
        if t["state"] == '"error"':
            if t["parked_from"] == '"undoing"':
                t["reason"] = t["parked_reason"]
            t["state"] = t["parked_from"]
            t.clear_of("parked_from", "parked_at", "parked_reason", "reminders", "remind_at")
            t.go_on(time)

    def TimeCorrected(self, t, body, time):
        to, longest = body["to"], 0
        assert self.partition["correcting"] == to
        for s in t["steps"]:
            if "complete_by" in s:
                last = max(s["complete_by"], s.get("cap_by", "0"), key=instant)
                longest = max(longest, apart(last, s["started_at"]))
            started, beat = s.get("started_at", "0"), s.get("heartbeat", "0") != "0"
            lasting(s, "soft_at", "soft_from", to)
            cut(s, "soft_from", to)
            lasting(s, "undo_quiet_at", "undo_quiet_from", to)
            cut(s, "undo_quiet_from", to)
            if beat:
                lasting(s, "cap_by", "started_at", to)
            if "within" in s.get("wait", ()):
                until = Entity(s["wait"], started_at=s["started_at"])
                lasting(until, "until", "started_at", to)
                s["wait"]["until"] = until["until"]
            cut(s.get("by_child", Entity()), "asked_at", to)
            for w in filter(None, (s, s.get("undo"))):
                lasting(w, "complete_by", "started_at", to)
                lasting(w, "start_by", "timed_from", to)
                cut(w, "timed_from", to)
                if "retry_at" in w and "tries" not in w and "cool_downs" not in w and w["retry_at"] <= t["updated_at"]:
                    cut(w, "retry_at", to)
                lasting(w, "retry_at", "ended_at", to)
                cut(w, "started_at", to)
                cut(w, "ended_at", to)
            if beat:
                if max(instant(started), instant(s.get("progressed_at", "0"))) > instant(to):
                    s["complete_by"] = min(less(to, -2 * span(s["heartbeat"])), s["cap_by"])
                cut(s, "progressed_at", to)
        cut(t, "quiet_at", less(to, -longest - span(members(self.partition["settings"])["grace"])))
        grace = span(members(self.partition["settings"])["grace"])
        ends = [s[n] for s in t["steps"] for n in ("complete_by", "cap_by") if s.get(n, "0") != "0"]
        ends += [s["undo"]["complete_by"] for s in t["steps"] if s.get("undo", {}).get("complete_by", "0") != "0"]
        latest = max(less(x, -grace) for x in ends + [to])
        cut(t, "steps_quiet_at", latest)
        for x in t["step_permits"]:
            cut(x, "at", to)
            cut(x, "quiet_at", latest)
        since = "reopened_at" if t.get("reopened_at", "") > t["submitted_at"] else "submitted_at"
        if "not_before" not in t:
            lasting(t, "deadline", since, to)
            lasting(t, "soft_at", "soft_from", to)
            cut(t, "soft_from", to)
        elif "delay" in t:
            before = t["not_before"]
            lasting(t, "not_before", "submitted_at", to)
            if t.get("deadline", "0") != "0":
                t["deadline"] = less(t["deadline"], apart(before, t["not_before"]))
            if t.get("soft_at", "0") != "0":
                t.update(soft_at=less(t["soft_at"], apart(before, t["not_before"])), soft_from=less(t["soft_from"], apart(before, t["not_before"])))
        cut(t, "submitted_at", to)
        cut(t, "reopened_at", to)
        wait = span(members(self.partition["settings"])["remind_after"])
        if wait > 0:
            cut(t, "remind_at", less(to, -wait))
        cut(t, "parked_at", to)
        cut(t, "halted_at", to)
        cut(t.get("parent", Entity()), "told_at", to)
        for part in "paused", "permit":
            if part in t:
                cut(t[part], "since" if part == "paused" else "at", to)
                if part == "permit":
                    cut(t[part], "blocked_at", to)
        t["updated_at"] = to


state = None
for line in sys.stdin:
    r = json.loads(line)
    state = state or State(r["partition"])
    state.apply(r)
    print(r["offset"], state.hash())
