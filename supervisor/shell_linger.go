package supervisor

import "time"

// linger holds back deciding until the next beat of the process: the owners of all its partitions decide at the same
// instants, so that records for the same destinations are sent together.
type linger struct {
	timer *time.Timer
	// lingers says that the owner waits for the next beat.
	lingers bool
}

func (l *linger) begin() {
	l.timer = time.NewTimer(time.Hour)
	l.timer.Stop()
}

// wait waits for the next beat, if there is one.
func (l *linger) wait(beat time.Duration) {
	if beat <= 0 {
		return
	}
	l.lingers = true
	l.timer.Reset(beat - time.Since(beats)%beat)
}

// beats is the instant from which the beats of this process count.
var beats = time.Now()
