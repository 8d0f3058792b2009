package dronedelivery

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// status is an active fault as GET /fault shows it.
type status struct {
	Fault Fault  `json:"fault"`
	Until string `json:"until,omitempty"`
}

// controlRoutes are the paths of a service that are not calls: no fault affects them, and they do not appear in the ledger.
func (s *service) controlRoutes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", s.serveHealth)
	m.HandleFunc("GET /ledger", s.serveLedger)
	m.HandleFunc("GET /fault", s.serveFaults)
	m.HandleFunc("PUT /fault", s.beginFault)
	m.HandleFunc("DELETE /fault", s.endFaults)
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refusal(http.StatusNotFound, "the %s service knows %s, GET /ledger, GET /healthz, and GET, PUT and DELETE /fault",
			s.kind.name, s.kind.template).write(w)
	})
	return m
}

func (s *service) serveHealth(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	err := s.ledger.broken
	s.mu.Unlock()
	if err != nil {
		refusal(http.StatusServiceUnavailable, "%v", err).write(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"service": s.kind.name, "status": "ok"})
}

// serveLedger streams the lines that were complete at the time of the request, so that a reader never sees half a line. It
// supports byte ranges, so that a reader can follow the ledger.
func (s *service) serveLedger(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	end := s.ledger.end
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	http.ServeContent(w, r, "", time.Time{}, s.ledger.upTo(end, 0))
}

func (s *service) serveFaults(w http.ResponseWriter, _ *http.Request) {
	list := []status{}
	for _, a := range s.faults.inForce(time.Now()) {
		list = append(list, a.status())
	}
	writeJSON(w, http.StatusOK, map[string][]status{"faults": list})
}

func (s *service) beginFault(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err != nil {
		refusal(http.StatusBadRequest, "the body could not be read: %v", err).write(w)
		return
	}
	var f Fault
	if err := json.Unmarshal(b, &f); err != nil {
		refusal(http.StatusBadRequest, "the body is not a fault: %v", err).write(w)
		return
	}
	if err := f.validate(); err != nil {
		refusal(http.StatusUnprocessableEntity, "%v", err).write(w)
		return
	}
	a := s.faults.begin(f, time.Now())
	st := a.status()
	s.log.Info("fault begins", "mode", a.Mode, "rate", a.Rate, "until", cmp.Or(st.Until, "never"))
	writeJSON(w, http.StatusOK, st)
}

func (s *service) endFaults(w http.ResponseWriter, r *http.Request) {
	n := s.faults.end(Mode(r.URL.Query().Get("mode")), time.Now())
	s.log.Info("faults end", "count", n)
	writeJSON(w, http.StatusOK, map[string]int{"ended": n})
}

func (a *active) status() status {
	st := status{Fault: a.Fault}
	if !a.until.IsZero() {
		st.Until = stamp(a.until)
	}
	return st
}
