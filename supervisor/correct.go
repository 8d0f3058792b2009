package supervisor

import "github.com/sagalog/sagalog/events"

// correct brings the time of the log back to the clock, if the clock is right and the log's time is ahead because the clock of an earlier
// owner was wrong. It returns true while nothing else may be decided. docs/protocol.md, "The time goes back by one fact".
//
// An epoch that corrects the time does nothing else: it begins with the correction, corrects every live task, and ends. So no part of the
// owner compares instants of two times.
func (e *epoch) correct() (bool, error) {
	p := &e.state.Partition
	//mutant:time-goes-back-by-agreement
	wrong := e.agreed && p.Time.Sub(e.read) > events.TimeCorrectable
	switch {
	case e.ending:
		return true, nil
	case p.Correcting != 0:
		return true, e.correctTasks()
	case !wrong:
		return false, nil
	case len(e.flying) > 0:
		return true, nil
	case p.NextSequence > 0:
		return false, errEpochOver // and the next one begins with the correction
	}
	e.now, e.behind = e.read, 0
	return true, e.record(&events.Fact{Time: e.read, Body: &events.TimeCorrected{To: e.read}, Cause: e.lastCause()}, nil)
}

// correcting says whether this epoch corrects the time, and so does nothing else.
func (e *epoch) correcting() bool { return e.ending || e.state.Partition.Correcting != 0 }

// correctedPage is how many live tasks are read from the store at once.
const correctedPage = 200

// correctTasks corrects all live tasks. Those without a fact of the wrong time have the right instants, but their rows may not: by the
// wrong time some of their timers were due.
func (e *epoch) correctTasks() error {
	to := e.state.Partition.Correcting
	for {
		//mutant:all-live-tasks-are-corrected
		ids, err := e.store.Unended(e.corrected, correctedPage)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if e.full() {
				return nil
			}
			if err := e.record(&events.Fact{Task: id, Body: &events.TimeCorrected{To: to}, Cause: e.lastCause()}, nil); err != nil {
				return err
			}
			e.corrected = id
		}
		if len(ids) < correctedPage {
			break
		}
	}
	e.ending = true
	return e.record(&events.Fact{Body: &events.TimeCorrected{To: to, Settled: true}, Cause: e.lastCause()}, nil)
}
