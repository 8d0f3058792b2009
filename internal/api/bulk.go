package api

import "net/http"

func (s *Server) bulk(w http.ResponseWriter, r *http.Request) {}
