package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// Call is a line of a service's ledger: one call that it received, in the order in which the service
// received them.
type Call struct {
	// Identifier is the idempotency key that the call carried.
	Identifier string `json:"identifier"`
	Task       string `json:"task"`
	Step       string `json:"step"`
	// Operation is do or undo.
	Operation events.Operation `json:"operation"`
	// Outcome is done (it took effect), repeated (answered with success, without a new effect), refused (it changed
	// nothing), or unknown.
	Outcome string         `json:"outcome"`
	Time    events.Instant `json:"time"`
}

// The outcomes of a call.
const (
	callDone     = "done"
	callRepeated = "repeated"
	callRefused  = "refused"
	callUnknown  = "unknown"
)

// LedgerCounts are the figures of the ledgers.
type LedgerCounts struct {
	Calls       int `json:"calls"`
	Identifiers int `json:"identifiers"`
	// NotYet counts outcomes whose call may be missing: newer than the ledgers' end, or of a task that is under way.
	NotYet int `json:"not_yet"`
}

// calls summarizes the calls with one identifier.
type calls struct {
	op     events.Operation
	task   uint32
	ledger int
	first  int // line
	// last is the last effect, if done is positive, and before holds the earlier ones.
	last   effect
	before []effect
	done   int
	// answered says that some call was answered with success, and unknown that nobody knows what some call did.
	answered, unknown bool
	used              bool
	// latest is the time of the latest call; zero if no call has one.
	latest events.Instant
}

// effect is the place of a call that took effect.
type effect struct {
	ledger, line int
	time         events.Instant
}

// Ledgers are the ledgers of the services, by identifier.
type Ledgers struct {
	names []string
	// covers holds, for each step and agent, the ledgers that have calls of it.
	covers map[string]map[int]bool
	// ends is the time up to which each ledger is complete; zero means to the end of the log.
	ends  []events.Instant
	calls map[uuid.UUID]*calls
	// strange are lines with an identifier that no attempt can have.
	strange []Finding
	total   int
}

// NewLedgers returns an empty set of ledgers.
func NewLedgers() *Ledgers {
	return &Ledgers{covers: map[string]map[int]bool{}, calls: map[uuid.UUID]*calls{}}
}

// Read takes the ledger of a service: a line for each call. A torn last line, from a call that was never answered, is skipped.
// name is the name of the service or agent. The ledger is complete up to its newest time. If its lines
// have no times, it is complete up to written, the time of the last write, and if that is zero, to the end of the
// log.
func (l *Ledgers) Read(name string, r io.Reader, written events.Instant) (err error) {
	at := len(l.names)
	l.names, l.ends = append(l.names, name), append(l.ends, 0)
	l.covered(name)
	defer func() {
		if l.ends[at] == 0 {
			l.ends[at] = written
		}
	}()
	b := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c, answered, err := readCall(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		l.add(c, n, answered)
	}
}

// readCall reads a Call, or a line of the ledgers of the drone delivery, and says whether the call was answered with success.
func readCall(line []byte) (c Call, answered bool, err error) {
	var x struct {
		Call
		Key     *string `json:"idempotency_key"`
		Method  string  `json:"method"`
		Status  int     `json:"status"`
		Applied bool    `json:"applied"`
	}
	if err := json.Unmarshal(line, &x); err != nil {
		return Call{}, false, err
	}
	if x.Key == nil {
		answered = x.Outcome == callDone || x.Outcome == callRepeated
	} else {
		x.Identifier, x.Operation, x.Outcome = *x.Key, events.Do, callRefused
		answered = x.Status >= 200 && x.Status <= 299
		if x.Method == "DELETE" {
			x.Operation = events.Undo
			answered = answered || x.Status == 404
		}
		if x.Applied { // whatever the answer was, if there was one
			x.Outcome = callDone
		} else if answered {
			x.Outcome = callRepeated
		}
		if task, err := url.PathUnescape(x.Task); err == nil {
			x.Task = task
		}
	}
	if x.Operation != events.Do && x.Operation != events.Undo {
		return Call{}, false, fmt.Errorf("the operation %q is neither do nor undo", x.Operation)
	}
	switch x.Outcome {
	case callDone, callRepeated, callRefused, callUnknown:
		return x.Call, answered, nil
	}
	return Call{}, false, fmt.Errorf("the outcome %q is not %s, %s, %s or %s", x.Outcome, callDone, callRepeated, callRefused, callUnknown)
}

// add takes a call. answered says that it was answered with success.
func (l *Ledgers) add(c Call, line int, answered bool) {
	l.total++
	if c.Step != "" {
		l.covered(c.Step)
	}
	at := len(l.names) - 1
	l.ends[at] = max(l.ends[at], c.Time)
	id, err := uuid.Parse(c.Identifier)
	if err != nil {
		l.strange = append(l.strange, Finding{Check: CheckLedgers, Kind: "no_attempt", Task: c.Task, Step: c.Step,
			What: fmt.Sprintf("line %d of the ledger %s has the identifier %q, which no attempt has", line, l.names[at], c.Identifier)})
		return
	}
	s := l.calls[id]
	if s == nil {
		s = &calls{op: c.Operation, task: crc32.ChecksumIEEE([]byte(c.Task)), ledger: at, first: line}
		l.calls[id] = s
	}
	s.answered = s.answered || answered
	s.unknown = s.unknown || c.Outcome == callUnknown
	s.latest = max(s.latest, c.Time)
	if c.Outcome != callDone {
		return
	}
	if s.done > 0 {
		s.before = append(s.before, s.last)
	}
	s.done++
	s.last, s.ledger = effect{at, line, c.Time}, at
}

// covered notes that the ledger being read holds calls of a step, or of an agent.
func (l *Ledgers) covered(name string) {
	name = events.DefinedStep(name)
	if l.covers[name] == nil {
		l.covers[name] = map[int]bool{}
	}
	l.covers[name][len(l.names)-1] = true
}

// tells says whether every ledger of a step is complete up to a time.
func (l *Ledgers) tells(st *step, at events.Instant) bool {
	id := events.DefinedStep(st.id)
	for _, name := range []string{id, st.do.agent, st.undo.agent} {
		for i := range l.covers[name] {
			if l.ends[i] != 0 && l.ends[i] <= at { // the order within one millisecond is unknown
				return false
			}
		}
	}
	return true
}

// ledgerTask compares a task with the calls that were made for it.
func (p *partition) ledgerTask(s *story, at Place) {
	l := p.cfg.Ledgers
	if l == nil {
		return
	}
	steps := make([]ledgerStep, 0, len(s.steps))
	for _, st := range s.steps {
		w := events.Work{Task: s.id, Ticket: s.incarnation, Run: st.run, Step: st.id}
		steps = append(steps, ledgerStep{s, st, l.of(w.Key(p.id, events.Do)), l.of(w.Key(p.id, events.Undo)), at})
		p.ledgerStep(steps[len(steps)-1])
	}
	p.ledgerOrder(steps)
}

func (l *Ledgers) of(key string) *calls {
	c := l.calls[uuid.MustParse(key)]
	if c != nil {
		c.used = true
	}
	return c
}

type ledgerStep struct {
	s        *story
	st       *step
	do, undo *calls
	at       Place
}

func (p *partition) ledgerStep(x ledgerStep) {
	l, st := p.cfg.Ledgers, x.st
	wrong := func(kind, format string, args ...any) {
		p.book.add(Finding{Check: CheckLedgers, Kind: kind, Place: x.at, Task: x.s.id, Step: st.id, What: fmt.Sprintf(format, args...)})
	}
	for _, c := range []*calls{x.do, x.undo} {
		if c != nil && c.task != crc32.ChecksumIEEE([]byte(x.s.id)) {
			wrong("other_task", "line %d of the ledger %s has its identifier, but names another task", c.first, l.names[c.ledger])
		}
	}
	if x.do != nil && x.do.op != events.Do || x.undo != nil && x.undo.op != events.Undo {
		wrong("other_operation", "the ledgers hold its do under the identifier of its undo, or its undo under that of its do")
	}
	if x.do != nil && st.do.made() == 0 {
		wrong("no_attempt", "line %d of the ledger %s is a call of it, but no attempt of it was started", x.do.first, l.names[x.do.ledger])
	}
	if x.undo != nil && st.undo.made() == 0 {
		wrong("no_attempt", "line %d of the ledger %s is a call to undo it, but no attempt to undo it was started", x.undo.first, l.names[x.undo.ledger])
	}
	byChild := st.do.made() > 0 && st.do.agent == "" // then no service has a call of it, but one may have a call to undo it
	agent := st.do.agent
	if byChild {
		if agent = st.undo.agent; agent == "" {
			return
		}
	}
	if step := events.DefinedStep(st.id); l.covers[step] == nil && l.covers[agent] == nil {
		if st.done && st.do.made() > 0 {
			p.book.cannot(CheckLedgers, "no ledger holds calls of step %s (agent %s)", step, agent)
		}
		return
	}
	missing := func(at events.Instant, what string) {
		// A ledger that was copied earlier, or that a service is still writing, may end before the log.
		if !p.cfg.AtRest && (!l.tells(st, at) || x.s.end == "" && !x.s.parked && x.s.again == nil) {
			p.count.Ledgers.NotYet++
			return
		}
		wrong("not_called", "%s", what)
	}
	if st.doneAt != 0 && !byChild && (x.do == nil || !x.do.answered) {
		missing(st.doneAt, "the log says that it completed, but no ledger holds a call of it that succeeded")
	}
	if st.undoneAt != 0 && (x.undo == nil || !x.undo.answered) {
		missing(st.undoneAt, "the log says that it was undone, but no ledger holds a call to undo it that succeeded")
	}
	p.ledgerEffects(x, wrong)
}

// ledgers reports the calls that no attempt asked for.
func (c *check) ledgers() {
	l := c.cfg.Ledgers
	if l == nil {
		return
	}
	c.count.Ledgers.Calls, c.count.Ledgers.Identifiers = l.total, len(l.calls)
	for _, f := range l.strange {
		c.book.add(f)
	}
	for id, s := range l.calls {
		if !s.used && c.forgotten != 0 && s.latest <= c.forgotten {
			c.book.gone(CheckLedgers, "calls before %s may be of tasks that were forgotten before the log was cut, and are not compared with their attempts", c.forgotten)
			continue
		}
		if !s.used && !c.partial() {
			c.book.add(Finding{Check: CheckLedgers, Kind: "no_attempt",
				What: fmt.Sprintf("line %d of the ledger %s has the identifier %s (%s), which no attempt in the log has", s.first, l.names[s.ledger], id, s.op)})
		}
	}
}
