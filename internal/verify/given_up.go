package verify

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// givenUp passes inputs that an operator gave up because they were deleted before they were judged. It reports them as a warning:
// nothing else accounts for them.
func (p *partition) givenUp(b *events.InputLossAccepted, at Place) error {
	j := p.inputs[b.Input]
	if j == nil {
		p.wrong(CheckInputs, "given_up_wrongly", at, "the fact gives up inputs of the unknown topic %s", b.Input)
		return nil
	}
	if b.From != j.judged || b.To < b.From || b.To > j.End {
		p.wrong(CheckInputs, "given_up_wrongly", at, "the fact gives up the inputs of %s from offset %d to before %d, but everything below %d is judged and the topic ends at %d (INV12)",
			j.topic, b.From, b.To, j.judged, j.End)
	}
	exist := 0
	err := j.upTo(b.To, func(r *events.Record) {
		exist++
		p.input(j, r)
	})
	if err != nil {
		return err
	}
	if j.in == events.Submissions {
		clear(p.swept)
	}
	j.judged, j.since = max(j.judged, b.To), at.Offset
	p.count.Inputs["given_up"] += int(max(b.To-b.From, 0))
	what := fmt.Sprintf("an operator gave up %s, from offset %d to before %d: deleted before they were judged", j.topic, b.From, b.To)
	if b.From == b.To {
		what = fmt.Sprintf("an operator accepted that %s has lost the record before offset %d, by which the topic is known to be the same", j.topic, b.From)
	}
	if b.Reason != "" {
		what += fmt.Sprintf(" (%s)", events.Clip(b.Reason, 200))
	}
	if exist > 0 {
		what += fmt.Sprintf("; %d of these records exist again, and are not judged", exist)
	}
	p.book.warn(Finding{Check: CheckInputs, Kind: "given_up", Place: at, What: what})
	return nil
}
