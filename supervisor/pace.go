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
	return o.beat()
}

// beat is the pace that what runs asks for.
func (o *Owner) beat() time.Duration {
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

const (
	// workingFor is how long the end of an attempt counts as a sign of work.
	workingFor = 100 * time.Millisecond
	// besideUnit is the beat that would take Config.Beside submissions; shorter ones take their share.
	besideUnit = 64 * time.Millisecond
	// besideFacts is how many facts of the tasks under way allow one more submission. One that is accepted brings three at
	// least, so what ends is always made up for.
	besideFacts = 2
)

// working says whether attempts end: agents are working, and the next steps wait for the owner.
func (o *Owner) working() bool { return o.endedAt != 0 && o.now.Sub(o.endedAt) <= workingFor }

// beside returns how many submissions a batch takes while work is under way, whatever else is in it. A step needs two
// batches of its owner, so what those hold besides is what each task waits for: a burst of submissions that fills them slows
// down the tasks that are to make room for it. Yet what waits must come into the queues, where alone its priority counts.
func (o *Owner) beside() int {
	beat := o.beat()
	if beat == 0 {
		return o.cfg.Beside
	}
	return max(1, int(time.Duration(o.cfg.Beside)*beat/besideUnit))
}

// most returns how many inputs of a topic the batch may have made facts of, judged now.
func (o *Owner) most(b *batch, in events.Input) int {
	if in != events.Submissions || !o.working() {
		return o.cfg.BatchFacts
	}
	return o.beside() + (len(b.facts)-b.submissions)/besideFacts
}
