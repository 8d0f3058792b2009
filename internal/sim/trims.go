package sim

import (
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// asksToTrim makes the owner say now and then which inputs nobody needs any more.
func (s *slot) asksToTrim() {
	if s.node.w.aside.IntN(8) == 0 && s.owner.Status().Owning {
		supervisor.Trim(s.owner, s.now())
		s.execute()
	}
}

// trim deletes what an owner says that nobody needs any more, and checks that.
func (s *slot) trim(a supervisor.TrimInputs) {
	w, p := s.node.w, s.part
	for _, in := range bothInputs {
		below := a.Below[in]
		if t := p.inputs.of(in); below > t.trimmed {
			mayTrim(p, in, below)
			t.trimmed, t.start = below, max(t.start, below)
			w.note("%s trims %s/%d: it begins at %d", s.node.name, in, p.id, below)
			w.saw(sawTrimmed)
			if p.writer != nil && p.writer.slot != s {
				w.saw(sawTrimmedDeposed)
			}
		}
	}
}

// mayTrim checks that no owner needs the records of an input below an offset, by the log as it is.
func mayTrim(p *partition, in events.Input, below int64) {
	if next := p.state.Partition.Inputs[in].Next; below >= next {
		p.w.fail("%s/%d is trimmed below %d, and the next owner compares the record before its resume point %d", in, p.id, below, next)
	}
	lost := func(c events.Cause) bool {
		input, _, offset, ok := c.Input()
		return ok && input == in && offset < below
	}
	for _, h := range p.state.Held() {
		if lost(h.Cause) {
			p.w.fail("%s/%d is trimmed below %d, and the request %s is held", in, p.id, below, h.Cause)
		}
	}
	for _, d := range p.effects.owed {
		if carries := strings.HasSuffix(d.key, " "+events.EffectDeadLetter) || strings.HasSuffix(d.key, " "+events.EffectForward); carries && lost(carriedBy(d.fact)) {
			p.w.fail("%s/%d is trimmed below %d, and the next owner sends %s", in, p.id, below, d.key)
		}
	}
}
