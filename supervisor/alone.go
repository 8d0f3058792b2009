package supervisor

import (
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// alone sees to it that an input whose judging ends the process (because memory is exhausted, or by another fatal error that
// nothing in the process can catch) does not end every process after it. If the process before this one ended while it owned
// the partition, the inputs that were there by then are judged one at a time, with a mark on the disk while each is judged. If
// endedAtMost processes in a row ended while they judged the same input, it is rejected unseen. docs/protocol.md, "Poison".
//
// A process whose predecessor ended cleanly keeps a single mark for all its inputs.
type alone struct {
	*core
	// kept is the mark as it is on disk.
	kept Mark
	// careful says that the process before this one ended while it owned the partition.
	careful bool
	// ends are the ends of the inputs, which the first take-over asks for; nil until they are known. Everything that the earlier
	// process read lies below them.
	ends map[events.Input]int64
	// suspects are the inputs that ended a process and have not been judged since.
	suspects []Suspect
}

// Mark is what a process leaves behind, however it ends, for the next one in the same directory.
type Mark struct {
	// Owning says that the process owned the partition, and has not given it up.
	Owning bool `json:"owning,omitempty"`
	// Judging is the input that was being judged alone.
	Judging Suspect `json:"judging,omitzero"`
	// Suspects are the inputs that ended earlier processes.
	Suspects []Suspect `json:"suspects,omitempty"`
}

// Suspect is an input during whose judging processes ended.
type Suspect struct {
	Input events.Cause `json:"input"`
	// Hash is the hash of its record: if the topic was replaced, another record may have these coordinates.
	Hash string `json:"hash"`
	// Ended is how many processes ended in a row while they judged it alone.
	Ended int `json:"ended,omitempty"`
}

// IsZero says whether there is nothing to keep.
func (m *Mark) IsZero() bool { return !m.Owning && m.Judging == Suspect{} && len(m.Suspects) == 0 }

func (m *Mark) equal(o *Mark) bool {
	return m.Owning == o.Owning && m.Judging == o.Judging && slices.Equal(m.Suspects, o.Suspects)
}

// endedAtMost is how many processes may end in a row while they judge one input alone. A process may be killed at any time, and
// that must not turn a good input into a dead letter.
const endedAtMost = 3

func newAlone(c *core) *alone {
	m := c.cfg.Marked
	//mutant:judged-alone-after-an-end
	a := &alone{core: c, kept: m, careful: m.Owning, suspects: slices.Clone(m.Suspects)}
	if j := m.Judging; j.Input != "" {
		s := a.suspect(j.Input, j.Hash)
		s.Ended++
		a.suspects = slices.DeleteFunc(a.suspects, func(o Suspect) bool { return o.Input == s.Input })
		//mutant:ended-process-is-counted
		a.suspects = append(a.suspects, s)
	}
	return a
}

// suspect returns what is known about an input.
func (a *alone) suspect(cause events.Cause, hash string) Suspect {
	for _, s := range a.suspects {
		if s.Input == cause && s.Hash == hash {
			return s
		}
	}
	return Suspect{Input: cause, Hash: hash}
}

// keep writes the mark if it has changed.
func (a *alone) keep(owning bool, judging Suspect) {
	m := Mark{owning, judging, append([]Suspect(nil), a.suspects...)}
	if a.cfg.Mark == nil || m.equal(&a.kept) {
		return
	}
	a.kept = m
	a.cfg.Mark(m)
}

// takeOver keeps the mark of an owner that reads its inputs, and forgets the suspects below the resume points, which are never judged
// again.
func (a *alone) takeOver() {
	a.suspects = slices.DeleteFunc(a.suspects, func(s Suspect) bool {
		in, _, offset, ok := s.Input.Input()
		return !ok || offset < a.state.Partition.Inputs[in].Next
	})
	a.keep(true, Suspect{})
}

// leave keeps the mark of a process that has given up the partition.
func (a *alone) leave() { a.keep(false, Suspect{}) }

// asks says whether the ends of the inputs must be known.
func (a *alone) asks() bool { return a.careful && a.ends == nil }

// learnEnds takes the answer to AskEnds.
func (a *alone) learnEnds(ends map[events.Input]int64) {
	if a.asks() {
		a.ends = ends
	}
}

// begin marks an input that must be judged alone. If the input must not be judged at all, it returns the reason, otherwise "".
func (a *alone) begin(item *input, cause events.Cause) (why string) {
	if !a.careful && len(a.suspects) == 0 {
		return ""
	}
	known := slices.ContainsFunc(a.suspects, func(s Suspect) bool { return s.Input == cause })
	if end, asked := a.ends[item.in]; !known && (!a.careful || asked && item.record.Offset >= end) {
		return ""
	}
	s := a.suspect(cause, events.HashInput(&item.record))
	//mutant:ended-too-often-is-rejected
	if s.Ended >= endedAtMost {
		return fmt.Sprintf("%d processes in a row ended while they judged it", s.Ended)
	}
	s.Ended = 0 // the list has it
	//mutant:marked-while-judged
	a.keep(true, s)
	return ""
}

// judged notes that the process survived judging the input. An input that was rejected unseen stays a suspect until it is below
// the resume point: if the process ended before that, the next one would judge it again.
func (a *alone) judged(item *input) {
	if len(a.suspects) == 0 {
		return
	}
	cause := events.CauseInput(item.in, a.cfg.Partition, item.record.Offset)
	//mutant:rejected-stays-suspect
	a.suspects = slices.DeleteFunc(a.suspects, func(s Suspect) bool { return s.Input == cause && s.Ended < endedAtMost })
}

// rest removes the mark, because no input is being judged.
func (a *alone) rest() {
	if a.kept.Judging.Input != "" {
		//mutant:mark-is-lifted
		a.keep(true, Suspect{})
	}
}
