package supervisor

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// waking holds back the effects of an owner whose process did not run for a while. Another owner may have taken over the
// partition, finished the very attempts that this owner is about to send, and undone them. So nothing leaves until the owner
// has learned where its log ends now, and that all facts below that end are its own. docs/protocol.md,
// "An owner that slept asks for the end of its log".
type waking struct {
	*core
	question question
	// held says that effects are held back. end is the end of the log as answered, negative until the answer arrives.
	held bool
	end  int64
}

func (w *waking) reset() { *w = waking{core: w.core} }

// begin holds the effects back and asks.
func (w *waking) begin() {
	w.held, w.end, w.question.asked = true, -1, false // an end that was requested before the sleep is no answer
	w.question.ask()
	w.say(AskEnd{w.gen, w.question.number})
}

// learn compares the end with this owner's own writes, once its epoch has begun. Contiguous acknowledgements up to the end prove that nobody else has
// written below it.
func (w *waking) learn() error {
	switch {
	case !w.held || w.end < 0 || w.epoch.phase == phaseClaiming:
	//mutant:own-up-to-the-end
	case w.epoch.confirmed >= w.end:
		w.held = false
	case len(w.flying) == 0:
		return errEpochOver
	}
	return nil
}

// Woke says that the process did not run for a while, or that nobody knows whether it did. unsent are the effects that the
// caller has taken and not sent: the owner takes them back, in order.
func (o *Owner) Woke(now events.Instant, gen uint64, unsent []uint64) {
	if !o.epoch.accepts(now, gen) || !slices.Contains([]phase{phaseClaiming, phaseResuming, phaseOwning}, o.epoch.phase) {
		return // before it claims, an owner has no effects, and it reads its claim back
	}
	o.outbox.takeBack(unsent)
	o.waking.begin()
}
