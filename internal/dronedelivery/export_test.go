package dronedelivery

import "net/http"

// Handler lets tests call a service without its listener, since a synctest bubble allows no network.
func (f *Fleet) Handler(service string) http.Handler {
	for _, s := range f.services {
		if s.kind.name == service {
			return s
		}
	}
	panic("no service " + service)
}

// Stop ends calls that are under way, as the end of Run does.
func (f *Fleet) Stop() { close(f.stop) }

// LateMax is how late an unkind service may be.
const LateMax = lateMax
