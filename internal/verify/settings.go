package verify

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// settings are what a partition has adopted.
type settings struct {
	known            bool
	offset           int64
	remember, remind time.Duration
	// adopted holds all of them, among them the topics in which submitters may be answered.
	adopted events.Settings
}

// adopt checks that a partition only adopts settings of a later record than those it has. (Before there were records, each owner
// adopted its own.)
func (p *partition) adopt(b *events.SettingsAdopted, at Place) {
	s := &p.settings
	if s.known && b.Offset <= s.offset && (b.Offset != 0 || s.offset != 0) {
		p.wrong(CheckOwnership, "settings", at, "the settings of the record %d are adopted after those of the record %d", b.Offset, s.offset)
	}
	*s = settings{true, b.Offset, b.Settings.RememberFor.Std(), b.Settings.RemindAfter.Std(), b.Settings}
}

// rememberFor returns how long a task is remembered after its end.
func (s *settings) rememberFor(k accepted) time.Duration {
	if k.remember > 0 {
		return k.remember
	}
	return s.remember
}

// timed notes the time of an accepted fact or claim.
func (p *partition) timed(to events.Instant) {
	if p.time != 0 && to.Sub(p.time) > events.TimeJump {
		p.jumpedAt = to
	}
	p.time = max(p.time, to)
}
