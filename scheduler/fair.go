package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// shapeFairBy checks the key by which the queues of agents take turns.
func (o *outline) shapeFairBy(m member) {
	if isText(m.value) && strings.Contains(m.value.Value, "${") {
		o.fairBy = &m
	} else if s, ok := m.text(); ok && checkKey(s) != nil {
		m.fault("the key %s", checkKey(s))
	}
}

// checkKey returns what is wrong with a key that tasks share: that of a concurrency, or for turns.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("is empty; for a task without a key it must be null")
	case len(key) > events.MaxTaskID:
		return fmt.Errorf("has %d bytes; %d are allowed", len(key), events.MaxTaskID)
	case events.CheckTaskID(key) != nil && key != "." && key != "..":
		return fmt.Errorf("%q is not UTF-8 without control characters", abbreviate(key))
	}
	return nil
}

// evalKey returns the key that a task shares with others, "" if it is null. what names the key in an error.
func evalKey(t *exprlang.Template, env *Env, what string) (string, error) {
	raw, err := t.Eval(env.open())
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	key := string(raw)
	switch raw[0] {
	case 'n':
		return "", nil
	case '{', '[':
		return "", fmt.Errorf("%s is an object or a list; a key is a text, a number, true or false", what)
	case '"':
		if err := json.Unmarshal(raw, &key); err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
	}
	if err := checkKey(key); err != nil {
		return "", fmt.Errorf("%s %w", what, err)
	}
	return key, nil
}
