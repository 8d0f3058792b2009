package verify

import "github.com/sagalog/sagalog/events"

// lastEnd returns when the running attempt ends whatever progress it shows.
func (w *work) lastEnd() events.Instant { return max(w.completeBy, w.capBy) }

// needs says whether a report of the running attempt needs a fact: any result does, and of the progress the first one.
func (w *work) needs(r events.Result) bool {
	return r != events.ResultProgress || w.heartbeat > 0 && w.progressedAt == 0
}

// mustBeat notes what a start says about progress.
func mustBeat(t *telling, st *step, r *stepRule, b *events.StepStarted) {
	w := &st.do
	w.heartbeat, w.capBy = b.Heartbeat, b.CapBy
	if r != nil && r.Heartbeat != b.Heartbeat {
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "attempt %d starts with the heartbeat %s, and its definition says %s", b.Attempt, b.Heartbeat, r.Heartbeat)
	}
	if b.Heartbeat > 0 && (b.CapBy < b.CompleteBy || b.CompleteBy > t.fact.Time.Add(b.Heartbeat.Std())) {
		t.wrong(CheckAttempts, "heartbeat_too_long", b.Step, "attempt %d may be silent until %s, and its heartbeat is %s, its cap %s", b.Attempt, b.CompleteBy, b.Heartbeat, b.CapBy)
	}
}

// progressed checks that progress belongs to a running attempt, gives it as much time as it says, and is recorded once in each heartbeat.
func (t *telling) progressed(b *events.StepProgressed) {
	st := t.step(b.Step)
	if st == nil || !st.do.running || st.do.attempts != b.Attempt || st.do.heartbeat == 0 {
		t.wrong(CheckAttempts, "progress_of_nothing", b.Step, "progress of attempt %d, which is not running, or has no heartbeat", b.Attempt)
		return
	}
	w := &st.do
	beat := w.heartbeat.Std()
	if want := max(w.completeBy, min(t.fact.Time.Add(2*beat), w.capBy)); b.CompleteBy != want {
		t.wrong(CheckAttempts, "progress_extends", b.Step, "the progress of attempt %d extends it until %s, and not until %s", b.Attempt, b.CompleteBy, want)
	}
	if w.progressedAt != 0 && t.fact.Time < w.progressedAt.Add(beat) {
		t.wrong(CheckAttempts, "progress_too_often", b.Step, "the progress of attempt %d is recorded at %s and at %s, within a heartbeat of %s", b.Attempt, w.progressedAt, t.fact.Time, w.heartbeat)
	}
	w.completeBy, w.progressedAt = b.CompleteBy, t.fact.Time
}
