package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	"github.com/sagalog/sagalog/events"
)

// Acknowledged is a submission that its producer saw acknowledged.
type Acknowledged struct {
	// ID may be empty if the producer relied on the record's key and noted only the place.
	ID string `json:"id"`
	// Partition is -1 if the producer did not note the place.
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// ReadAcknowledged reads a line for each submission: an object {"id", "partition", "offset"}, or the bare ID. An object
// with an ID and no offset counts as a bare ID: `sagalog task submit -o jsonl` prints such a line for a duplicate.
func ReadAcknowledged(r io.Reader) ([]Acknowledged, error) {
	list := []Acknowledged{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if line[0] != '{' {
			list = append(list, Acknowledged{ID: string(line), Partition: -1})
			continue
		}
		var a struct {
			ID        string `json:"id"`
			Partition *int32 `json:"partition"`
			Offset    *int64 `json:"offset"`
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if a.Partition == nil && a.Offset != nil || a.ID == "" && a.Offset == nil {
			return nil, fmt.Errorf("line %d: an acknowledged submission needs an id, or partition and offset, or all three", n)
		}
		out := Acknowledged{ID: a.ID, Partition: -1}
		if a.Offset != nil {
			out.Partition, out.Offset = *a.Partition, *a.Offset
		}
		list = append(list, out)
	}
	return list, lines.Err()
}

// acks are the acknowledged submissions that have not been found yet.
type acks struct {
	places map[int32]map[int64]string
	ids    map[string]bool
	// placed holds the IDs of places, and whether a submission with that ID is trimmed and was accepted.
	placed map[string]bool
	total  int
}

func newAcks(list []Acknowledged) *acks {
	a := &acks{places: map[int32]map[int64]string{}, ids: map[string]bool{}, placed: map[string]bool{}, total: len(list)}
	for _, x := range list {
		if x.Partition < 0 {
			a.ids[x.ID] = true
			continue
		}
		if a.places[x.Partition] == nil {
			a.places[x.Partition] = map[int64]string{}
		}
		a.places[x.Partition][x.Offset] = x.ID
		if x.ID != "" {
			a.placed[x.ID] = false
		}
	}
	return a
}

// seen notes a record of submissions. Other checks follow it from there.
func (a *acks) seen(c *check, r *events.Record) {
	want, placed := a.places[r.Partition][r.Offset]
	if !placed && len(a.ids) == 0 {
		return
	}
	id := string(r.Key)
	sub, _, err := readSubmission(r)
	if err == nil { // otherwise it is rejected, and has no ID except perhaps its key
		id = sub.ID
	}
	delete(a.ids, id)
	if !placed {
		return
	}
	delete(a.places[r.Partition], r.Offset)
	if want != "" && want != id && err == nil {
		c.book.add(Finding{Check: CheckInputs, Kind: "acknowledged_other", Place: Place{r.Topic, r.Partition, r.Offset}, Task: want,
			What: fmt.Sprintf("the submission was acknowledged at this place, but the submission there is for %q", id)})
	}
}

// judged notes the fact that judged a record of submissions that is trimmed. It proves that the record was there. Only the acceptance of a
// task says that the record was its submission: a request may name a task too, even before its submission comes.
func (a *acks) judged(c *check, number int32, offset int64, f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.Submitted:
		want := a.places[number][offset]
		delete(a.places[number], offset)
		delete(a.ids, f.Task)
		if _, asked := a.placed[f.Task]; asked {
			a.placed[f.Task] = true
		}
		if want != "" && want != f.Task {
			c.book.add(Finding{Check: CheckInputs, Kind: "acknowledged_other", Place: Place{c.topics.Submissions, number, offset}, Task: want,
				What: fmt.Sprintf("the submission was acknowledged at this place, but by its fact the submission there was for %q", f.Task)})
		}
	case *events.InputRejected:
		maps.DeleteFunc(a.places[number], func(at int64, _ string) bool { return at >= offset && at <= max(offset, b.Last) })
	case *events.InputForwarded:
		delete(a.places[number], offset)
	}
}

// carried notes a task that was accepted before the log begins.
func (a *acks) carried(id string) {
	delete(a.ids, id)
	if _, asked := a.placed[id]; asked {
		a.placed[id] = true
	}
}

// rest reports the submissions that were not found.
func (a *acks) rest(c *check) {
	c.count.Acknowledged = a.total
	if c.cfg.Acknowledged != nil && a.total == 0 {
		c.book.warn(Finding{Check: CheckInputs, Kind: "no_acknowledgements", What: "no acknowledged submissions were given, so this does not show that none was lost (--acknowledged)"})
	}
	topic := c.topics.Submissions
	for number, offsets := range a.places {
		if number < c.number && !c.wanted(number) {
			continue
		}
		for offset, id := range offsets {
			f := Finding{Check: CheckInputs, Kind: "acknowledged_lost", Place: Place{topic, number, offset}, Task: id}
			switch {
			case number >= c.number:
				f.What = fmt.Sprintf("the submission was acknowledged in partition %d, but there are %d partitions", number, c.number)
			case offset < c.bounds[topic][number].Start && a.placed[id]:
				continue // no fact names it, so it was passed as a duplicate
			case offset < c.bounds[topic][number].Start:
				c.book.cannot(CheckInputs, "%s/%d was trimmed to offset %d: acknowledged submissions before that cannot be checked", topic, number, c.bounds[topic][number].Start)
				continue
			case offset >= c.bounds[topic][number].End:
				f.What = fmt.Sprintf("the submission was acknowledged at this place, but the topic ends at offset %d (INV12)", c.bounds[topic][number].End)
			default:
				f.What = "the submission was acknowledged at this place, but there is no such record (INV12)"
			}
			c.book.add(f)
		}
	}
	for id := range a.ids {
		home := events.Home(id, c.number)
		if !c.wanted(home) {
			continue
		}
		if start := c.bounds[topic][home].Start; start > 0 {
			c.book.cannot(CheckInputs, "%s/%d was trimmed to offset %d: acknowledged submissions before that cannot be checked", topic, home, start)
			continue
		}
		c.book.add(Finding{Check: CheckInputs, Kind: "acknowledged_lost", Task: id, What: fmt.Sprintf("the submission was acknowledged, but %s does not hold it (INV12)", topic)})
	}
}
