package supervisor

import "time"

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
