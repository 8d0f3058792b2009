package dronedelivery

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// The faults of unkind services, as the ledger names them. Fail is one of theirs too.
const (
	// Failed carries out the call, and answers that it failed.
	Failed Mode = "failed"
	// Late answers 504 at once and carries out the call later.
	Late Mode = "late"
	// Reset carries out the call and breaks the connection.
	Reset Mode = "reset"
	// Cut carries out the call and breaks the connection within the answer.
	Cut Mode = "cut"
)

const (
	// unkindRate is the share of calls that are hit: something goes wrong in most tasks, but most tasks still end.
	unkindRate = 0.16
	// unkindMost bounds the hits of one key below the attempts of a step, so that a delivery fails because of a refusal and not
	// because every attempt was hit by chance.
	unkindMost = 2
	// lateMax is below the two seconds (the engine's grace) in which a request may still land after its complete-by time: no
	// engine can undo an effect that comes later.
	lateMax = 1500 * time.Millisecond
)

var (
	unkindFaults = []Mode{Fail, Failed, Late, Reset, Reset, Cut}
	// Statuses that say that nothing was done: some retryable without effect, some in doubt.
	statusesBefore = []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusTooManyRequests}
	// Statuses that may come after an effect. A 4xx other than 408 promises that there was none.
	statusesAfter = []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout}
)

// unkindness decides what an unkind service does to its calls. A kind service has none.
type unkindness struct {
	r *rand.Rand
	// hits counts the calls that were hit, by resource and key.
	hits map[digest]int
	// keepKeys is Config.KeepKeys.
	keepKeys bool
}

func newUnkindness(service string, cfg Config) *unkindness {
	return &unkindness{keepKeys: cfg.KeepKeys, r: rand.New(rand.NewPCG(cfg.Seed, uint64(pick(service, "", 1<<16)))), hits: map[digest]int{}}
}

// twist is what happens to one call. The zero twist changes nothing.
type twist struct {
	mode   Mode
	status int
	delay  time.Duration
}

// draw decides by chance, not by the call: sending a call again must not always meet the same fate. The
// service's mutex is held.
func (u *unkindness) draw(c call) twist {
	if u == nil || c.operation() == "" || u.r.Float64() >= unkindRate {
		return twist{}
	}
	of := deedOf(c.resource, c.key)
	if u.hits[of] >= unkindMost {
		return twist{}
	}
	u.hits[of]++
	t := twist{mode: unkindFaults[u.r.IntN(len(unkindFaults))]}
	switch t.mode {
	case Fail:
		t.status = statusesBefore[u.r.IntN(len(statusesBefore))]
	case Failed:
		t.status = statusesAfter[u.r.IntN(len(statusesAfter))]
	case Late:
		t.status, t.delay = http.StatusGatewayTimeout, time.Duration(u.r.Int64N(int64(lateMax)))
	}
	return t
}

// bend changes the answer of a call that was carried out. A refusal stays as it is, since it is the truth.
func (t twist) bend(v verdict) verdict {
	if v.problem != nil {
		return v
	}
	switch t.mode {
	case Failed:
		v.fault, v.status, v.problem = Failed, t.status, refusal(t.status, "it was done, but the answer says that it failed")
	case Reset:
		v.fault, v.status = Reset, 0
	case Cut:
		if len(v.body)+len(v.garbage) > 0 {
			v.fault = Cut
		}
	}
	return v
}

// The ways in which an unkind service remembers the keys of its dos.
const (
	// forgets remembers a key only as long as its result exists: a do after its undo is carried out.
	forgets = iota
	// refuses answers 409 to each repeat of a key.
	refuses
	// repeats gives the first answer again, even when its result has been undone.
	repeats
	keyMemories
)

// recollection says how an unkind service remembers a key. A service without an undo repeats its answers: its refusal of a
// repeated call would be for an operator.
func (s *service) recollection(key string) int {
	if !s.kind.undoable {
		return repeats
	}
	if s.unkind.keepKeys {
		return []int{refuses, repeats}[pick("recollection", key, 2)]
	}
	return pick("recollection", key, keyMemories)
}

// decideRepeat answers a do whose key an unkind service remembers; false if it does not.
func (s *service) decideRepeat(c call) (verdict, bool) {
	at, known := s.memory.did(c)
	if !known {
		return verdict{}, false
	}
	switch s.recollection(c.key) {
	case forgets:
		if d, ok := s.memory.current(c.resource); !ok || d.id != deedOf(c.resource, c.key) {
			return verdict{}, false
		}
	case refuses:
		return refused(refusal(http.StatusConflict, "the Idempotency-Key of %s was used before", c.path)), true
	}
	return s.recall(at), true
}

// decideUndoUnkindly leaves no tombstone: an undo of nothing is answered 404 and forgotten.
func (s *service) decideUndoUnkindly(c call) verdict {
	if !s.memory.takesBack(c) {
		return refused(refusal(http.StatusNotFound, "there is no %s", c.path))
	}
	if pick("answer", c.key, 2) == 0 {
		return verdict{status: http.StatusNoContent, applied: true}
	}
	return verdict{status: http.StatusOK, applied: true, garbage: "it is {gone"}
}

// serveLate answers that a call took too long, and carries it out afterwards.
func (s *service) serveLate(w http.ResponseWriter, c call, t twist, decide func() verdict) {
	answer := refused(refusal(t.status, "the %s service took too long", s.kind.name)).by(Late)
	s.handle(c, func() verdict { return answer })
	s.late.Go(func() {
		timer := time.NewTimer(t.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.stop:
			return
		}
		s.handle(c, func() verdict {
			v := decide()
			v.status, v.fault, v.problem = 0, Late, nil
			return v
		})
	})
	answer.write(w)
}
