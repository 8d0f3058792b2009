package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// Stats counts what an owner has done since it was created.
type Stats struct {
	// Foreign counts the records of others behind this owner's facts, each of which ended an epoch; Void the records that were folded and
	// count for nobody.
	Facts, Foreign, Void, Epochs, Resent uint64
	Timeouts                             uint64
	// Judged says what became of the inputs.
	Judged PerInput[Judged]
	// Durable counts the facts that the log has acknowledged.
	Durable uint64
}

// Status is what an owner reports about itself.
type Status struct {
	Phase string
	// Assigned says that the owner is a candidate or owns the partition. Owning says that it decides in an epoch
	// that it claimed.
	Assigned, Owning bool
	// Suspended says that the owner decides nothing because its clock is suspect.
	Suspended bool
	// Before is the node that owned the partition before this one, empty if there was none.
	Before string
	// Epoch is the current epoch of the partition as far as it is folded.
	Epoch      events.Epoch
	Generation uint64
	// Time is the owner's time, which only a correction brings back.
	Time                       events.Instant
	InMemory, InFlight, Unsent int
	// UnsentBytes is the size of the effects in memory that are not acknowledged.
	UnsentBytes int
	// Waiting counts the inputs that were read and are to be judged now: not those that wait for definitions to be read, or for effects to be
	// acknowledged.
	Waiting int
	// Oldest is the oldest effect in memory without an answer.
	Oldest Unanswered
	// Delayed is the oldest effect in memory for each delayed destination that has any.
	Delayed []Unanswered
	// Missing lists the operations that steps wait for because no live instance offers them, or no broker takes their requests.
	Missing []events.Missing
	// Queues lists the attempts that may start and wait, as of the last second.
	Queues []Queue
	// Refused is the error with which the broker refused the latest facts because of their size, nil after others were acknowledged, or when
	// there is nothing to append any more.
	Refused error
	// Read is how far each input is judged: the offset of the first record that is not.
	Read PerInput[int64]
	// Effects are the effects in memory without an answer, by class, as of the last second.
	Effects []EffectClass
	// Unopened is what waits for sealed values that cannot be opened now.
	Unopened Unopened
	// Blocked is the input that timers have waited for longest while none of it can be read.
	Blocked Blocked
	Stats   Stats
}

// Queue is the attempts that wait to be started, by what they ask of their agents.
type Queue struct {
	events.Call
	// Missing says that no live instance offers the operation; otherwise the instances are busy, unless Behind is set.
	Missing bool
	// Behind says that the brokers take no requests for it.
	Behind bool
	// Waiting counts the attempts in memory, at most twice Config.Queue; More says that the store has more.
	Waiting int
	More    bool
}

// Unanswered is an effect that no broker has acknowledged yet. The zero value means that there is no such effect.
type Unanswered struct {
	// Topic is relative to the namespace; for an input that is forwarded it ends with the partition, as in "submissions/5".
	Topic string
	// Since is when its fact was decided.
	Since events.Instant
}

// Blocked is an input with records that are in the topic and cannot be read, for example behind an open transaction. The zero
// value means that there is no such input.
type Blocked struct {
	Input events.Input
	// Since is when the owner asked for the end offset that it has not reached.
	Since events.Instant
}

// Status returns what the owner reports about itself.
func (o *Owner) Status() Status {
	e := o.epoch
	s := Status{
		Phase: e.phase.String(), Assigned: e.phase != phaseIdle, Owning: e.phase == phaseOwning, Suspended: o.suspended, Generation: o.gen, Time: o.now,
		InFlight: len(o.flying), Unsent: o.outbox.unsent(), Stats: o.stats, Refused: o.refused,
	}
	s.UnsentBytes = o.outbox.bytes
	s.Oldest = oldest(o.outbox.entries)
	for _, d := range o.delays.list {
		s.Unsent += d.waiting()
		s.UnsentBytes += d.bytes
		if u := oldest(d.entries); u.Since != 0 {
			s.Delayed = append(s.Delayed, u)
			if s.Oldest.Since == 0 || u.Since < s.Oldest.Since {
				s.Oldest = u
			}
		}
	}
	if o.outbox.bounded() {
		s.Waiting = o.inbox.waiting()
	}
	if s.Owning {
		s.Before = e.before
		s.Missing, s.Blocked, s.Queues = o.dispatch.missing(), o.timers.blocked(), o.dispatch.waiting()
		s.Unopened = o.unopened.status()
		s.Read, s.Effects = positions(o.inbox), measure(o.outbox)
	}
	if o.state != nil {
		s.Epoch, s.InMemory = o.state.Partition.Epoch, o.state.InMemory()
	}
	return s
}

// beatOf returns the length of the beats at which the owner should decide; zero means at once.
func beatOf(o *Owner) time.Duration {
	if o.inbox.backlogs() < o.cfg.BatchFacts/4 {
		return o.dispatch.linger()
	}
	return 0
}
