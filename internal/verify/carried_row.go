package verify

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// carry is a carry that is under way in the log.
type carry struct {
	begun events.Position
	// first says that the log was cut where it begins.
	first bool
	// parts is how many entities that are not of tasks are still to come.
	parts          int
	records, tasks int64
	// last is the last task that was carried, and of the one whose rows are being read.
	last, of string
	half     bool
	rows     []events.PartRow
	piece    []byte

	// The others are for the first carry alone. left is how many tasks are still to come, gone are those that were forgotten before, and
	// unknown are those to come of which something is known already.
	left    int64
	gone    map[string]bool
	unknown map[string]*uncarried
	// held are the held requests that were carried, by their input.
	held map[events.Cause]*events.HeldRequest
}

// carries takes a fact of a carry.
func carries(p *partition, f *events.Fact, at Place) error {
	c := p.carry
	switch b := f.Body.(type) {
	case *events.CarryBegun:
		if c == nil || c.begun != f.Position() {
			if c != nil {
				p.wrong(CheckFold, "carry", at, "a carry begins, and the one of %s has not ended", c.begun)
			}
			c = &carry{begun: f.Position()}
			p.carry = c
			sameBegin(p, b, at)
		}
		if c.parts = b.Parts; c.parts == 0 && c.first {
			return skipJudged(p, c, at)
		}
	case *events.EntityCarried:
		if c == nil {
			p.wrong(CheckFold, "carry", at, "an entity is carried, and no carry is under way")
			return nil
		}
		return c.entity(p, f, b, at)
	case *events.CarryEnded:
		if c == nil {
			p.wrong(CheckFold, "carry", at, "a carry ends, and none is under way")
			return nil
		}
		c.ends(p, b, at)
		p.carry = nil
	}
	return nil
}

// uninterrupted checks that no other fact comes between the records of an entity.
func (c *carry) uninterrupted(p *partition, f *events.Fact, at Place) {
	if c == nil || c.parts == 0 && !c.half {
		return
	}
	switch f.Body.(type) {
	case *events.CarryBegun, *events.EntityCarried:
		return
	}
	p.wrong(CheckFold, "carry", at, "%s comes before the entity %q is carried to its end, or before all that are not tasks", f.Body.Name(), c.of)
}

// entity takes the next record.
func (c *carry) entity(p *partition, f *events.Fact, b *events.EntityCarried, at Place) error {
	c.records++
	if c.half && f.Task != c.of || (f.Task == "") != (c.parts > 0) {
		p.book.add(Finding{Check: CheckFold, Kind: "carry", Place: at, Task: f.Task, What: "it is carried before the rows of the task before it, or before all that are not tasks"})
		c.rows, c.piece = nil, nil
	}
	c.of, c.half = f.Task, !b.Last
	encoding := []byte(b.Encoding)
	if b.Piece != "" {
		if c.piece = append(c.piece, b.Piece...); b.More {
			return nil
		}
		encoding, c.piece = c.piece, nil
	}
	row := events.PartRow{Kind: b.Kind, ID: b.ID, Encoding: encoding}
	if f.Task != "" {
		if row.ID = f.Task; b.ID != "" {
			row.ID += "\x00" + b.ID
		}
	}
	if c.rows = append(c.rows, row); !b.Last {
		return nil
	}
	rows := c.rows
	c.rows = nil
	if f.Task != "" {
		c.task(p, f.Task, rows, at)
		return nil
	}
	if c.parts--; !c.first {
		return nil
	}
	if err := carriedPart(p, rows[0]); err != nil {
		p.wrong(CheckFold, "carry", at, "the carried %s %q cannot be read: %v", b.Kind, b.ID, err)
	}
	if c.parts == 0 {
		return skipJudged(p, c, at)
	}
	return nil
}

// task takes the rows of a task.
func (c *carry) task(p *partition, id string, rows []events.PartRow, at Place) {
	wrong := func(check, format string, args ...any) {
		p.book.add(Finding{Check: check, Kind: "carry", Place: at, Task: id, What: fmt.Sprintf(format, args...)})
	}
	if id <= c.last {
		wrong(CheckFold, "it is carried after the task %q: tasks are carried once, in the order of their IDs", c.last)
		return
	}
	c.last = id
	c.tasks++
	c.left--
	t, err := events.DecodeTask(rows[0].Encoding, rows[1:])
	if err != nil || t.ID != id {
		wrong(CheckFold, "its carried rows cannot be read, or are of another task (%v)", err)
		return
	}
	accepted, err := events.ParsePosition(t.Incarnation)
	if err != nil || !accepted.Before(c.begun) {
		wrong(CheckAttempts, "it is carried with the incarnation %q, which is not before the carry began", t.Incarnation)
		return
	}
	s := storyOf(p, t, at)
	known, ok := p.known[digestOf(id)]
	switch {
	case !c.first:
		if what := unlike(p, s, known, ok, t); what != "" {
			wrong(CheckAttempts, "the carried task is not the one of its facts: %s", what)
		}
		return
	case ok:
		wrong(CheckInputs, "it is carried with the incarnation %s, although it was accepted again since the log begins (INV12)", t.Incarnation)
		return
	case c.gone[id]:
		wrong(CheckAttempts, "it is carried although it was forgotten since the log begins")
		return
	}
	u := c.unknown[id]
	if u == nil {
		u = newUncarried()
	}
	u.compare(p, t, s, wrong)
	delete(c.unknown, id)
	adopt(p, t, s, at)
}

// ends takes the end of the carry.
func (c *carry) ends(p *partition, b *events.CarryEnded, at Place) {
	if b.Records != c.records || b.Tasks != c.tasks || c.parts > 0 || c.half || c.first && c.left != 0 {
		p.wrong(CheckFold, "carry", at, "the carry ends with %d records and %d tasks by its last fact, and the log has %d and %d; %d tasks are missing, and %d entities that are not tasks", b.Records, b.Tasks, c.records, c.tasks, c.left, c.parts)
	}
	for id, u := range c.unknown {
		u.never(p, id)
	}
}

// sameBegin compares the state in a CarryBegun with what follows from the facts.
func sameBegin(p *partition, b *events.CarryBegun, at Place) {
	var st events.PartitionState
	if err := json.Unmarshal(b.State, &st); err != nil {
		p.wrong(CheckFold, "carry", at, "the state in CarryBegun cannot be read: %v", err)
		return
	}
	for in, j := range p.inputs {
		if next := st.Inputs[in].Next; next != j.judged {
			p.wrong(CheckInputs, "carry", at, "the carry begins with the resume point %d of %s, and the facts judged it up to offset %d", next, j.topic, j.judged)
		}
	}
	if st.Tasks != int64(len(p.known)) || st.SettingsOffset != p.settings.offset || st.LimitsOffset != p.limitsOffset || st.Correcting != p.correcting {
		p.wrong(CheckFold, "carry", at, "the carry begins with %d tasks, the settings of offset %d and the limits of offset %d, and the facts say %d, %d and %d", st.Tasks, st.SettingsOffset, st.LimitsOffset, len(p.known), p.settings.offset, p.limitsOffset)
	}
}
