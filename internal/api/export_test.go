package api

import (
	"context"
	"net"
	"net/http"
)

// Handler returns the whole API, for a server that the caller runs.
func (s *Server) Handler() http.Handler { return s.handler }

// ListRoom is the memory that lists share.
type ListRoom = listRoom

// NewListRoom is newListRoom.
var NewListRoom = newListRoom

// Enter asks for room for a list of a client's request.
func (r ListRoom) Enter(request *http.Request, q Query) error {
	return r.enter(context.WithValue(request.Context(), exchangeKey{}, exchange{r: request}), q, false)
}

// Bounded returns a listener with room for that many connections.
func Bounded(l net.Listener, connections int) net.Listener {
	return &boundedListener{Listener: l, room: make(chan struct{}, connections)}
}

// Quantile is the estimate of a quantile in seconds.
func Quantile(d *StatDurations, q float64) *float64 { return d.quantile(q) }
