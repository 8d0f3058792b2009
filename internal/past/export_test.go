package past

import "github.com/sagalog/sagalog/events"

// FieldsOf returns all fields of a task.
func FieldsOf(t *events.Task) (Fields, error) { return fieldsOf(t, "") }
