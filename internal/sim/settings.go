package sim

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// settings are those of the namespace. An operator changes how long tasks are remembered and whether alerts are repeated, and each node hears of it late: until then
// it may take a partition over that has adopted the new settings.
type settings struct {
	w *World
	// records holds the settings as of each record, by offset; the first entry is for a namespace without a record.
	records []events.Settings
}

func newSettings(w *World) *settings { return &settings{w, []events.Settings{w.cfg.Settings}} }

// last returns the latest settings and their offset.
func (s *settings) last() (events.Settings, int64) {
	n := len(s.records) - 1
	return s.records[n], int64(n)
}

// change is an operator's change.
func (s *settings) change() {
	next, offset := s.last()
	next.RememberFor = events.Duration(24 * time.Hour)
	if s.w.rng.IntN(3) > 0 {
		next.RememberFor = events.Duration(time.Duration(1+s.w.rng.IntN(8)) * time.Second)
	}
	if next.RemindAfter == 0 {
		next.RemindAfter = events.Duration(3 * time.Second)
	} else {
		next.RemindAfter = 0
	}
	s.records = append(s.records, next)
	s.w.note("settings %d: tasks are remembered for %s", offset+1, next.RememberFor)
	for _, n := range s.w.nodes {
		s.publishTo(n, s.w.rng.IntN(15_000))
	}
}

// publishTo gives a node's owners the current settings, d milliseconds from now. (A starting node knows them at once.)
func (s *settings) publishTo(n *node, d int) {
	now, offset := s.last()
	level := s.w.levels.level
	life := n.life
	s.w.after(1+d+s.w.lag(), func() {
		n.receive(life, func() {
			for _, slot := range n.slots {
				slot.owner.SetSettings(slot.now(), now, offset, level)
				slot.execute()
			}
		})
	})
}

// heal makes every node hear of the latest settings.
func (s *settings) heal() {
	if len(s.records) > 1 || s.w.levels.level > olderBuild {
		for _, n := range s.w.nodes {
			s.publishTo(n, 0)
		}
	}
}

// adopted checks that a partition adopts the settings of the record that it names.
func (s *settings) adopted(p *partition, b *events.SettingsAdopted) {
	if b.Offset < 0 || b.Offset >= int64(len(s.records)) || s.records[b.Offset] != b.Settings {
		s.w.fail("partition %d adopts other settings than those of the record %d", p.id, b.Offset)
	}
	switch was := p.state.Partition.Settings.RememberFor; {
	case b.Offset == 0:
	case b.Settings.RememberFor < was:
		s.w.saw(sawRememberShorter)
	case b.Settings.RememberFor > was:
		s.w.saw(sawRememberLonger)
	}
}

// forgets notes the tasks that are forgotten when their workflows say so.
func (s *settings) forgets(p *partition, b *events.TasksSwept) {
	for _, id := range b.Tasks {
		switch t, _ := p.state.Task(id); {
		case t == nil || t.RememberFor == 0:
		case t.RememberFor < p.state.Partition.Settings.RememberFor:
			s.w.saw(sawForgottenBefore)
		case t.RememberFor > p.state.Partition.Settings.RememberFor:
			s.w.saw(sawForgottenLater)
		}
	}
}
