package api

import "net/http"

// Handler returns the whole API, for a server that the caller runs.
func (s *Server) Handler() http.Handler { return s.handler }
