package past

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/sagalog/sagalog/events"
)

// Fields are what is known of a task, by name. The names are those of its JSON (FORMAT.md, "State"), with dots; a step has its path in place of a
// number, such as steps.charge.attempt, and so has an entry of a list its ID if it has one, such as requests.r-1.verb. The values are JSON.
type Fields map[string]string

// fieldsOf returns the fields of a task: nil of none. If only is not empty, of its steps that one is there and no other.
func fieldsOf(t *events.Task, only string) (Fields, error) {
	if t == nil {
		return nil, nil
	}
	head := *t
	head.Steps = nil
	f := Fields{}
	if err := f.add("", &head); err != nil {
		return nil, err
	}
	for _, s := range t.Steps {
		if only != "" && s.Path != only {
			continue
		}
		if err := f.add("steps."+s.Path, s); err != nil {
			return nil, err
		}
		delete(f, "steps."+s.Path+".path")
	}
	return f, nil
}

func (f Fields) add(prefix string, x any) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	f.members(prefix, v)
	return nil
}

// whole are members that users put in: their insides are theirs, and are one field.
var whole = []string{"input", "output", "with", "progress", "detail", "payload"}

func (f Fields) members(prefix string, v map[string]json.RawMessage) {
	for name, raw := range v {
		at := name
		if prefix != "" {
			at = prefix + "." + name
		}
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case slices.Contains(whole, name):
			f[at] = string(raw)
		case raw[0] == '{' && json.Unmarshal(raw, &object) == nil:
			f.members(at, object)
		case raw[0] == '[' && json.Unmarshal(raw, &list) == nil:
			f.members(at, elements(list))
		default:
			f[at] = string(raw)
		}
	}
}

// elements names the entries of a list: by their ID or request if each has one, so that one which comes or goes does not change the names of the others;
// otherwise by their index.
func elements(list []json.RawMessage) map[string]json.RawMessage {
	for _, key := range []string{"id", "request"} {
		named := map[string]json.RawMessage{}
		for _, e := range list {
			var members map[string]json.RawMessage
			var name string
			if json.Unmarshal(e, &members) == nil && json.Unmarshal(members[key], &name) == nil && name != "" {
				named[name] = e
			}
		}
		if len(named) == len(list) { // each has a name that no other has
			return named
		}
	}
	named := map[string]json.RawMessage{}
	for i, e := range list {
		named[strconv.Itoa(i)] = e
	}
	return named
}

// Change is a field of a task that differs between two moments. From and To are JSON, and empty where the field is absent.
type Change struct {
	Task  string `json:"task"`
	Field string `json:"field"`
	From  string `json:"-"`
	To    string `json:"-"`
	// Whole says that the task exists at one of the moments only.
	Whole bool `json:"-"`
	By    *By  `json:"by,omitempty"`
}

// By is the last fact that changed a field.
type By struct {
	Partition int32          `json:"partition"`
	Offset    int64          `json:"offset"`
	Type      events.Name    `json:"type"`
	Time      events.Instant `json:"time"`
}

// String is the place and the type.
func (b *By) String() string { return fmt.Sprintf("%d@%d %s", b.Partition, b.Offset, b.Type) }

// MarshalJSON writes the values as the JSON that they are; null where the field is absent.
func (c Change) MarshalJSON() ([]byte, error) {
	type plain Change
	return json.Marshal(struct {
		plain
		From json.RawMessage `json:"from"`
		To   json.RawMessage `json:"to"`
	}{plain(c), orNull(c.From), orNull(c.To)})
}

func orNull(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}
