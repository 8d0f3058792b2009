package recordschema

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// ordered is an object of JSON whose members keep the order in which they were added.
type ordered[T any] struct {
	names  []string
	values map[string]T
}

// add adds a member. The first of a name counts.
func (o *ordered[T]) add(name string, value T) {
	if o.values == nil {
		o.values = map[string]T{}
	}
	if _, ok := o.values[name]; !ok {
		o.names = append(o.names, name)
		o.values[name] = value
	}
}

// MarshalJSON writes the members in their order.
func (o ordered[T]) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, name := range o.names {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := plain(name)
		if err != nil {
			return nil, err
		}
		value, err := plain(o.values[name])
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// plain encodes without escapes for HTML.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

func upper(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func names(of []events.Name) (list []string) {
	for _, n := range of {
		list = append(list, string(n))
	}
	return list
}
