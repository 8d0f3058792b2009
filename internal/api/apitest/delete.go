package apitest

import (
	"context"

	"github.com/sagalog/sagalog/internal/api"
)

// Delete implements api.Deletions.
func (e *Engine) Delete(_ context.Context, name string, version int) (deleted []int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var left []*api.Workflow
	var numbers []int
	for _, w := range e.definitions[name] {
		if version == 0 || w.Version == version {
			deleted = append(deleted, w.Version)
			continue
		}
		c := *w
		left, numbers = append(left, &c), append(numbers, c.Version)
	}
	for _, w := range left {
		w.Versions = numbers
	}
	e.definitions[name] = left
	return deleted, nil
}
