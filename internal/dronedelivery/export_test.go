package dronedelivery

import "net/http"

// Handler lets tests call a service without its listener, since a network is not allowed in a synctest bubble.
func (f *Fleet) Handler(service string) http.Handler {
	for _, s := range f.services {
		if s.kind.name == service {
			return s
		}
	}
	panic("no service " + service)
}

// Stop does to calls under way what the end of Run does.
func (f *Fleet) Stop() { close(f.stop) }
