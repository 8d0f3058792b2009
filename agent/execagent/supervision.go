package execagent

import (
	"context"
	"errors"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
)

// reason says why a command was ended; zero if it ended by itself.
type reason int

const (
	byItself reason = iota
	timeUp
	attemptStopped
	outputEndless
)

const (
	// stopGrace bounds the grace while the agent itself is stopping. The runner waits for 2 s by default (agent.Config.Grace).
	stopGrace = 1500 * time.Millisecond
	// graceShare is the part of an attempt's time that the grace may take at most: one in graceShare.
	graceShare = 4
	// A part of an attempt's time is reserved for its report, as the runner does for a last try: one in reportShare, within bounds.
	reportShare     = 20
	reportMarginMin = 20 * time.Millisecond
	reportMarginMax = time.Second
)

// schedule says when a command is ended. The whole end lies before the complete-by time. So nothing of the command runs when its undo
// may begin, which is the namespace's grace after that time, and the report still says what the command wrote.
type schedule struct {
	// limited is false outside an attempt.
	limited    bool
	term, kill time.Time
}

func scheduleOf(ctx context.Context, w *events.Work, grace time.Duration, began time.Time) schedule {
	end, ok := ctx.Deadline()
	if !ok {
		return schedule{}
	}
	if w.Heartbeat > 0 {
		// A command shows no progress, so its attempt ends a heartbeat after its start.
		end = end.Add(-w.CapBy.Sub(w.CompleteBy))
	}
	left := end.Sub(began)
	kill := end.Add(-min(max(left/reportShare, reportMarginMin), reportMarginMax))
	return schedule{limited: true, kill: kill, term: kill.Add(-min(grace, left/graceShare))}
}

// supervision ends a command in time.
type supervision struct {
	process  *process
	grace    time.Duration
	schedule schedule
	// reason says why the command was asked to end, and killed that this was not enough.
	reason reason
	killed bool
}

// watch returns when nothing of the command runs any more. full is closed when it has written too much.
func (s *supervision) watch(ctx context.Context, full <-chan struct{}) {
	term, kill := stoppedTimer(), stoppedTimer()
	defer term.Stop()
	defer kill.Stop()
	if s.schedule.limited {
		term.Reset(time.Until(s.schedule.term))
		kill.Reset(time.Until(s.schedule.kill))
	}
	over := ctx.Done()
	for {
		select {
		case <-s.process.ended:
			return
		case <-term.C:
			s.terminate(timeUp)
		case <-full:
			full = nil
			s.terminate(outputEndless)
			kill.Reset(s.patience(s.grace))
		case <-over:
			over = nil
			grace := s.grace
			if errors.Is(context.Cause(ctx), agent.ErrStopped) {
				grace = min(grace, stopGrace)
			}
			s.terminate(attemptStopped)
			kill.Reset(s.patience(grace))
		case <-kill.C:
			s.killed = true
			s.process.kill()
		}
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// terminate asks the command to end, unless it has been asked.
func (s *supervision) terminate(why reason) {
	if s.reason == byItself {
		s.reason = why
		s.process.terminate()
	}
}

// patience is how long the command may take to end from now on.
func (s *supervision) patience(grace time.Duration) time.Duration {
	if s.schedule.limited {
		grace = min(grace, time.Until(s.schedule.kill))
	}
	return max(0, grace)
}
