package node

import (
	"cmp"
	"encoding/json"
	"sync"

	"github.com/sagalog/sagalog/events"
)

// maxMarks bounds the marks of dead letters that a namespace remembers. For one more, all readers forget the oldest.
const maxMarks = 100_000

// markRecord is the record that marked a dead letter.
type markRecord struct {
	events.DeadLetterMark
	// At is when it was written.
	At events.Instant
}

// letterMarks are the marks of dead letters by letter.
type letterMarks struct {
	// most bounds the marks; zero is maxMarks.
	most int
	mu   sync.RWMutex
	all  map[string]markAt
	// order holds the letters in the order of their records, from place first on. The places of marks that were replaced are stale.
	order []string
	first int
}

type markAt struct {
	markRecord
	place int
}

// of returns the mark of a dead letter; false if it has none, or if it is forgotten.
func (m *letterMarks) of(letter string) (markRecord, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, ok := m.all[letter]
	return r.markRecord, ok
}

// record takes a record of the definitions that the catalog has taken. A mark that cannot be read, because a later version wrote it, counts for nothing.
func (m *letterMarks) record(rec *events.Record) {
	if rec.Header(events.HeaderType) != events.TypeDeadLetterMark || rec.Value == nil {
		return
	}
	var r markRecord
	e, data, err := events.Open(rec)
	if err != nil || json.Unmarshal(data, &r.DeadLetterMark) != nil || r.Letter == "" || r.Mark != "" && r.Mark != events.MarkRedriven && r.Mark != events.MarkDismissed {
		return
	}
	r.At, _ = events.ParseInstant(e.Time)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, r.Letter)
	if r.Mark == "" {
		return
	}
	if m.all == nil {
		m.all = map[string]markAt{}
	}
	m.all[r.Letter] = markAt{r, m.first + len(m.order)}
	m.order = append(m.order, r.Letter)
	most := cmp.Or(m.most, maxMarks)
	if len(m.order) > 2*most {
		m.compact()
	}
	for len(m.all) > most {
		if letter := m.order[0]; m.all[letter].place == m.first {
			delete(m.all, letter)
		}
		m.order, m.first = m.order[1:], m.first+1
	}
}

// compact drops the places of marks that were replaced. It is called with mu held.
func (m *letterMarks) compact() {
	var order []string
	for i, letter := range m.order {
		if x, ok := m.all[letter]; ok && x.place == m.first+i {
			x.place = len(order)
			order = append(order, letter)
			m.all[letter] = x
		}
	}
	m.order, m.first = order, 0
}
