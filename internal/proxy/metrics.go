package proxy

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of sagalog_api_forwarded_total.
const (
	// outcomeAnswered: the owner answered, with whatever status.
	outcomeAnswered = "answered"
	// outcomeMoved: the partition has left the node that was asked.
	outcomeMoved = "moved"
	// outcomeUnreachable: no answer came in time, or not from the node that was asked.
	outcomeUnreachable = "unreachable"
	// outcomeCut: the answer broke off.
	outcomeCut = "cut"
	// outcomeCancelled: the client hung up, or this node stops.
	outcomeCancelled = "cancelled"
	// outcomeNowhere: no owner was known.
	outcomeNowhere = "nowhere"
)

func newOutcomes(r prometheus.Registerer) (*prometheus.CounterVec, error) {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sagalog_api_forwarded_total",
		Help: "Requests passed to the node that owns their partition, by outcome.",
	}, []string{"outcome"})
	for _, o := range []string{outcomeAnswered, outcomeMoved, outcomeUnreachable, outcomeCut, outcomeCancelled, outcomeNowhere} {
		v.WithLabelValues(o) // so that a rate includes the first one
	}
	return v, r.Register(v)
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeAnswered
	case errors.Is(err, ErrMoved):
		return outcomeMoved
	}
	return outcomeUnreachable
}
