package supervisor

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// Loss is what is known about an input that does not hold the records to be read next.
type Loss struct {
	// Start is the offset of the first record that the input holds.
	Start int64
	// Accepted is the latest loss of this input that an operator accepted, nil if there was none. Offset is the offset of its
	// record in the definitions.
	Accepted *events.AcceptedLoss
	Offset   int64
}

// covered says whether the operator gave up all records from the resume point to the first one that still exists. So an
// acceptance does not cover records that are lost later. (The operator may have seen an earlier resume point: everything between
// the two has been judged.)
func (l *Loss) covered(at int64) bool {
	a := l.Accepted
	//mutant:loss-is-covered
	return a != nil && a.From <= at && at <= l.Start && l.Start <= a.To
}

// lose handles an input that does not hold the records to be read next. The partition stops, unless nothing else of that input is
// left to judge and an operator gave up the lost records. docs/protocol.md, "Inputs that are lost".
func (i *inbox) lose(in events.Input, loss Loss, err error) error {
	q, at := i.queue(in), i.state.Partition.Inputs[in].Next
	if loss.Start == at && i.state.Partition.Inputs[in].Hash == "" {
		return inputLost(in, err) // nothing is left to give up
	}
	if q == nil || q.judged != at || len(q.items) > 0 || !loss.covered(at) {
		if a := loss.Accepted; a != nil && a.To > at {
			err = fmt.Errorf("%w (the accepted loss of the offsets from %d to before %d does not cover it)", err, a.From, a.To)
		}
		return inputLost(in, err)
	}
	q.given = &events.InputLossAccepted{Input: in, From: at, To: loss.Start, Offset: loss.Offset, Reason: loss.Accepted.Reason, By: loss.Accepted.By}
	return nil
}

// giveUp records the losses that an operator accepted, and continues reading where the inputs begin.
func (i *inbox) giveUp() error {
	for _, q := range i.queues {
		if q.given == nil {
			continue
		}
		body := q.given
		*q = inputQueue{kind: q.kind, judged: body.To, fetched: body.To, last: events.Record{Offset: -1}}
		if err := i.record(&events.Fact{Body: body, Cause: events.CauseDefinition(body.Offset)}, nil); err != nil {
			return err
		}
		//mutant:read-on-behind-a-loss
		i.say(ReadInputs{i.gen, map[events.Input]int64{body.Input: body.To}})
		if err := i.timers.moveHorizon(); err != nil {
			return err
		}
	}
	return nil
}

// missedKept bounds the records that are remembered as missing. Few are missed at once: an epoch ends with the first.
const missedKept = 64

// misses handles the error with which a record of an input was not found. The first time only the epoch ends: an owner that was deposed
// without knowing it looks for records that the next owner has trimmed. If it still owns the partition, it claims it again, and a record
// that is missing then is lost.
func misses(i *inbox, at events.Cause, err error) error {
	if err == nil || i.missed[at] {
		return err
	}
	if i.missed == nil || len(i.missed) >= missedKept {
		i.missed = map[events.Cause]bool{}
	}
	i.missed[at] = true
	//mutant:missing-record-is-looked-for-again
	return errEpochOver
}
