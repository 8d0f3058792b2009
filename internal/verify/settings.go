package verify

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// settings are what a partition has adopted.
type settings struct {
	known    bool
	offset   int64
	remember time.Duration
}

// adopt checks that a partition adopts only settings of a later record than it has. (Before there were records, each owner adopted its
// own.)
func (p *partition) adopt(b *events.SettingsAdopted, at Place) {
	s := &p.settings
	if s.known && b.Offset <= s.offset && (b.Offset != 0 || s.offset != 0) {
		p.wrong(CheckOwnership, "settings", at, "the settings of the record %d are adopted after those of the record %d", b.Offset, s.offset)
	}
	*s = settings{true, b.Offset, b.Settings.RememberFor.Std()}
}

// remembered checks that nothing is forgotten earlier than the adopted settings say.
func (p *partition) remembered(f *events.Fact, b *events.TasksSwept, at Place) {
	if b.EndedBefore.Add(p.settings.remember) > f.Time {
		p.wrong(CheckAttempts, "swept", at, "tasks that ended before %s are forgotten at %s, but this partition remembers them for %s", b.EndedBefore, f.Time, p.settings.remember)
	}
}
