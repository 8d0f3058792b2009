package supervisor

import (
	"strings"

	"github.com/sagalog/sagalog/events"
)

// trimming finds out which records of the inputs nobody needs any more. It looks at the state as decided, which is ahead of the log, and
// answers when the last fact of that state is durable. What is not needed then is never needed again, so it does no harm if the answer
// is carried out after the epoch is over. docs/protocol.md, "Inputs are trimmed".
type trimming struct {
	*core
	// below holds, for each input, the lowest offset that is still needed; nil if nothing was asked. after is the offset after the last
	// fact that it depends on.
	below map[events.Input]int64
	after int64
	// cited are the inputs that durable facts above the folded watermark cite. The next owner sends the effects of these facts again, even
	// if they were owed to a delayed destination that has caught up.
	cited []cited
}

// cited is an input whose bytes the effects of a fact carry.
type cited struct {
	by    events.Position
	input events.Cause
}

// TrimInputs deletes the records of the partition's inputs below these offsets, sooner or later. Nothing waits for it.
type TrimInputs struct {
	Generation uint64
	Below      map[events.Input]int64
}

func (TrimInputs) action() {}

func (x *trimming) reset() { *x = trimming{core: x.core} }

// Trim asks which records of the inputs can be deleted. An owner that owns its partition answers with TrimInputs, at once or after the next
// acknowledgement; others do not answer.
func Trim(o *Owner, now events.Instant) {
	if o.suspended || o.epoch.phase != phaseOwning {
		return
	}
	o.enter(now)
	x := o.trimming
	x.forgetPassed()
	x.below, x.after = map[events.Input]int64{}, x.state.Next
	for _, in := range events.Inputs {
		if at := x.needed(in); at > 0 {
			x.below[in] = at
		}
	}
	x.answer()
}

// AskToTrim asks the owner which records of its inputs can be deleted: see Trim. The answer goes to ShellConfig.Trim.
func AskToTrim(s *Shell) { s.post(func(now events.Instant) { Trim(s.owner, now) }) }

// answer answers once all facts that the answer depends on are durable.
func (x *trimming) answer() {
	//mutant:trim-waits-for-durable
	if x.below == nil || x.epoch.confirmed < x.after {
		return
	}
	if len(x.below) > 0 {
		x.say(TrimInputs{x.gen, x.below})
	}
	x.below = nil
}

// needed returns the lowest offset of an input that somebody may still read, 0 if all may be needed.
func (x *trimming) needed(in events.Input) int64 {
	//mutant:trim-keeps-for-delayed
	if x.owesDelayed(in) {
		return 0
	}
	//mutant:trim-keeps-last-passed
	at := x.state.Partition.Inputs[in].Next - 1 // the next owner compares this record
	keep := func(c events.Cause) {
		if input, _, offset, ok := c.Input(); ok && input == in {
			at = min(at, offset)
		}
	}
	for _, h := range x.state.Held() {
		//mutant:trim-keeps-held
		keep(h.Cause)
	}
	for _, m := range x.cited {
		//mutant:trim-keeps-cited
		keep(m.input)
	}
	for _, b := range x.flying {
		for _, f := range b.facts {
			//mutant:trim-keeps-cited-in-flight
			keep(citedBy(f))
		}
	}
	return max(at, 0)
}

// note takes note of a durable fact.
func (x *trimming) note(f *events.Fact) {
	if c := citedBy(f); c != "" {
		x.cited = append(x.cited, cited{f.Position(), c})
		x.forgetPassed()
	}
}

// forgetPassed forgets the facts that the folded watermark has passed.
func (x *trimming) forgetPassed() {
	for p := x.state.Partition.Watermark; len(x.cited) > 0 && !p.Before(x.cited[0].by); {
		x.cited = x.cited[1:]
	}
}

// owesDelayed says whether effects that carry inputs are owed to a delayed destination. Some of them may be in the log alone, so nobody
// knows which inputs they cite.
func (x *trimming) owesDelayed(in events.Input) bool {
	for to := range x.state.Partition.Delayed {
		if to == "dlq."+string(in) || strings.HasPrefix(to, string(in)+"/") {
			return true
		}
	}
	return false
}

// citedBy returns the input whose bytes the effects of a fact carry, empty if they carry none.
func citedBy(f *events.Fact) events.Cause {
	switch b := f.Body.(type) {
	case *events.InputRejected, *events.InputForwarded:
		//mutant:trim-keeps-held-at
		return inputOf(f)
	case *events.EffectFailed:
		//mutant:trim-keeps-failed-forward
		return b.Input
	}
	return ""
}
