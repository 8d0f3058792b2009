package dronedelivery

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// service is one of the services, without its listener.
type service struct {
	kind   kind
	log    *slog.Logger
	faults *faultSet
	// stop is closed when the service ends, so that no delayed or hanging call outlives it.
	stop    <-chan struct{}
	control http.Handler
	// late are the calls that an unkind service has answered and not yet carried out.
	late sync.WaitGroup

	// mu makes deciding, writing and remembering one step. It guards the fields below.
	mu     sync.Mutex
	memory *memory
	ledger *ledger
	// unkind is nil in a kind service.
	unkind *unkindness
}

// newService reads the ledger of a service and activates its initial faults.
func newService(name string, cfg Config, stop <-chan struct{}) (*service, error) {
	s := &service{
		kind: kindOf(name), log: cfg.Log.With("service", name),
		faults: &faultSet{service: name}, stop: stop, memory: newMemory(),
	}
	l, err := openLedger(filepath.Join(cfg.Dir, name+".ndjson"), s.log, func(l Line, at int64) error {
		if ids, ok := s.kind.match(l.Path); ok {
			s.memory.fold(l, resourceName(ids), at)
		} else if l.Applied {
			return fmt.Errorf("path %s is not of the %s service", l.Path, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.ledger = l
	if cfg.Unkind {
		s.unkind = newUnkindness(name, cfg)
	}
	for _, f := range cfg.Faults[name] {
		s.faults.begin(f, time.Now())
	}
	s.control = s.controlRoutes()
	return s, nil
}

// ServeHTTP bypasses http.ServeMux for calls, because the mux would redirect a path with an empty segment to another resource.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.EscapedPath(), "/api/") {
		s.control.ServeHTTP(w, r)
		return
	}
	c, wrong := readCall(s.kind, w, r)
	hit := s.faults.strike(c, time.Now())
	slow, fail, hang := hit[Slow], hit[Fail], hit[Hang]
	waited := slow == nil || slow.pause(slow.Delay, s.stop)
	t := s.twist(c)
	decide := func() verdict {
		switch {
		case !waited:
			return verdict{fault: Slow}
		case fail != nil:
			return refused(refusal(fail.Status, "a fault makes the %s service fail", s.kind.name)).by(Fail)
		case t.mode == Fail:
			return refused(refusal(t.status, "the %s service fails", s.kind.name)).by(Fail)
		case wrong != nil:
			return refused(wrong)
		default:
			return s.decide(c, hit[Refuse], time.Now())
		}
	}
	if t.mode == Late && waited {
		s.serveLate(w, c, t, decide)
		return
	}
	v := s.handle(c, func() verdict {
		v := t.bend(decide())
		if hang != nil && v.fault != Fail && v.status != 0 {
			// It is carried out like any other call, but its line says that it was not answered.
			v.status, v.fault = 0, Hang
		}
		return v
	})
	if v.status == 0 {
		if v.fault == Hang {
			hang.hold(r.Context(), time.Now(), s.stop)
		}
		// This is net/http's way to cut a connection without an answer. It is not logged.
		panic(http.ErrAbortHandler)
	}
	v.write(w)
}

func (s *service) twist(c call) twist {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unkind.draw(c)
}

// handle decides a call, writes the ledger and remembers the result in one step. It returns the answer; status 0 means none.
func (s *service) handle(c call, decide func() verdict) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := decide()
	line := Line{
		Time: stamp(time.Now()), Method: c.method, Path: c.path, IdempotencyKey: c.key, Attempt: c.attempt,
		Status: v.status, Applied: v.applied, Task: c.task, Run: c.run, Undoes: c.undoes, Fault: v.fault, Tombstone: v.tombstone,
		Unkind: s.unkind != nil,
	}
	if v.applied {
		line.Answer = v.body
	}
	at, err := s.ledger.append(line)
	if err != nil {
		s.log.Error("a call has no effect, since the ledger cannot be written", "error", err)
		return refused(refusal(http.StatusInternalServerError, "the ledger cannot be written"))
	}
	s.memory.fold(line, c.resource, at)
	return v
}

// decide answers a well-formed call from the service's memory. mu is held.
func (s *service) decide(c call, refuse *active, now time.Time) verdict {
	switch c.method {
	case http.MethodGet, http.MethodHead:
		d, ok := s.memory.current(c.resource)
		if !ok {
			return refused(refusal(http.StatusNotFound, "there is no %s", c.path))
		}
		return s.recall(d.at)
	case http.MethodPut:
		return s.decideDo(c, refuse, now)
	case http.MethodDelete:
		if s.kind.undoable {
			return s.decideUndo(c, refuse)
		}
	}
	return refused(refusal(http.StatusMethodNotAllowed, "%s allows %s", s.kind.template, s.kind.allow()))
}

// decideDo checks for a repeated call before it checks for refusals: see the package documentation.
func (s *service) decideDo(c call, refuse *active, now time.Time) verdict {
	if s.unkind != nil {
		if v, repeated := s.decideRepeat(c); repeated {
			return v
		}
	} else if s.memory.undoneKey(c.resource, c.key) {
		return refused(refusal(http.StatusConflict, "an undo of %s has already named the Idempotency-Key of this call, so the call came too late", c.path))
	}
	if at, ok := s.memory.did(c); ok && s.unkind == nil {
		return s.recall(at)
	}
	if refuse != nil {
		return refused(refusal(refuse.Status, "a fault makes the %s service refuse", s.kind.name)).by(Refuse)
	}
	body, wrong := s.kind.answer(c, now)
	if wrong != nil {
		return refused(wrong)
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic("dronedelivery: an answer of our own does not encode: " + err.Error())
	}
	status := http.StatusCreated
	if _, ok := s.memory.current(c.resource); ok {
		status = http.StatusOK
	}
	return verdict{status: status, body: b, applied: true}
}

func (s *service) decideUndo(c call, refuse *active) verdict {
	if refuse != nil && !s.memory.undoneKey(c.resource, c.undoes) {
		return refused(refusal(refuse.Status, "a fault makes the %s service refuse", s.kind.name)).by(Refuse)
	}
	if s.unkind != nil {
		return s.decideUndoUnkindly(c)
	}
	return verdict{status: http.StatusNoContent, applied: s.memory.takesBack(c), tombstone: true}
}

// recall repeats the answer to an earlier call.
func (s *service) recall(at int64) verdict {
	b, err := s.ledger.answer(at)
	if err != nil {
		s.log.Error("an earlier answer cannot be read", "error", err)
		return refused(refusal(http.StatusInternalServerError, "the ledger cannot be read"))
	}
	return verdict{status: http.StatusOK, body: b}
}
