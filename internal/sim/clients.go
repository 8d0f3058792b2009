package sim

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// clients are who submits, cancels and retries.
type clients struct {
	w *World
	// bodies is the submission of each task ID: a repeat has the same content.
	bodies   []map[string]any
	requests int
}

func newClients(w *World) *clients {
	c := &clients{w: w}
	for i := range w.opt.Tasks {
		body := map[string]any{"id": fmt.Sprintf("t%d", i), "workflow": []string{"one", "dag", "wide", "late", "dag"}[w.rng.IntN(5)], "input": map[string]any{"n": i, "extra": w.rng.IntN(2) == 0}}
		switch w.rng.IntN(12) {
		case 0:
			body["priority"] = w.rng.IntN(5)
		case 1:
			body["deadline"] = fmt.Sprintf("%dms", 200+w.rng.IntN(5000))
		case 2:
			body["workflow"] = "none"
		case 3:
			body["input"] = map[string]any{"n": "no number"}
		}
		c.bodies = append(c.bodies, body)
	}
	return c
}

// plan spreads what the clients do over the time of chaos.
func (c *clients) plan() {
	w := c.w
	when := func() int { return w.rng.IntN(int(w.opt.Chaos.Milliseconds())) }
	for i := range c.bodies {
		at := when()
		w.after(at, func() { c.submit(i, false) })
		for w.chance(w.faults.Duplicate) {
			w.after(at+w.rng.IntN(15_000), func() { c.submit(i, false) })
		}
		if w.chance(w.faults.Conflict) {
			w.after(when(), func() { c.submit(i, true) })
		}
		for w.chance(w.faults.Cancel) {
			w.after(max(0, at-1000+w.rng.IntN(4000)), func() { c.ask(i, events.RequestCancel) })
		}
		for w.chance(w.faults.Cancel) {
			w.after(at+w.rng.IntN(10_000), func() { c.ask(i, events.RequestRetry) })
		}
	}
	for w.chance(w.faults.Garbage * 3) {
		w.after(when(), c.garbage)
	}
	for range w.rng.IntN(3) {
		w.after(when(), c.marker)
	}
}

// home returns the partition to which a client sends: sometimes another than the home of the task.
func (c *clients) home(id string) *partition {
	p := events.Home(id, c.w.opt.Partitions)
	if c.w.chance(c.w.faults.Misplaced) {
		p = int32(c.w.rng.IntN(len(c.w.parts)))
	}
	return c.w.parts[p]
}

func (c *clients) submit(i int, conflict bool) {
	if c.w.healed {
		return
	}
	body := map[string]any{}
	for k, v := range c.bodies[i] {
		body[k] = v
	}
	if conflict {
		body["labels"] = map[string]any{"other": "content"}
	}
	value, err := json.Marshal(body)
	if err != nil {
		c.w.fail("a submission cannot be encoded: %v", err)
		return
	}
	id := body["id"].(string)
	m := &meta{kind: metaSubmission, task: id, workflow: body["workflow"].(string)}
	if s, err := events.ParseSubmission(value); err == nil {
		m.content, _ = s.ContentHash()
	}
	r := events.Record{Key: []byte(id), Value: value}
	if c.w.rng.IntN(3) == 0 {
		r.Headers = []events.Header{{Key: events.HeaderSpecVersion, Value: []byte("1.0")}, {Key: events.HeaderType, Value: []byte(events.TypeSubmission)}, {Key: events.HeaderID, Value: []byte("sub-" + id)}}
	}
	c.home(id).put(events.Submissions, r, m)
}

func (c *clients) ask(i int, kind string) {
	if c.w.healed {
		return
	}
	c.requests++
	id := fmt.Sprintf("t%d", i)
	q := events.Request{ID: fmt.Sprintf("q%d", c.requests), Kind: kind, Task: id, By: "operator"}
	r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/clients", Time: c.w.now})
	if err != nil {
		c.w.fail("a request cannot be encoded: %v", err)
		return
	}
	m := &meta{kind: metaRequest, task: id, request: q}
	for range 1 + c.w.bit(c.w.faults.Duplicate) {
		c.w.after(c.w.rng.IntN(300), func() { c.home(id).put(events.Reports, r, m) })
	}
}

func (c *clients) garbage() {
	if c.w.healed {
		return
	}
	p := c.w.parts[c.w.rng.IntN(len(c.w.parts))]
	r := events.Record{Key: []byte("g"), Value: [][]byte{[]byte("{"), []byte(`{"workflow":"one"`), []byte(`[]`), {0xff, 0xfe}, nil, []byte(`{"task":"t1"}`)}[c.w.rng.IntN(6)]}
	in := bothInputs[c.w.rng.IntN(2)]
	p.put(in, r, &meta{kind: metaGarbage})
}

// marker is the end of somebody's transaction.
func (c *clients) marker() {
	p := c.w.parts[c.w.rng.IntN(len(c.w.parts))]
	p.put(bothInputs[c.w.rng.IntN(2)], events.Record{Control: true}, &meta{kind: metaControl})
}
