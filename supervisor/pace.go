package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// paces are the beats in which a partition decides, by how many attempts of it are running. An attempt that waits for a beat
// waits for others that run at the same time, so what it loses is in proportion to what is saved for all: a task that runs
// alone loses nothing. Each is a multiple of the shorter ones, so that partitions of different pace meet.
var paces = []struct {
	running int
	beat    time.Duration
}{{64, 8 * time.Millisecond}, {24, 4 * time.Millisecond}, {8, 2 * time.Millisecond}, {4, time.Millisecond}}

// Pace is how long the beats are in which the owner should decide now; zero is at once. A request to a broker costs about the
// same whatever it carries, and so does all that follows from it, at agents too: eight partitions that decide about each report
// by itself spend more on requests than on the work.
func (o *Owner) Pace() time.Duration {
	if o.waiting() >= o.cfg.BatchFacts/4 {
		return 0
	}
	n := 0
	for _, running := range o.running {
		n += running
	}
	for _, p := range paces {
		if n >= p.running {
			return p.beat
		}
	}
	return 0
}

// While work is under way, a batch takes besideWork submissions and one more for each besideFacts other facts. A step needs
// two batches of its owner, so what those hold besides is what each task waits for: a burst of submissions that fills them
// would slow down the tasks that are to make room for it, and those that it brings gain nothing by being accepted sooner.
// A task has some twelve facts, so one in eight is more than work off.
const (
	besideWork  = 4
	besideFacts = 8
	// workingFor is how long a report counts as a sign of work.
	workingFor = 100 * time.Millisecond
)

// working says whether reports come: agents are working, and the next steps wait for the owner.
func (o *Owner) working() bool { return o.reportedAt != 0 && o.now.Sub(o.reportedAt) <= workingFor }

// takes says whether the batch takes another input of that topic.
func (o *Owner) takes(b *batch, in events.Input) bool {
	return in != events.Submissions || !o.working() || b.submissions < besideWork+(len(b.facts)-b.submissions)/besideFacts
}

// judgedOne counts an input that made a fact.
func (o *Owner) judgedOne(b *batch, in events.Input) {
	switch in {
	case events.Submissions:
		b.submissions++
	case events.Reports:
		o.reportedAt = o.now
	}
}
