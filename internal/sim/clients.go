package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sagalog/sagalog/events"
)

// clients submit, cancel and retry.
type clients struct {
	w *World
	// dice say which tasks have steps with items, in a separate stream.
	dice *rand.Rand
	// bodies holds the submission of each task ID, so that a repeat has the same content.
	bodies   []map[string]any
	requests int
	// toxic are the tasks for which deciding panics, with the place where it does.
	toxic map[string]toxin
	// deaths counts, for each task, the processes that ended while they judged a submission of it.
	deaths map[string]int
}

func newClients(w *World, seed uint64) *clients {
	c := &clients{w: w, dice: rand.New(rand.NewPCG(seed, 0xfa200575)), toxic: map[string]toxin{}, deaths: map[string]int{}}
	for i := range w.opt.Tasks {
		id := fmt.Sprintf("t%d", i)
		body := c.body(id, i)
		if w.chance(w.faults.Lethal) {
			body["input"].(map[string]any)["lethal"] = lethalInput + id
		}
		c.bodies = append(c.bodies, body)
	}
	return c
}

// body draws the submission of a task.
func (c *clients) body(id string, n int) map[string]any {
	w := c.w
	input := map[string]any{"n": n, "extra": w.rng.IntN(2) == 0}
	body := map[string]any{"id": id, "workflow": []string{"one", "dag", "wide", "late", "firm", "ask", "lone", "few"}[w.rng.IntN(8)], "input": input}
	if c.dice.Float64() < w.faults.FanOuts {
		body["workflow"] = []string{"many", "gated"}[c.dice.IntN(2)]
	}
	if input["extra"] == true {
		input["key"] = "k"
	}
	switch w.rng.IntN(14) {
	case 0:
		body["priority"] = w.rng.IntN(5)
		body["labels"] = map[string]any{"tier": "own"}
	case 1:
		body["deadline"] = fmt.Sprintf("%dms", 200+w.rng.IntN(5000))
	case 2:
		body["workflow"] = "none"
	case 3:
		input["n"] = "no number"
	case 4:
		body["version"] = 1 + w.rng.IntN(2)
	case 5:
		body["deadline"] = "1s"
		body["workflow"] = "dag"
	}
	switch n % 7 { // not drawn, so that other seeds stay as they are
	case 1, 4:
		body["reply_to"] = "replies.a"
	case 3:
		body["reply_to"], body["reply_key"] = "replies.b", "customer"
	}
	switch n % 9 { // not drawn, so that other seeds stay as they are
	case 2:
		body["not_before"] = "1500ms"
	case 5:
		body["not_before"] = begin.Add(8 * time.Second).String()
	case 8:
		body["not_before"] = "10s"
	}
	sleeps(w, n, body)
	if w.chance(w.faults.Oversize) {
		size, limit := 0, w.cfg.Settings.PayloadBytes
		if b, err := json.Marshal(input); err == nil && w.rng.IntN(2) == 0 {
			size = len(b) + len(`"pad":"",`)
		} else if b, err := json.Marshal(body); err == nil {
			size, limit = len(b)+len(`"pad":"",`), w.cfg.Settings.SubmissionBytes
		}
		input["pad"] = padding(aroundLimit(w, limit) - size)
	}
	if w.chance(w.faults.Panic) {
		if way := []toxin{toxicPlan, toxicStart, toxicPolicy, toxicInput}[w.rng.IntN(4)]; way == toxicInput {
			input["poison"] = toxicInput
		} else {
			c.toxic[id] = way
		}
	}
	return body
}

// poisoned says whether judging the input may panic.
func (c *clients) poisoned(m *meta) bool { return c.toxic[m.Task] != "" || m.poison }

// plan spreads the clients' actions over the time of chaos.
func (c *clients) plan() {
	w := c.w
	when := func() int { return w.rng.IntN(int(w.opt.Chaos.Milliseconds())) }
	for i := range c.bodies {
		at := when()
		w.after(at, func() { c.submit(c.bodies[i], false) })
		for w.chance(w.faults.Duplicate) {
			w.after(at+w.rng.IntN(15_000), func() { c.submit(c.bodies[i], false) })
		}
		if c.bodies[i]["workflow"] == "ask" {
			for range w.rng.IntN(5) {
				w.after(max(0, at-1500+w.rng.IntN(7000)), func() { c.signal(i) })
			}
		}
		if w.chance(w.faults.Conflict) {
			w.after(when(), func() { c.submit(c.bodies[i], true) })
		}
		for w.chance(w.faults.Cancel) {
			w.after(max(0, at-1000+w.rng.IntN(4000)), func() { c.ask(i, events.RequestCancel) })
		}
		for w.chance(w.faults.Retry) {
			w.after(at+w.rng.IntN(10_000), func() { c.ask(i, events.RequestRetry) })
			w.after(when(), c.operate)
			w.after(when(), c.decide)
			w.after(when(), c.again)
		}
		for w.chance(w.faults.Retry) {
			verb := []events.Verb{events.RequestPause, events.RequestPause, events.RequestResume, events.RequestTerminate}[w.rng.IntN(4)]
			pause := at + w.rng.IntN(6000)
			w.after(pause, func() { c.ask(i, verb) })
			if verb == events.RequestPause {
				w.after(pause+w.rng.IntN(8000), func() { c.ask(i, events.RequestResume) })
			}
		}
	}
	for w.chance(w.faults.Garbage) {
		w.after(when(), c.garbage)
	}
	c.pauseLimits()
	for range w.rng.IntN(3) {
		w.after(when(), c.marker)
	}
}

// flood submits many tasks of one partition at once, and then all of them again.
func (c *clients) flood() {
	w := c.w
	p := int32(w.rng.IntN(len(w.parts)))
	w.saw(sawFlood)
	for i, n := 0, 0; n < 25; i++ {
		id := fmt.Sprintf("flood-%d-%d", w.now, i)
		if events.Home(id, w.opt.Partitions) != p {
			continue
		}
		n++
		body := c.body(id, i)
		for range 2 {
			w.after(w.rng.IntN(300), func() { c.submit(body, false) })
		}
	}
}

// home returns the partition to which a client sends, sometimes a different one than the home of the task.
func (c *clients) home(id string) *partition {
	p := events.Home(id, c.w.opt.Partitions)
	if c.w.chance(c.w.faults.Misplaced) {
		p = int32(c.w.rng.IntN(len(c.w.parts)))
	}
	return c.w.parts[p]
}

func (c *clients) submit(of map[string]any, conflict bool) {
	w := c.w
	if w.healed {
		return
	}
	body := map[string]any{}
	for k, v := range of {
		body[k] = v
	}
	if conflict {
		body["labels"] = map[string]any{"other": "content"}
	}
	value, err := json.Marshal(body)
	if err != nil {
		w.fail("a submission cannot be encoded: %v", err)
		return
	}
	id := body["id"].(string)
	m := &meta{Input: Input{Kind: InputSubmission, Task: id}, workflow: body["workflow"].(string)}
	m.version, _ = body["version"].(int)
	input := body["input"].(map[string]any)
	_, number := input["n"].(int)
	m.unfit, m.poison = m.workflow == "dag" && !number, input["poison"] != nil
	m.Lethal = input["lethal"] != nil
	if s, err := events.ParseSubmission(value); err == nil {
		m.Content, _ = s.ContentHash()
	}
	r := c.wrap(id, value, m)
	m.tooLarge = len(r.Value) > w.cfg.Settings.SubmissionBytes
	c.home(id).inputs.put(events.Submissions, r, m)
}

// wrap makes a record of a submission, in one of the formats that producers use.
func (c *clients) wrap(id string, value []byte, m *meta) events.Record {
	r := events.Record{Key: []byte(id), Value: value}
	header := func(k, v string) { r.Headers = append(r.Headers, events.Header{Key: k, Value: []byte(v)}) }
	switch c.w.rng.IntN(10) {
	case 0, 1, 2:
		header(events.HeaderSpecVersion, "1.0")
		header(events.HeaderType, events.TypeSubmission)
		header(events.HeaderID, "sub-"+id)
	case 3:
		header(events.HeaderContentType, "application/cloudevents+json; charset=utf-8")
		r.Value = []byte(fmt.Sprintf(`{"specversion":"1.0","id":"sub-%s","type":%q,"source":"/clients","data":%s}`, id, events.TypeSubmission, value))
	case 4:
		r.Key = nil
	case 5:
		if m.version == 0 { // the API stamps the version that it validated against, which may be an older one
			if v, ok := catalog(len(applications)).Version(m.workflow, 1+c.w.rng.IntN(2)); ok {
				m.stamp = v.Hash
				header(events.HeaderDefinition, v.Hash)
			}
		}
	}
	return r
}

// ask sends a request about a task, known or not.
func (c *clients) ask(i int, kind events.Verb) {
	c.request(events.Request{Kind: kind, Task: fmt.Sprintf("t%d", i)})
}

func (c *clients) request(q events.Request) { c.send(events.Reports, q) }

// send sends a request through an input.
func (c *clients) send(in events.Input, q events.Request) {
	w := c.w
	if w.healed {
		return
	}
	c.requests++
	q.ID, q.By = fmt.Sprintf("q%d", c.requests), "operator"
	said := q
	if w.rng.IntN(6) == 0 {
		said.ID = "" // the ID of the event is used instead
	}
	r, err := events.EncodeRequest(said, events.Subject{ID: q.ID, Source: "/clients", Time: w.now})
	if err != nil {
		w.fail("a request cannot be encoded: %v", err)
		return
	}
	m := &meta{Input: Input{Kind: InputRequest, Task: q.Task, Request: q}}
	for range 1 + w.bit(w.faults.Duplicate) {
		w.after(w.rng.IntN(300), func() { c.home(q.Task).inputs.put(in, r, m) })
	}
}

// operate retries a parked task or step, as an operator would.
func (c *clients) operate() {
	w := c.w
	for _, i := range w.rng.Perm(len(c.bodies)) {
		id := fmt.Sprintf("t%d", i)
		t, err := w.parts[events.Home(id, w.opt.Partitions)].state.Task(id)
		if err != nil || t == nil || t.State != events.TaskStateError {
			continue
		}
		q := events.Request{Kind: events.RequestRetry, Task: id}
		switch s := t.Steps; {
		case len(s) == 0:
		case w.rng.IntN(4) == 0:
			q.Step = s[w.rng.IntN(len(s))].Path
		case w.rng.IntN(4) == 0:
			q.Step, q.Attempt = s[0].Path, 1+w.rng.IntN(3)
		case w.rng.IntN(5) == 0:
			q.Kind = events.RequestCancel
		}
		c.request(q)
		return
	}
}
