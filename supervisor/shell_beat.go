package supervisor

import "time"

// beat holds back deciding until the next beat of the process: the owners of all its partitions decide at the same instants,
// so that what they send to the same places goes together.
type beat struct {
	timer *time.Timer
	rests bool
}

func (b *beat) begin() {
	b.timer = time.NewTimer(time.Hour)
	b.timer.Stop()
}

// rest waits for the next beat; with none there is nothing to wait for.
func (b *beat) rest(pace time.Duration) {
	if pace <= 0 {
		return
	}
	b.rests = true
	b.timer.Reset(pace - time.Since(beats)%pace)
}

// beats is when the beats of this process began.
var beats = time.Now()
